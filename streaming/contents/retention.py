"""Remove old rows from the ledger, and nothing that anybody needs.

    snapshot --| files whose rows all lie before it --> removed, but for the rows still needed

Whole files leave the tables, and one small file takes the rows in them that something needs:
messages of copies in queues, the deaths that made those copies, declarations, redrives with what
became of their letters, and open channels. While a redrive is open, messages and dead letters stay.
The balance still closes: it starts at the snapshot. A row in `snapshots` says what was removed,
before any file is, so that queries refuse what is no longer known.

A redrive may put an old letter into a queue again meanwhile: see `revived.py`.

Replay: a run that was interrupted leaves every table at one version or the next; the next run
removes the rest. Two runs at once exclude each other by the version of the table.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.broker.events import ENDINGS
from streaming.config.tables import period_ms
from streaming.contents.replacement import KEPT, replace_rows
from streaming.contents.revived import redriven_since
from streaming.contents.search_rows import forget
from streaming.ledger.errors import CommitError
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES, TableSpec
from streaming.ledger.schema.table_setup import Retention as LogRetention
from streaming.ledger.schema.table_setup import load_table, open_table
from streaming.ledger.upkeep.compaction import conformed
from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.as_of.snapshots import (
    SNAPSHOT_CONTENTS,
    SNAPSHOTS,
    Snapshot,
    list_snapshots,
    opening_batch,
)
from streaming.queries.duckdb_tables import Tables, quoted, text
from streaming.queries.search_index import SEARCH_KEYS
from streaming.queries.vhosts.clients import open_channels
from streaming.storage.location import Location
from streaming.storage.port import Storage

_ATTEMPTS: Final = 5
_STAYING: Final = (
    "'topology', 'erased', 'redrive', 'redriven', 'republished', 'discarded', 'skipped'"
)
"""The events that stay: what declares, and what a person decided about messages."""

_FOLLOWED: Final = f"""
    CREATE OR REPLACE TEMP TABLE followed AS
    WITH moves AS (SELECT vhost, lane, seq, copy_id FROM events
                   WHERE kind IN ('redriven', 'republished')),
    births AS (SELECT born.vhost, born.lane, born.copy_id FROM moves JOIN events AS born
               ON born.vhost = moves.vhost AND born.lane = moves.lane
               AND born.parent_copy_id = moves.copy_id AND born.copy_id = born.seq
               AND born.seq > moves.seq)
    SELECT next.vhost, next.lane, next.seq FROM births JOIN events AS next
    ON next.vhost = births.vhost AND next.lane = births.lane
    AND next.parent_copy_id = births.copy_id AND next.copy_id = next.seq
    UNION
    SELECT birth.vhost, birth.lane, birth.seq FROM events AS moved JOIN events AS birth
    ON birth.vhost = moved.vhost AND birth.lane = moved.lane AND birth.seq = moved.copy_id
    AND birth.copy_id = moved.copy_id WHERE moved.kind IN ('redriven', 'republished', 'discarded')
    UNION
    SELECT vhost, lane, seq FROM births JOIN events USING (vhost, lane, copy_id)
    WHERE copy_id = seq OR kind IN ({", ".join(sorted(text(one.name.lower()) for one in ENDINGS))})
"""
"""The first and last events of copies that were moved, and of those that the moves made: they say
which letters were moved, and what became of them.

The copies that their deaths made begin with one too: without it the letter would seem lost.
"""

_OPEN_REDRIVES: Final = """
    SELECT DISTINCT redrive FROM (
        SELECT vhost, lane, detail ->> '$.redrive' AS redrive,
               max_by(detail ->> '$.what', seq) AS what
        FROM events WHERE kind = 'redrive' GROUP BY ALL)
    WHERE what NOT IN ('finished', 'cancelled') ORDER BY ALL
