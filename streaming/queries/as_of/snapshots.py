"""The snapshots: where a query of the ledger can start instead of at its beginning.

    snapshot (totals, copies, topology after batch n)  +  events after n  -->  any later instant

A snapshot exists once its row of kind `snapshot` is in the table `snapshots`; its copies are in
`snapshot_contents`. A row of kind `retention` names the snapshot before which rows were removed.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from streaming.ledger.batch_detail import BatchDetail
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import (
    BeforeHistoryError,
    QueryError,
    Row,
    Tables,
    iso,
    quoted,
    text,
)

SNAPSHOTS: Final = "snapshots"
SNAPSHOT_CONTENTS: Final = "snapshot_contents"
_TAKEN: Final = "snapshot"
_REMOVED: Final = "retention"
"""The kinds of rows of a snapshot, and of a run of retention."""

_OF_CONTENTS: Final = (
    *("query_id", "batch_id", "vhost", "lane", "copy_id", "parent_copy_id", "message_id", "queue"),
    *("state", "position", "enqueued_at", "expires_at", "exchange", "routing_key", "returns"),
    *("body_bytes", "user", "channel"),
)
OF_BROKER: Final = {
    "envelope": "BLOB",
    "delivered_seq": "BIGINT",
    "delivered_at": "TIMESTAMPTZ",
    "reason": "VARCHAR",
    "held_at": "TIMESTAMPTZ",
    "accepted": "VARCHAR[]",
    "cause": "VARCHAR",
}
"""What the broker has to know of a copy besides the columns of `queue_contents`."""

_CHANNEL_COLUMNS: Final = ("vhost", "lane", "seq", "at", "queue", "user", "channel", "detail")


class Snapshot(msgspec.Struct, frozen=True):
    """One snapshot.

    Attributes:
        batch_id: the last batch in it.
        at: the latest event in it; None: no shard had an event.
        last_seq: the last event of each shard: vhost, lane, seq.
        batch: the detail of the batch row, such as offsets and resident copies.
    """

    query_id: str
    batch_id: int
    at: datetime | None
    last_seq: tuple[tuple[str, int, int], ...] = ()
    batch: BatchDetail = BatchDetail()

    @property
    def resident(self) -> int | None:
        """The copies ready, unacked or held by the broker's count; None if it is unknown."""
        return self.batch.counted


class _Detail(msgspec.Struct):
    last_seq: list[tuple[str, int, int]] = []
    batch: BatchDetail = BatchDetail()


def list_snapshots(tables: Tables) -> list[Snapshot]:
    """Every snapshot, the oldest first."""
    return list(_marks(tables).snapshots)


def _marks(tables: Tables) -> "_Marks":
    """Which snapshots there are, and what retention removed: the same at every cut."""
    with tables.uncut():
        return tables.once("marks of snapshots", lambda: _read_marks(tables))


def _read_marks(tables: Tables) -> "_Marks":
    if not tables.has(SNAPSHOTS):
        return _Marks((), ())
    view = tables.view(
        SNAPSHOTS,
        files=tables.files(SNAPSHOTS, kinds=(_TAKEN, _REMOVED)),
        columns=["query_id", "batch_id", "kind", "at", "detail"],
        view="marks_of_snapshots",
    )
    rows = tables.rows(
        f'SELECT query_id, batch_id, kind, "at", detail FROM {view} '
        f"WHERE kind IN ('{_TAKEN}', '{_REMOVED}') ORDER BY batch_id, \"at\""
    )
    return _Marks(
        tuple(_snapshot(row) for row in rows if row["kind"] == _TAKEN),
        tuple(
            (
                Removal(row["batch_id"], iso(row["at"])),
                set(msgspec.json.decode(row["detail"] or "{}").get("tables", ())),
            )
            for row in rows
            if row["kind"] == _REMOVED
        ),
    )


def _snapshot(row: Row) -> Snapshot:
    detail = msgspec.json.decode(row["detail"] or "{}", type=_Detail)
    at = _instant(row["at"])
    return Snapshot(row["query_id"], row["batch_id"], at, tuple(detail.last_seq), detail.batch)


