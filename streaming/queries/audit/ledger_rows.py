"""The ledger's rows for the balance: few columns, numbered shards, only complete batches.

| temporary table | a row is |
|---|---|
| `shard` | a shard: its number in these tables, vhost, lane |
| `event` | an event that belongs to a shard |
| `opening` | a copy in the snapshot that the rows follow, with its state |
| `message` | the key of a message |
| `refused_before` | a refusal of a message that arrived before the snapshot |
| `death` | a row of dead_letters |
| `batch_rows` | the number of rows that a batch has in a table |

A batch is committed table by table and has happened once its events are committed. Rows of a batch
that is not in `events` are skipped: it is being committed, or will be replayed.
"""

from typing import Final, NamedTuple

import msgspec

from streaming.ledger.batch_detail import BatchDetail, BatchRow, read_detail
from streaming.queries.as_of.contents import CONTENTS
from streaming.queries.as_of.snapshots import Snapshot, snapshot_contents
from streaming.queries.duckdb_tables import Tables, text

MESSAGE_KEY: Final = 'topic_number, "partition", "offset"'
_KEY_OF_STRUCT: Final = """
    message_id.topic_number AS topic_number, message_id."partition" AS "partition",
    message_id."offset" AS "offset"
"""
DEATHS: Final = "('died', 'rerouted')"
"""The kinds of events with a row in dead_letters."""

NO_SHARD: Final = 0
"""The number for rows whose shard has no events."""

_COUNTED: Final = ("messages", "quarantine", "dead_letters", "events")


class Shard(NamedTuple):
    """A shard; without vhost and lane for rows whose shard has no events."""

    vhost: str | None
    lane: int | None


class LedgerRows(NamedTuple):
    """What is too small for a temporary table."""

    shards: dict[int, Shard]
    batches: list[BatchRow]


def load_ledger(tables: Tables, snapshot: Snapshot | None = None) -> LedgerRows:
    """Create the temporary tables, of the rows after a snapshot or of all rows."""
    tables.has(CONTENTS)  # loaded first, so it is never ahead of the events
    tables.table("events")
    run = tables.connection.execute
    since = -1 if snapshot is None else snapshot.batch_id
    happened = f"batch_id > {since}"
    for name in ("events", "messages", "dead_letters", "quarantine"):
        tables.view(name, files=tables.files(name, {"batch_id": since}), view=f"all {name}")
        tables.define(name, f'FROM "all {name}" WHERE {happened}')
        if name == "events":
            happened = f"{_happened(tables)} AND {happened}"
    run(
        """
        CREATE OR REPLACE TEMP TABLE shard AS
        SELECT CAST(row_number() OVER (ORDER BY vhost, lane) AS SMALLINT) AS shard, vhost, lane
        FROM (SELECT DISTINCT vhost, lane FROM events WHERE seq IS NOT NULL)
        """
    )
    batches = _read_batches(tables)
    named = {Shard(vhost, lane) for row in batches for vhost, lane, _seq in row.detail.last_seq}
    if snapshot is not None:
        named |= {Shard(vhost, lane) for vhost, lane, _seq in snapshot.last_seq}
    places = _add_silent_shards(tables, named)
    _create_opening(tables, snapshot)
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE event AS
        SELECT shard, seq, batch_id, copy_id, parent_copy_id, kind, reason, queue, {_KEY_OF_STRUCT}
        FROM events JOIN shard USING (vhost, lane) WHERE seq IS NOT NULL
        """
    )
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE message AS
        SELECT coalesce(shard, {NO_SHARD}) AS shard, batch_id, {MESSAGE_KEY}
        FROM messages LEFT JOIN shard USING (vhost, lane)
        """
    )
    run(  # a full queue also refuses dead letters, of messages that arrived before the snapshot
        f"""
        CREATE OR REPLACE TEMP TABLE refused_before AS
        SELECT shard, seq FROM event ANTI JOIN message USING ({MESSAGE_KEY})
        WHERE kind = 'refused' AND {str(snapshot is not None).lower()}
        """
    )
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE death AS
        SELECT coalesce(shard, {NO_SHARD}) AS shard, seq, batch_id, copy_id, queue, reason,
               coalesce(len(targets), 0) AS targets, {_KEY_OF_STRUCT}
        FROM dead_letters LEFT JOIN shard USING (vhost, lane)
        """
    )
    of_batch = {"events": "WHERE kind NOT IN ('batch', 'erased')"}
    counts = " UNION ALL ".join(
        f"SELECT '{name}' AS name, query_id, batch_id, count(*) AS rows FROM {name} "
        f"{of_batch.get(name, '')} GROUP BY query_id, batch_id"
        for name in _COUNTED
    )
    run(f"CREATE OR REPLACE TEMP TABLE batch_rows AS {counts}")
    return LedgerRows(places, batches)


def _happened(tables: Tables) -> str:
    """A condition for the rows of complete batches."""
    lasts = tables.values("SELECT query_id, max(batch_id) FROM events GROUP BY query_id")
    parts = [f"query_id = {text(query_id)} AND batch_id <= {last}" for query_id, last in lasts]
    return f"({' OR '.join(parts) or 'false'})"


def _read_batches(tables: Tables) -> list[BatchRow]:
    found = tables.values(
        "SELECT query_id, batch_id, epoch_ms(\"at\"), detail FROM events WHERE kind = 'batch' "
        "ORDER BY ALL"
    )
    batches: list[BatchRow] = []
    for query_id, batch_id, now_ms, document in found:
        try:
            detail = read_detail(document or "{}")
        except msgspec.DecodeError:  # written by a version with another format
            detail = BatchDetail()
        batches.append(BatchRow(query_id, batch_id, now_ms, detail))
    return batches


def _create_opening(tables: Tables, snapshot: Snapshot | None) -> None:
    stored = (
        "(SELECT NULL::VARCHAR AS vhost, NULL::INTEGER AS lane, NULL::BIGINT AS copy_id, "
        "NULL::VARCHAR AS queue, NULL::VARCHAR AS state, NULL::STRUCT(topic_number INTEGER, "
        '"partition" INTEGER, "offset" BIGINT) AS message_id WHERE false)'
        if snapshot is None
        else snapshot_contents(tables, snapshot, held=True)
    )
    tables.connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE opening AS
        SELECT shard, copy_id, queue, state, {_KEY_OF_STRUCT}
        FROM {stored} AS stored JOIN shard USING (vhost, lane)
        """
    )


def _add_silent_shards(tables: Tables, named: set[Shard]) -> dict[int, Shard]:
    """All shards by number, including those without events that a batch row or snapshot names."""
    found = tables.values("SELECT vhost, lane FROM shard ORDER BY shard")
    known = [Shard(vhost, lane) for vhost, lane in found]
    silent = sorted(named - set(known))
    for number, (vhost, lane) in enumerate(silent, len(known) + 1):
        tables.connection.execute("INSERT INTO shard VALUES (?, ?, ?)", [number, vhost, lane])
    return {NO_SHARD: Shard(None, None), **dict(enumerate([*known, *silent], 1))}