"""


class Periods(msgspec.Struct, frozen=True):
    """How long rows are kept, by table; 0: for ever.

    Attributes:
        messages_ms: messages as they arrived, with their bodies.
        queues_ms: dead letters by the queue of the death, instead of `dead_letters_ms`.
    """

    events_ms: int = 0
    messages_ms: int = 0
    dead_letters_ms: int = 0
    queues_ms: dict[str, int] = {}

    def shortest(self, table: str) -> int:
        """The shortest period of any row of a table; 0: every row is kept for ever."""
        lengths = [getattr(self, f"{table}_ms")]
        if table == "dead_letters":
            lengths += self.queues_ms.values()
        return min((length for length in lengths if length), default=0)


def periods_of(retention: Mapping[str, str]) -> Periods:
    """The periods of `[tables] retention`."""
    lengths = {name: period_ms(period) or 0 for name, period in retention.items()}
    prefix = "dead_letters."
    queues = {name.removeprefix(prefix): ms for name, ms in lengths.items() if prefix in name}
    events, bodies = lengths.get("events", 0), lengths.get("bodies", 0)
    return Periods(events, bodies, lengths.get("dead_letters", 0), queues)


class Retained(msgspec.Struct, frozen=True):
    """What a run removed from a table.

    Attributes:
        batch_id: everything up to this batch was subject to removal.
        kept: rows of the removed files that are still needed.
    """

    table: str
    batch_id: int
    files: int
    rows: int
    kept: int


def retain(
    root: Location,
    periods: Periods,
    now: datetime | None = None,
    *,
    threads: int | None = 1,
    dry: bool = False,
) -> list[Retained]:
    """Remove the rows whose period is over and that lie before a snapshot.

    Args:
        now: the end of the periods; None: the latest event before the last snapshot.
        dry: change nothing, only say what would be removed.

    Raises:
        CommitError: other processes kept changing a table.
    """
    done: list[Retained] = []
    for name in ("events", "dead_letters", "messages"):
        if not periods.shortest(name):
            continue
        for _ in range(_ATTEMPTS):
            try:
                with Tables(root.url, root.options, threads=threads) as tables:
                    found = _retain(root, tables, name, periods, now, dry=dry)
            except _RedrivenError:  # what it needs has to be read again
                continue
            break
        else:
            raise CommitError(f"{root.url}: redrives kept moving letters; run it again")
        if found is not None:
            done.append(found)
    if periods.shortest("messages") and not dry:
        _forget_values(root, threads)
    return done


def _forget_values(root: Location, threads: int | None) -> None:
    """Remove what a search found messages by that are gone."""
    with Tables(root.url, root.options, threads=threads) as tables:
        until = opening_batch(tables, "messages")
        if until < 0 or not tables.has(SEARCH_KEYS):
            return
        tables.view("messages", columns=["batch_id", "topic_number", "partition", "offset"])
        forget(
            root,
            tables,
            f'SELECT (topic_number, "partition", "offset") FROM messages WHERE batch_id <= {until}',
            until,
        )


class _RedrivenError(Exception):
    """A redrive has put messages into queues since it was read what the queues need."""


def _retain(
    root: Location, tables: Tables, name: str, periods: Periods, now: datetime | None, *, dry: bool
) -> Retained | None:
    """Remove the rows of one table; None: there are none, or a redrive is open."""
    known = list_snapshots(tables)
    end = now or (known[-1].at if known else None)
    if end is None:
        return None
    until = end - timedelta(milliseconds=periods.shortest(name))
    passed = [one for one in known if one.at is not None and one.at <= until]
    if not passed or (name != "events" and has_open_redrive(tables)):
        return None
    return _retain_table(root, tables, name, passed[-1], periods, end, dry=dry)


def has_open_redrive(tables: Tables) -> bool:
    """Whether a redrive is open, which may need any stored message and death."""
    tables.view("events", columns=["vhost", "lane", "seq", "kind", "detail"])
    return bool(tables.values(_OPEN_REDRIVES))


def _retain_table(
    root: Location,
    tables: Tables,
    name: str,
    snapshot: Snapshot,
    periods: Periods,
    now: datetime,
    *,
    dry: bool,
) -> Retained | None:
    spec, place = TABLES[name], root / name
    files = ActiveFiles(tables.table(name))
    condition = _prepare_needs(tables, name, periods, now)
    paths: list[str] = []
    pieces = [spec.schema.remove_metadata().empty_table()]
    rows = 0
    for index in np.flatnonzero(files.greatest("batch_id") <= snapshot.batch_id):
        path = files.paths[index]
        kept = _needed_rows(tables, spec, place.storage(), path, condition)
        gone = int(files.rows[index]) - kept.num_rows
        if gone and (2 * gone >= files.rows[index] or not path.startswith(KEPT)):
            paths.append(path)
            pieces.append(kept)
            rows += gone
    if not paths:
        return None
    kept = pa.concat_tables(pieces)
    result = Retained(name, snapshot.batch_id, len(paths), rows, kept.num_rows)
    if not dry:
        batch_id = tables.table("events").transaction_version(snapshot.query_id)

        def check(table: DeltaTable) -> None:
            if redriven_since(root, table, snapshot.query_id, batch_id or 0).any:
                raise _RedrivenError

        detail = {"tables": [name]}
        _say(root, "retention", snapshot.query_id, snapshot.batch_id, now, detail)
        replace_rows(place, spec, paths, kept, check=None if name == "events" else check)
        if name == "events":
            _drop_snapshots(root, snapshot.batch_id)
    return result


def _prepare_needs(tables: Tables, name: str, periods: Periods, now: datetime) -> str:
    """The condition for the rows of a table that something needs."""
    run = tables.connection.execute
    match name:
        case "messages" | "dead_letters":
            run(
                "CREATE OR REPLACE TEMP TABLE resident AS SELECT vhost, lane, parent_copy_id, "
                f"message_id FROM ({prepare_contents(tables, whole=True)})"
            )
            if name == "messages":
                return (
                    '(topic_number, "partition", "offset") IN (SELECT (message_id.topic_number, '
                    'message_id."partition", message_id."offset") FROM resident)'
                )
            parents = "SELECT (vhost, lane, parent_copy_id) FROM resident"
            lengths: dict[str | None, int] = {None: periods.dead_letters_ms}
            lengths.update(periods.queues_ms.items())
            named = ", ".join(map(text, periods.queues_ms)) or "''"
            conditions = [f"(vhost, lane, copy_id) IN ({parents})"]
            for queue, period_ms in lengths.items():
                of_queue = f"queue NOT IN ({named})" if queue is None else f"queue = {text(queue)}"
                is_kept = f'"at" > {_instant(now, period_ms)}' if period_ms else "true"
                conditions.append(f"({of_queue} AND {is_kept})")
            return " OR ".join(conditions)
        case _:
            channels = sorted(open_channels(tables))
            run("CREATE OR REPLACE TEMP TABLE open_channel (vhost VARCHAR, channel VARCHAR)")
            if channels:
                tables.connection.executemany("INSERT INTO open_channel VALUES (?, ?)", channels)
            tables.view(
                "events",
                columns=["vhost", "lane", "seq", "kind", "copy_id", "parent_copy_id"],
            )
            run(_FOLLOWED)
            return (
                f"kind IN ({_STAYING}) OR (vhost, lane, seq) IN "
                "(SELECT (vhost, lane, seq) FROM followed) OR (kind = 'channel' AND "
                "(vhost, coalesce(detail ->> '$.name', channel)) IN "
                "(SELECT (vhost, channel) FROM open_channel))"
            )


def _needed_rows(
    tables: Tables, spec: TableSpec, storage: Storage, path: str, condition: str
) -> pa.Table:
    """The rows of a file that meet a condition, in order."""
    with storage.open(path) as file:
        found = conformed(pq.ParquetFile(file).read(), spec.schema.remove_metadata())
    tables.connection.register("old", found)
    order = ", ".join(quoted(column) for column in spec.order)
    sql = f"SELECT * FROM old WHERE coalesce({condition}, false) ORDER BY {order}"
    kept: pa.Table = tables.connection.sql(sql).to_arrow_table()
    tables.connection.unregister("old")
    return kept.cast(spec.schema.remove_metadata())


def _instant(now: datetime, period_ms: int) -> str:
    since = (now - timedelta(milliseconds=period_ms)).astimezone(UTC)
    return f"CAST({text(since.isoformat())} AS TIMESTAMPTZ)"


def _say(
    root: Location, kind: str, query_id: str, batch_id: int, now: datetime, detail: dict[str, Any]
) -> None:
    """Add a row about a removal to `snapshots`."""
    spec = TABLES[SNAPSHOTS]
    row = {
        "query_id": query_id,
        "batch_id": batch_id,
        "kind": kind,
        "at": now,
        "detail": msgspec.json.encode(detail, order="deterministic").decode(),
    }
    table = pa.Table.from_pylist([row], spec.schema.remove_metadata())
    open_table(root, SNAPSHOTS, LogRetention())
    replace_rows(root / SNAPSHOTS, spec, [], table, is_new=True)


def _drop_snapshots(root: Location, batch_id: int) -> None:
    """Remove the copies of earlier snapshots: no answer starts from them any more."""
    place = root / SNAPSHOT_CONTENTS
    files = ActiveFiles(load_table(place))
    old = np.flatnonzero(files.greatest("snapshot") < batch_id)
    if len(old):
        paths = [files.paths[index] for index in old]
        replace_rows(
            place, TABLES[SNAPSHOT_CONTENTS], paths, TABLES[SNAPSHOT_CONTENTS].schema.empty_table()
        )