def _instant(text: str | None) -> datetime | None:
    said = iso(text)
    return None if said is None else datetime.fromisoformat(said)


class Removal(NamedTuple):
    """A run of retention: it removed rows up to a batch that nothing needed; `at`: when it ran."""

    batch_id: int
    at: str | None


class _Marks(NamedTuple):
    """Every snapshot, and every removal with the tables that it removed rows of."""

    snapshots: tuple[Snapshot, ...]
    removals: tuple[tuple[Removal, set[str]], ...]


def removals(tables: Tables, *names: str) -> list[Removal]:
    """The runs of retention that removed rows of these tables, the earliest batch first."""
    wanted = set(names)
    return [removal for removal, of in _marks(tables).removals if wanted & of]


def opening_batch(tables: Tables, *names: str) -> int:
    """The batch of the snapshot before which rows of these tables were removed; -1: none were."""
    return max((one.batch_id for one in removals(tables, *names)), default=-1)


def snapshot_before(tables: Tables) -> Snapshot | None:
    """The last snapshot that the cut sees whole; None: there is none.

    Raises:
        BeforeHistoryError: the events from the cut back to the nearest snapshot were removed.
    """
    end = None if tables.cut is None else tables.cut.batch_id
    known = list_snapshots(tables)
    found = [one for one in known if end is None or one.batch_id <= end]
    opening = opening_batch(tables, "events")
    if opening >= 0 and (not found or found[-1].batch_id < opening):
        raise _forgotten("events", opening, known)
    return found[-1] if found else None


def last_snapshot_before(tables: Tables, begin: datetime | int) -> Snapshot | None:
    """The last snapshot of which all events are before an instant or batch; None: there is none.

    If retention removed the events from there on, it is the one where they begin.
    """
    opening = opening_batch(tables, "events")
    found = [
        one for one in list_snapshots(tables) if one.batch_id == opening or _is_before(one, begin)
    ]
    return max(found, key=lambda one: one.batch_id, default=None)


def _is_before(snapshot: Snapshot, begin: datetime | int) -> bool:
    if isinstance(begin, int):
        return snapshot.batch_id < begin
    return snapshot.at is not None and snapshot.at < begin


def opening_snapshot(tables: Tables, *names: str) -> Snapshot | None:
    """The snapshot before which rows of these tables were removed; None: they are all there."""
    opening = opening_batch(tables, *(names or ("events", "messages", "dead_letters")))
    if opening < 0:
        return None
    return next((one for one in list_snapshots(tables) if one.batch_id == opening), None)


def _forgotten(table: str, opening: int, known: list[Snapshot]) -> BeforeHistoryError:
    at = next((one.at for one in known if one.batch_id == opening), None)
    when = "" if at is None else f" ({at:%Y-%m-%d %H:%M:%S} UTC)"
    return BeforeHistoryError(
        f"the rows of {table} up to batch {opening}{when} were removed by tables.retention, so "
        f"nothing earlier is known: ask for batch {opening} or a later instant",
        at,
    )


def snapshot_contents(tables: Tables, snapshot: Snapshot, *, held: bool = False) -> str:
    """Create a view of the copies in a snapshot; returns its name.

    Args:
        held: whether held copies are in it, with the columns that only the broker needs.
    """
    name = "snapshot_copies"
    if not tables.has(SNAPSHOT_CONTENTS):
        columns = ", ".join(f'"{column}"' for column in _OF_CONTENTS)
        raise QueryError(
            f"{tables.root}: the table {SNAPSHOT_CONTENTS} is missing, which has the columns "
            f"{columns} of each snapshot; restore it, or remove the table {SNAPSHOTS} too"
        )
    with tables.uncut():
        only = {"snapshot": snapshot.batch_id}
        files = tables.files(SNAPSHOT_CONTENTS, only, inclusive=True, up_to=only)
        names = (*_OF_CONTENTS, *(OF_BROKER if held else ()))
        tables.view(SNAPSHOT_CONTENTS, files=files, columns=["snapshot", *names])
    columns = ", ".join(map(quoted, names))
    state = "true" if held else "state <> 'held'"
    tables.define(
        name,
        f"SELECT {columns} FROM {SNAPSHOT_CONTENTS} "
        f"WHERE snapshot = {snapshot.batch_id} AND {state}",
    )
    return name


