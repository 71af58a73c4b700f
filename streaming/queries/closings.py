"""The closings of the books: where a query of the ledger can start instead of at its beginning.

    closing (totals, copies, topology after batch n)  +  events after n  -->  any later instant

A closing exists once its row of kind `closing` is in the table `closings`; its copies are in
`closed_contents`. A row of kind `retention` names the closing before which rows were removed.
"""

from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import BeforeHistoryError, QueryError, Row, Tables, iso, quoted

CLOSINGS: Final = "closings"
CLOSED_CONTENTS: Final = "closed_contents"
_OF_CONTENTS: Final = (
    *("query_id", "batch_id", "vhost", "lane", "copy_id", "parent_copy_id", "message_id", "queue"),
    *("state", "position", "enqueued_at", "expires_at", "exchange", "routing_key", "returns"),
    *("body_bytes", "user", "channel"),
)

_CHANNEL_COLUMNS: Final = ("vhost", "lane", "seq", "at", "queue", "user", "channel", "detail")


class Closing(msgspec.Struct, frozen=True):
    """One closing.

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
    batch: dict[str, Any] = {}

    @property
    def resident(self) -> int | None:
        """The copies ready, unacked or held by the broker's count; None if it is unknown."""
        known = self.batch.get("resident")
        return sum(copies for copies, _bytes in known.values()) if known else None


class _Detail(msgspec.Struct):
    last_seq: list[tuple[str, int, int]] = []
    batch: dict[str, Any] = {}


def list_closings(tables: Tables) -> list[Closing]:
    """Every closing, the oldest first."""
    if not tables.has(CLOSINGS):
        return []
    tables.view(CLOSINGS, columns=["query_id", "batch_id", "kind", "at", "detail"])
    found = tables.rows(
        f"SELECT query_id, batch_id, \"at\", detail FROM {CLOSINGS} WHERE kind = 'closing' "
        "ORDER BY batch_id"
    )
    return [_closing(row) for row in found]


def _closing(row: Row) -> Closing:
    detail = msgspec.json.decode(row["detail"] or "{}", type=_Detail)
    at = _instant(row["at"])
    return Closing(row["query_id"], row["batch_id"], at, tuple(detail.last_seq), detail.batch)


def _instant(text: str | None) -> datetime | None:
    said = iso(text)
    return None if said is None else datetime.fromisoformat(said)


class Removal(NamedTuple):
    """A run of retention: it removed rows up to a batch that nothing needed; `at`: when it ran."""

    batch_id: int
    at: str | None


def removals(tables: Tables, *names: str) -> list[Removal]:
    """The runs of retention that removed rows of these tables, the earliest batch first."""
    if not tables.has(CLOSINGS):
        return []
    tables.view(CLOSINGS, columns=["batch_id", "kind", "at", "detail"])
    found = tables.rows(
        f"SELECT batch_id, \"at\", detail FROM {CLOSINGS} WHERE kind = 'retention' "
        'ORDER BY batch_id, "at"'
    )
    wanted = set(names)
    return [
        Removal(row["batch_id"], iso(row["at"]))
        for row in found
        if wanted & set(msgspec.json.decode(row["detail"] or "{}").get("tables", ()))
    ]


def opening_batch(tables: Tables, *names: str) -> int:
    """The batch of the closing before which rows of these tables were removed; -1: none were."""
    return max((one.batch_id for one in removals(tables, *names)), default=-1)


def closing_before(tables: Tables, least: int = -1) -> Closing | None:
    """The last closing that the cut sees whole, not before batch `least`; None: there is none.

    Raises:
        BeforeHistoryError: the events from the cut back to the nearest closing were removed.
    """
    end = None if tables.cut is None else tables.cut.batch_id
    known = list_closings(tables)
    found = [one for one in known if one.batch_id >= least and (end is None or one.batch_id <= end)]
    opening = opening_batch(tables, "events")
    if opening >= 0 and (not found or found[-1].batch_id < opening):
        raise _forgotten("events", opening, known)
    return found[-1] if found else None


def opening_closing(tables: Tables, *names: str) -> Closing | None:
    """The closing before which rows of these tables were removed; None: they are all there."""
    opening = opening_batch(tables, *(names or ("events", "messages", "dead_letters")))
    if opening < 0:
        return None
    return next((one for one in list_closings(tables) if one.batch_id == opening), None)


def _forgotten(table: str, opening: int, known: list[Closing]) -> BeforeHistoryError:
    at = next((one.at for one in known if one.batch_id == opening), None)
    when = "" if at is None else f" ({at:%Y-%m-%d %H:%M:%S} UTC)"
    return BeforeHistoryError(
        f"the rows of {table} up to batch {opening}{when} were removed by tables.retention, so "
        f"nothing earlier is known: ask for batch {opening} or a later instant",
        at,
    )


