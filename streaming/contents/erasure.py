"""Erase a subject's data: bodies, headers, properties and causes go, the events stay.

    condition --> messages in no queue --> their rows rewritten in messages and dead_letters, and
                                           in events and snapshot_contents without their causes
                                       --> one event of kind `erased`

Only files that hold such a message are rewritten. A message that is still in a queue is left alone,
because its consumer would get nothing: the result counts it, and a later run erases it. The values
by which a search found messages leave with them.

A dead letter may outlive its row in `messages`, which retention removes: the condition is then on
what the dead letter has of it.

Replay: a run that was interrupted has erased some files; the next run erases the rest. For that,
`messages` comes last: without its headers and body a message no longer meets the condition. The
event is written after both and counts what that run erased.

A redrive may put a letter into a queue again meanwhile: see `revived.py`. It keeps its data.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.broker.reject_reasons import X_EXCEPTION_MESSAGE
from streaming.contents.replacement import replace_rows
from streaming.contents.revived import redriven_since
from streaming.contents.revived_keys import Key
from streaming.contents.search_rows import forget
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.upkeep.compaction import conformed
from streaming.queries.as_of.contents import EVENTS, prepare_contents, query_ids
from streaming.queries.as_of.instant import last_batch
from streaming.queries.as_of.snapshots import SNAPSHOT_CONTENTS
from streaming.queries.damage import one_line
from streaming.queries.duckdb_tables import QueryError, Tables, quoted
from streaming.storage.location import Location

ERASED_KIND: Final = "erased"

_DATA: Final = ("body", "headers", "kafka_headers", "properties")
_COLUMNS: Final = {
    "messages": _DATA,
    "dead_letters": (*_DATA, "cause"),
    EVENTS: ("detail", "envelope"),
    SNAPSHOT_CONTENTS: ("cause", "envelope"),
}
"""The columns that hold a subject's data; what a consumer said of a message may be such data."""

_WITH_CAUSE: Final = f"contains(CAST(envelope AS VARCHAR), '{X_EXCEPTION_MESSAGE}')"
_HAS_DATA: Final = {
    EVENTS: f"coalesce(contains(detail, '\"cause\":'), false) OR coalesce({_WITH_CAUSE}, false)",
    SNAPSHOT_CONTENTS: f"cause IS NOT NULL OR coalesce({_WITH_CAUSE}, false)",
}
_MESSAGE_KEY: Final = '(message_id.topic_number, message_id."partition", message_id."offset")'


_ERASED_KEYS: Final = 'SELECT (topic_number, "partition", "offset") FROM erased'
_COPIES: Final = """
    SELECT DISTINCT events.vhost, events.lane, copy_id FROM events SEMI JOIN erased
    ON (message_id.topic_number, message_id."partition", message_id."offset") =
       (erased.topic_number, erased."partition", erased."offset") WHERE copy_id IS NOT NULL
"""
_RECORDS: Final = """
    SELECT coalesce(origin.topic, ''), coalesce(origin."partition", "partition") AS number,
           min(coalesce(origin."offset", "offset")), max(coalesce(origin."offset", "offset")),
           count(*)
    FROM messages SEMI JOIN erased USING (topic_number, "partition", "offset") GROUP BY ALL
    ORDER BY ALL
"""
_KEEP: Final = 'DELETE FROM erased WHERE topic_number = ? AND "partition" = ? AND "offset" = ?'
_SUBJECTS: Final = """
    (FROM messages UNION ALL BY NAME
     SELECT query_id, batch_id, vhost, lane, message_id.topic_number AS topic_number,
            message_id."partition" AS "partition", message_id."offset" AS "offset", origin,
            CASE WHEN len(x_death) = 1 THEN exchange END AS exchange,
            CASE WHEN len(x_death) = 1 THEN routing_key END AS routing_key,
            properties, headers, kafka_headers, body_bytes, body
     FROM dead_letters WHERE (message_id.topic_number, message_id."partition", message_id."offset")
     NOT IN (SELECT (topic_number, "partition", "offset") FROM messages)) AS messages
"""
"""The messages, and those of which only dead letters are left."""