def totals_of(tables: Tables, snapshot: Snapshot) -> list[Row]:
    """The totals of a snapshot: vhost, lane, queue, fate, number."""
    tables.view(SNAPSHOTS)
    return tables.rows(
        f"SELECT vhost, lane, queue, fate, number FROM {SNAPSHOTS} WHERE kind = 'total' AND "
        "batch_id = ? ORDER BY ALL",
        [snapshot.batch_id],
    )


def topology_of(tables: Tables, snapshot: Snapshot) -> dict[str, list[dict[str, Any]]]:
    """The details of the topology events that matter at a snapshot, by vhost, in order."""
    found = topology_texts_of(tables, snapshot)
    return {vhost: msgspec.json.decode(detail) for vhost, detail in found}


def topology_texts_of(tables: Tables, snapshot: Snapshot) -> list[tuple[str, str]]:
    """The same as JSON: a vhost and its details, by vhost."""
    tables.view(SNAPSHOTS)
    found: list[tuple[str, str]] = tables.values(
        f"SELECT vhost, detail FROM {SNAPSHOTS} WHERE kind = 'topology' AND batch_id = ? "
        "ORDER BY vhost",
        [snapshot.batch_id],
    )
    return found


class TopologyTexts(NamedTuple):
    """What the tables say of the topology up to the cut, each detail as JSON.

    Attributes:
        snapshot: where it begins; None: with the first event.
        stored: the vhosts of the snapshot, each with a list of details.
        later: vhost, lane, seq and detail of each later event, in the order of time.
    """

    snapshot: Snapshot | None
    stored: list[tuple[str, str]]
    later: list[tuple[str, int, int, str]]


def topology_texts(tables: Tables) -> TopologyTexts:
    """Read what the tables say of the topology.

    Raises:
        BeforeHistoryError: as `snapshot_before`.
    """
    return tables.once("topology texts", lambda: _read_topology(tables))


def _read_topology(tables: Tables) -> TopologyTexts:
    columns = ["vhost", "lane", "seq", "at", "kind", "detail"]
    snapshot = events_after_snapshot(tables, columns, "later", kinds=["topology"])
    later: list[tuple[str, int, int, str]] = tables.values(
        "SELECT vhost, lane, seq, detail FROM later WHERE kind = 'topology' ORDER BY \"at\", seq"
    )
    stored = [] if snapshot is None else topology_texts_of(tables, snapshot)
    return TopologyTexts(snapshot, stored, later)


def events_after_snapshot(
    tables: Tables, columns: Iterable[str], view: str, *, kinds: Collection[str] = ()
) -> Snapshot | None:
    """Create a view of the events up to the cut, without those before the snapshot to start from.

    Args:
        kinds: those that are asked for, and others may be missing; empty: all.

    Returns:
        The snapshot; None: there is none, and the view has all events.

    Raises:
        BeforeHistoryError: as `snapshot_before`.
    """
    snapshot = snapshot_before(tables)
    events_after(tables, snapshot, columns, view, kinds=kinds)
    return snapshot


def events_after(
    tables: Tables,
    snapshot: Snapshot | None,
    columns: Iterable[str],
    view: str,
    *,
    kinds: Collection[str] = (),
) -> None:
    """The same from another snapshot on; None: all events."""
    since = -1 if snapshot is None else snapshot.batch_id
    files = tables.files("events", {"batch_id": since}, kinds=kinds)
    told = f"{view}, and before"
    tables.view("events", files=files, columns=list({*columns, "batch_id"}), view=told)
    tables.define(view, f"FROM {quoted(told)} WHERE batch_id > {since}")