def closed_contents(tables: Tables, closing: Closing, *, held: bool = False) -> str:
    """Create a view of the copies in a closing; returns its name.

    Args:
        held: whether held copies are in it, with the columns `reason` and `held_at`.
    """
    name = "closed"
    if not tables.has(CLOSED_CONTENTS):
        columns = ", ".join(f'"{column}"' for column in _OF_CONTENTS)
        raise QueryError(
            f"{tables.root}: the table {CLOSED_CONTENTS} is missing, which has the columns "
            f"{columns} of each closing; restore it, or remove the table {CLOSINGS} too"
        )
    with tables.uncut():
        files = tables.files(CLOSED_CONTENTS, {"closing": closing.batch_id}, inclusive=True)
        tables.view(CLOSED_CONTENTS, files=files)
    more = ("reason", "held_at") if held else ()
    columns = ", ".join(f'"{column}"' for column in (*_OF_CONTENTS, *more))
    state = "true" if held else "state <> 'held'"
    tables.drop(name)
    tables.connection.execute(
        f"CREATE TEMP VIEW {name} AS SELECT {columns} FROM {CLOSED_CONTENTS} "
        f"WHERE closing = {closing.batch_id} AND {state}"
    )
    return name


def totals_of(tables: Tables, closing: Closing) -> list[Row]:
    """The totals of a closing: vhost, lane, queue, fate, number."""
    tables.view(CLOSINGS)
    return tables.rows(
        f"SELECT vhost, lane, queue, fate, number FROM {CLOSINGS} WHERE kind = 'total' AND "
        "batch_id = ? ORDER BY ALL",
        [closing.batch_id],
    )


def topology_of(tables: Tables, closing: Closing) -> dict[str, list[dict[str, Any]]]:
    """The details of the topology events that matter at a closing, by vhost, in order."""
    found = topology_texts_of(tables, closing)
    return {vhost: msgspec.json.decode(detail) for vhost, detail in found}


def topology_texts_of(tables: Tables, closing: Closing) -> list[tuple[str, str]]:
    """The same as JSON: a vhost and its details, by vhost."""
    tables.view(CLOSINGS)
    found: list[tuple[str, str]] = tables.values(
        f"SELECT vhost, detail FROM {CLOSINGS} WHERE kind = 'topology' AND batch_id = ? "
        "ORDER BY vhost",
        [closing.batch_id],
    )
    return found


def topology_events(tables: Tables) -> None:
    """Create `topology_event` (vhost, seq, detail): those of the closing, and all later ones."""
    closing = closing_before(tables)
    since = -1 if closing is None else closing.batch_id
    files = tables.files("events", {"batch_id": since})
    tables.view(
        "events", files=files, columns=["vhost", "seq", "kind", "detail", "batch_id"], view="later"
    )
    run = tables.connection.execute
    run(
        "CREATE OR REPLACE TEMP TABLE topology_event AS SELECT vhost, seq, detail FROM later "
        f"WHERE kind = 'topology' AND batch_id > {since}"
    )
    if closing is not None:
        rows = [
            (vhost, number - len(details), msgspec.json.encode(detail).decode())
            for vhost, details in topology_of(tables, closing).items()
            for number, detail in enumerate(details)
        ]
        _insert(tables, "topology_event", rows)


def channel_events(tables: Tables) -> None:
    """Create `channel_event`: those of channels open at the closing, and all later ones.

    Before tables had closings, a checkpoint could be abandoned: then only the last query counts.
    """
    closing = closing_before(tables)
    since = -1 if closing is None else closing.batch_id
    files = tables.files("events", {"batch_id": since})
    columns = ["query_id", "batch_id", *_CHANNEL_COLUMNS, "kind"]
    tables.view("events", files=files, columns=columns, view="later")
    of_last = (
        "query_id = (SELECT arg_max(query_id, {'at': \"at\", 'batch_id': batch_id}) FROM later "
        "WHERE kind = 'batch')"
        if closing is None
        else "true"
    )
    names = ", ".join(quoted(column) for column in _CHANNEL_COLUMNS)
    tables.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE channel_event AS SELECT {names} FROM later "
        f"WHERE kind = 'channel' AND batch_id > {since} AND {of_last}"
    )
    if closing is not None:
        tables.view(CLOSINGS)
        tables.connection.execute(
            f"""
            INSERT INTO channel_event
            SELECT vhost, lane, CAST(detail ->> '$.seq' AS BIGINT),
                   make_timestamptz(CAST(detail ->> '$.at_us' AS BIGINT)), queue,
                   detail ->> '$.user', detail ->> '$.channel', detail ->> '$.detail'
            FROM {CLOSINGS} WHERE kind = 'channel' AND batch_id = {closing.batch_id}
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
        raise _forgotten(table, opening, list_closings(tables))