class KafkaRecords(NamedTuple):
    """Where Kafka had erased messages: some of the offsets from the first to the last."""

    topic: str
    partition: int
    first: int
    last: int
    number: int


class Erased(msgspec.Struct, frozen=True):
    """What an erasure found.

    Attributes:
        messages, dead_letters: rows whose data is gone, or would go.
        in_queues: messages that are still in a queue and keep their data.
        keys: the messages; not those in queues.
        copies: vhost, lane and id of every copy that they had.
        records: by topic and partition.
        tables_id: as plans of redrives name these tables.
    """

    messages: int
    dead_letters: int
    in_queues: int
    keys: frozenset[Key] = frozenset()
    copies: frozenset[tuple[str, int, int]] = frozenset()
    records: tuple[KafkaRecords, ...] = ()
    tables_id: str = ""


def erase(
    root: Location,
    where: str,
    reason: str,
    now: datetime,
    *,
    user: str | None = None,
    dry: bool = False,
    threads: int | None = None,
) -> Erased:
    """Erase the messages that meet a condition.

    Args:
        where: a condition in DuckDB's SQL on the columns of `messages`.
        reason: stored with the event; the condition is not, since it may name the subject.
        dry: change nothing, only count.

    Raises:
        QueryError: there are no tables, or the condition is not valid.
        CommitError: other processes kept changing a table.
    """
    with Tables(root.url, root.options, threads=threads) as tables:
        batch_id = last_batch(tables)
        [query_id] = query_ids(tables)
        in_queues = _find(tables, where)
        names = ["dead_letters", EVENTS, SNAPSHOT_CONTENTS, "messages"]
        known = [
            (topic, partition, offset)
            for topic, partition, offset in tables.values(
                'SELECT topic_number, "partition", "offset" FROM erased'
            )
        ]
        left = set(known)
        tables.view(EVENTS, columns=["vhost", "lane", "copy_id", "message_id"])

        def check(table: DeltaTable) -> None:
            revived = redriven_since(root, table, query_id, batch_id).keys & left
            if revived:
                left.difference_update(revived)
                tables.connection.executemany(_KEEP, sorted(revived))
                raise _RevivedError

        counts = {}
        for name in filter(tables.has, names):
            if name == "messages" and not dry:
                forget(root, tables, _ERASED_KEYS)
            counts[name] = _erase_table(root, tables, name, check, dry=dry)
        if not dry:  # again: the job may have indexed what it read before
            forget(root, tables, _ERASED_KEYS)
        in_queues += len(known) - len(left)
        done = Erased(
            counts["messages"],
            counts["dead_letters"],
            in_queues,
            frozenset(left),
            frozenset(tables.values(_COPIES)),
            tuple(KafkaRecords(*row) for row in tables.values(_RECORDS)),
            str(tables.table(EVENTS).metadata().id),
        )
    if not dry and (done.messages or done.dead_letters):
        row = {
            "query_id": query_id,
            "batch_id": batch_id,
            "at": now,
            "kind": ERASED_KIND,
            "reason": reason,
            "number": done.messages,
            "user": user,
            "detail": msgspec.json.encode({"dead_letters": done.dead_letters}).decode(),
        }
        spec = TABLES[EVENTS]
        rows = pa.Table.from_pylist([row], spec.schema.remove_metadata())
        replace_rows(root / EVENTS, spec, [], rows, is_new=True)
    return done


class _RevivedError(Exception):
    """A redrive has put messages into queues that were to be erased; they no longer are."""