def is_in_topology(tables: Tables, snapshot: Snapshot | None, word: str) -> bool:
    """Whether a detail of the topology has a word, from a snapshot on; None: from the beginning."""
    batch_id = None if snapshot is None else snapshot.batch_id
    return tables.once(
        f"{word} in the topology after {batch_id}", lambda: _find_word(tables, snapshot, word)
    )


def _find_word(tables: Tables, snapshot: Snapshot | None, word: str) -> bool:
    events_after(tables, snapshot, ["kind", "detail"], "later", kinds=["topology"])
    having = f"kind = 'topology' AND contains(detail, {text(word)})"
    found = f"SELECT 1 FROM later WHERE {having}"
    if snapshot is not None:
        files = tables.files(SNAPSHOTS, kinds=["topology"])
        columns = ["kind", "batch_id", "detail"]
        stored = tables.view(SNAPSHOTS, files=files, columns=columns, view="stored_topology")
        batch = f"batch_id = {snapshot.batch_id}"
        found += f" UNION ALL SELECT 1 FROM {stored} WHERE {batch} AND {having}"
    return bool(tables.values(f"{found} LIMIT 1"))


def topology_events(tables: Tables) -> None:
    """Create `topology_event` (vhost, seq, detail): those of the snapshot, and all later ones."""
    columns = ["vhost", "seq", "kind", "detail"]
    snapshot = events_after_snapshot(tables, columns, "later", kinds=["topology"])
    tables.connection.execute(
        "CREATE OR REPLACE TEMP TABLE topology_event AS SELECT vhost, seq, detail FROM later "
        "WHERE kind = 'topology'"
    )
    if snapshot is not None:
        rows = [
            (vhost, number - len(details), msgspec.json.encode(detail).decode())
            for vhost, details in topology_of(tables, snapshot).items()
            for number, detail in enumerate(details)
        ]
        _insert(tables, "topology_event", rows)


def channel_events(tables: Tables) -> None:
    """Create `channel_event`: those of channels open at the snapshot, and all later ones.

    Before tables had snapshots, a checkpoint could be abandoned: then only the last query counts.
    """
    columns = ["query_id", *_CHANNEL_COLUMNS, "kind"]
    snapshot = events_after_snapshot(tables, columns, "later")
    of_last = (
        "query_id = (SELECT arg_max(query_id, {'at': \"at\", 'batch_id': batch_id}) FROM later "
        "WHERE kind = 'batch')"
        if snapshot is None
        else "true"
    )
    names = ", ".join(quoted(column) for column in _CHANNEL_COLUMNS)
    tables.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE channel_event AS SELECT {names} FROM later "
        f"WHERE kind = 'channel' AND {of_last}"
    )
    if snapshot is not None:
        tables.view(SNAPSHOTS)
        tables.connection.execute(
            f"""
            INSERT INTO channel_event
            SELECT vhost, lane, CAST(detail ->> '$.seq' AS BIGINT),
                   make_timestamptz(CAST(detail ->> '$.at_us' AS BIGINT)), queue,
                   detail ->> '$.user', detail ->> '$.channel', detail ->> '$.detail'
            FROM {SNAPSHOTS} WHERE kind = 'channel' AND batch_id = {snapshot.batch_id}
            """
        )


def _insert(tables: Tables, table: str, rows: list[tuple[Any, ...]]) -> None:
    if rows:  # columns as lists: a statement per row would be slow
        columns = [list(column) for column in zip(*rows, strict=True)]
        values = ", ".join(["unnest(?)"] * len(columns))
        tables.connection.execute(f"INSERT INTO {table} SELECT {values}", columns)


def refuse_forgotten(tables: Tables, cut: Cut, table: str) -> None:
    """Refuse a cut that lies before what a table still knows.

    Raises:
        BeforeHistoryError: the text says from where on it is known.
    """
    opening = opening_batch(tables, table)
    if opening >= 0 and cut.batch_id < opening:
        raise _forgotten(table, opening, list_snapshots(tables))
