"""Erase a subject's data: bodies, headers and properties go, the events stay.

    condition --> messages in no queue --> their rows rewritten in messages and dead_letters
                                       --> one event of kind `erased`

Only files that hold such a message are rewritten. A message that is still in a queue is left alone,
because its consumer would get nothing: the result counts it, and a later run erases it.

A dead letter may outlive its row in `messages`, which retention removes: the condition is then on
what the dead letter has of it.

Replay: a run that was interrupted has erased some files; the next run erases the rest. For that,
`messages` comes last: without its headers and body a message no longer meets the condition. The
event is written after both and counts what that run erased.
"""

from contextlib import closing as closing_of
from datetime import datetime
from typing import Final

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streaming.contents.retention import replace_rows
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.storage import Place
from streaming.ledger.upkeep.compaction import conformed
from streaming.queries.as_of import last_batch
from streaming.queries.current_contents import EVENTS, prepare_contents, query_ids
from streaming.queries.duckdb_tables import QueryError, Tables, one_line, quoted

ERASED_KIND: Final = "erased"

_COLUMNS: Final = ("body", "headers", "kafka_headers", "properties")
_KEYS: Final = {
    "messages": '(topic_number, "partition", "offset")',
    "dead_letters": '(message_id.topic_number, message_id."partition", message_id."offset")',
}


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


class Erased(msgspec.Struct, frozen=True):
    """What an erasure found.

    Attributes:
        messages, dead_letters: rows whose data is gone, or would go.
        in_queues: messages that are still in a queue and keep their data.
    """

    messages: int
    dead_letters: int
    in_queues: int


def erase(
    root: Place,
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
    with closing_of(Tables(root.url, root.options, threads=threads)) as tables:
        batch_id = last_batch(tables)
        [query_id] = query_ids(tables)
        in_queues = _find(tables, where)
        counts = {
            name: _erase_table(root, tables, name, dry=dry) for name in ("dead_letters", "messages")
        }
        done = Erased(counts["messages"], counts["dead_letters"], in_queues)
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
        replace_rows(root.below(EVENTS), spec, [], rows, is_new=True)
    return done


def _find(tables: Tables, where: str) -> int:
    """Create the temporary table `erased` of message keys; returns how many are in queues."""
    run = tables.connection.execute
    run(
        "CREATE OR REPLACE TEMP TABLE resident AS SELECT DISTINCT message_id.topic_number AS "
        'topic_number, message_id."partition" AS "partition", message_id."offset" AS "offset" '
        f"FROM ({prepare_contents(tables, held=True)})"
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


def _erase_table(root: Place, tables: Tables, name: str, *, dry: bool) -> int:
    """Rewrite the files with rows to erase; returns the number of these rows."""
    spec, place = TABLES[name], root.below(name)
    storage, schema = place.storage(), spec.schema.remove_metadata()
    key = f'{_KEYS[name]} IN (SELECT (topic_number, "partition", "offset") FROM erased)'
    has_data = " OR ".join(f"{quoted(column)} IS NOT NULL" for column in _COLUMNS)
    erased = 0
    for path in ActiveFiles(tables.table(name)).paths:
        with storage.open(path) as file:
            rows = conformed(pq.ParquetFile(file).read(), schema)
        tables.connection.register("old", rows.select(_columns_of(name)))
        [found] = tables.connection.sql(
            f"SELECT list(CAST(row AS BIGINT)) FROM (SELECT row_number() OVER () - 1 AS row, * "
            f"FROM old) WHERE {key} AND ({has_data})"
        ).fetchall()
        tables.connection.unregister("old")
        if not found[0]:
            continue
        erased += len(found[0])
        if not dry:
            mask = np.zeros(rows.num_rows, np.bool_)
            mask[found[0]] = True
            for column in _COLUMNS:
                index = schema.get_field_index(column)
                rows = rows.set_column(index, schema.field(column), _blanked(rows[column], mask))
            replace_rows(place, spec, [path], rows, is_new=True)
    return erased


def _columns_of(name: str) -> list[str]:
    keys = ["message_id"] if name == "dead_letters" else ["topic_number", "partition", "offset"]
    return [*keys, *_COLUMNS]


def _blanked(column: pa.ChunkedArray, mask: np.ndarray) -> pa.Array:
    """The column with null where the mask is set."""
    whole = column.combine_chunks()
    kept = np.where(mask, -1, np.arange(len(whole)))
    return whole.take(pa.array(kept, pa.int64(), mask=mask))