def _find(tables: Tables, where: str) -> int:
    """Create the temporary table `erased` of message keys; returns how many are in queues."""
    run = tables.connection.execute
    run(
        "CREATE OR REPLACE TEMP TABLE resident AS SELECT DISTINCT message_id.topic_number AS "
        'topic_number, message_id."partition" AS "partition", message_id."offset" AS "offset" '
        f"FROM ({prepare_contents(tables, whole=True)})"
    )
    tables.view("messages")
    tables.view("dead_letters")
    try:
        for condition in (where, f"(\n{where}\n)"):  # `a) OR (b` and `a ORDER BY b` are none
            sql = f"EXPLAIN SELECT 1 FROM {_SUBJECTS} WHERE\n{condition}"
            if not where.strip() or len(tables.connection.extract_statements(sql)) != 1:
                raise QueryError(f"--where: {where!r} is not one condition")
            run(sql).fetchall()
        run(
            "CREATE OR REPLACE TEMP TABLE found AS "
            'SELECT DISTINCT topic_number, "partition", "offset" '
            f"FROM {_SUBJECTS} WHERE (\n{where}\n)"
        )
    except duckdb.Error as error:
        raise QueryError(f"--where {where!r}: {one_line(error)}") from None
    using = 'USING (topic_number, "partition", "offset")'
    run(f"CREATE OR REPLACE TEMP TABLE erased AS FROM found ANTI JOIN resident {using}")
    [(in_queues,)] = tables.values(f"SELECT count(*) FROM found SEMI JOIN resident {using}")
    return int(in_queues)


def _erase_table(
    root: Location, tables: Tables, name: str, check: Callable[[DeltaTable], None], *, dry: bool
) -> int:
    """Rewrite the files with rows to erase; returns the number of these rows."""
    erased = 0
    for path in ActiveFiles(tables.table(name)).paths:
        while True:
            try:
                erased += _erase_file(root, tables, name, path, check, dry=dry)
            except _RevivedError:
                continue
            break
    return erased


def _erase_file(
    root: Location,
    tables: Tables,
    name: str,
    path: str,
    check: Callable[[DeltaTable], None],
    *,
    dry: bool,
) -> int:
    spec, place = TABLES[name], root / name
    storage, schema = place.storage(), spec.schema.remove_metadata()
    columns = _COLUMNS[name]
    key = f'{_key_of(name)} IN (SELECT (topic_number, "partition", "offset") FROM erased)'
    any_data = " OR ".join(f"{quoted(column)} IS NOT NULL" for column in columns)
    has_data = _HAS_DATA.get(name, any_data)
    with storage.open(path) as file:
        rows = conformed(pq.ParquetFile(file).read(), schema)
    tables.connection.register("old", rows.select(_columns_of(name)))
    [found] = tables.connection.sql(
        f"SELECT list(CAST(row AS BIGINT)) FROM (SELECT row_number() OVER () - 1 AS row, * "
        f"FROM old) WHERE {key} AND ({has_data})"
    ).fetchall()
    tables.connection.unregister("old")
    if not found[0]:
        return 0
    if not dry:
        mask = np.zeros(rows.num_rows, np.bool_)
        mask[found[0]] = True
        for column in columns:
            index = schema.get_field_index(column)
            rows = rows.set_column(index, schema.field(column), _blanked(rows[column], mask))
        replace_rows(place, spec, [path], rows, is_new=True, check=check)
    return len(found[0])


def _key_of(name: str) -> str:
    return '(topic_number, "partition", "offset")' if name == "messages" else _MESSAGE_KEY


def _columns_of(name: str) -> list[str]:
    keys = ["topic_number", "partition", "offset"] if name == "messages" else ["message_id"]
    return [*keys, *_COLUMNS[name]]


def _blanked(column: pa.ChunkedArray, mask: np.ndarray) -> pa.Array:
    """The column with null where the mask is set."""
    whole = column.combine_chunks()
    kept = np.where(mask, -1, np.arange(len(whole)))
    return whole.take(pa.array(kept, pa.int64(), mask=mask))
