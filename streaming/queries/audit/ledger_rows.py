"""The ledger's rows as the balance needs them: narrow, by number of shard, of whole batches only.

| temporary table | a row is |
|---|---|
| `shard` | a shard: its number here, vhost, lane |
| `event` | an event that belongs to a shard |
| `message` | the key of a message |
| `death` | a row of dead_letters |
| `batch_rows` | how many rows a batch has in a table |

A batch is committed table by table and has happened with its events. Rows of a batch that other
tables have and `events` does not are left out: it is being committed, or will be again.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from streaming.contents.query import CONTENTS
from streaming.queries.audit.copy_lifecycle import worth_sql
from streaming.queries.duckdb_tables import Tables, text

MESSAGE_KEY: Final = 'topic_number, "partition", "offset"'
DEATHS: Final = "('died', 'rerouted')"
"""The kinds of events that have a row in dead_letters."""

ELSEWHERE: Final = 0
"""The number of no shard: of rows whose shard has no events."""

_COUNTED: Final = ("messages", "quarantine", "dead_letters", "events")


class BatchDetail(msgspec.Struct, frozen=True):
    """A batch row, as far as the balance reads it.

    Attributes:
        rows, last_seq: see `totals.py`; None where the row does not say.
        resident: shard key -> messages, bytes, after the batch.
    """

    query_id: str
    batch_id: int
    rows: dict[str, int] | None
    last_seq: list[tuple[str, int, int]]
    resident: dict[str, tuple[int, int]]


class Shard(NamedTuple):
    """A shard; neither vhost nor lane for rows of a shard that has no events."""

    vhost: str | None
    lane: int | None


class LedgerRows(NamedTuple):
    """What is loaded beside the temporary tables.

    Attributes:
        shards: by the number that the temporary tables have for it.
        details: of the batches, oldest first.
    """

    shards: dict[int, Shard]
    details: list[BatchDetail]


class _Detail(msgspec.Struct):
    rows: dict[str, int] | None = None
    last_seq: list[tuple[str, int, int]] = []
    resident: dict[str, tuple[int, int]] = {}


def load_ledger(tables: Tables) -> LedgerRows:
    """Make the temporary tables.

    Returns:
        What is too small for one: the shards by number, and the batch rows.

    Raises:
        QueryError: a table of the ledger is not there.
    """
    tables.has(CONTENTS)  # loaded first, it is never ahead of the events
    tables.table("events")
    run = tables.connection.execute
    tables.view("events")
    happened = _happened(tables)
    for name in ("messages", "dead_letters", "quarantine"):
        tables.view(name, view=f"all {name}")
        run(f'CREATE OR REPLACE TEMP VIEW {name} AS FROM "all {name}" WHERE {happened}')
    run(
        """
        CREATE OR REPLACE TEMP TABLE shard AS
        SELECT CAST(row_number() OVER (ORDER BY vhost, lane) AS SMALLINT) AS shard, vhost, lane
        FROM (SELECT DISTINCT vhost, lane FROM events WHERE seq IS NOT NULL)
        """
    )
    details = _read_details(tables)
    places = _add_silent_shards(tables, details)
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE event AS
        SELECT shard, seq, batch_id, copy_id, parent_copy_id, kind, reason, queue,
               message_id.topic_number AS topic_number, message_id."partition" AS "partition",
               message_id."offset" AS "offset", {worth_sql()} AS worth
        FROM events JOIN shard USING (vhost, lane) WHERE seq IS NOT NULL
        """
    )
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE message AS
        SELECT coalesce(shard, {ELSEWHERE}) AS shard, batch_id, {MESSAGE_KEY}
        FROM messages LEFT JOIN shard USING (vhost, lane)
        """
    )
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE death AS
        SELECT coalesce(shard, {ELSEWHERE}) AS shard, seq, batch_id, copy_id, queue, reason,
               coalesce(len(targets), 0) AS targets,
               message_id.topic_number AS topic_number, message_id."partition" AS "partition",
               message_id."offset" AS "offset"
        FROM dead_letters LEFT JOIN shard USING (vhost, lane)
        """
    )
    of_batch = {"events": "WHERE kind <> 'batch'"}
    counts = " UNION ALL ".join(
        f"SELECT '{name}' AS name, query_id, batch_id, count(*) AS rows FROM {name} "
        f"{of_batch.get(name, '')} GROUP BY query_id, batch_id"
        for name in _COUNTED
    )
    run(f"CREATE OR REPLACE TEMP TABLE batch_rows AS {counts}")
    return LedgerRows(places, details)


def _happened(tables: Tables) -> str:
    """A condition for the rows of batches that have happened."""
    lasts = tables.values("SELECT query_id, max(batch_id) FROM events GROUP BY query_id")
    parts = [f"query_id = {text(query_id)} AND batch_id <= {last}" for query_id, last in lasts]
    return f"({' OR '.join(parts) or 'false'})"


def _read_details(tables: Tables) -> list[BatchDetail]:
    found = tables.values(
        "SELECT query_id, batch_id, detail FROM events WHERE kind = 'batch' ORDER BY ALL"
    )
    details: list[BatchDetail] = []
    for query_id, batch_id, document in found:
        detail = _read(document)
        details.append(
            BatchDetail(query_id, batch_id, detail.rows, detail.last_seq, detail.resident)
        )
    return details


def _read(document: str | None) -> _Detail:
    try:
        return msgspec.json.decode(document or "{}", type=_Detail)
    except msgspec.DecodeError:  # of a version that says it otherwise
        return _Detail()


def _add_silent_shards(tables: Tables, details: Sequence[BatchDetail]) -> dict[int, Shard]:
    """All shards by number, also those without any event, if a batch row names them."""
    found = tables.values("SELECT vhost, lane FROM shard ORDER BY shard")
    known = [Shard(vhost, lane) for vhost, lane in found]
    named = {Shard(vhost, lane) for detail in details for vhost, lane, _seq in detail.last_seq}
    silent = sorted(named - set(known))
    for number, (vhost, lane) in enumerate(silent, len(known) + 1):
        tables.connection.execute("INSERT INTO shard VALUES (?, ?, ?)", [number, vhost, lane])
    return {ELSEWHERE: Shard(None, None), **dict(enumerate([*known, *silent], 1))}
