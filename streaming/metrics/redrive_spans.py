"""OpenTelemetry spans of redriven letters, made after the batch that moved them.

A thread of its own reads the moves and the Kafka headers of their messages from the tables, so no
batch waits for it. A span is lost if the job is killed in between; none is made twice, unless the
job is killed between the commit of a batch and Spark's own note of it.
"""

import logging
import threading
from queue import SimpleQueue
from typing import Final

from streaming.client import _spans
from streaming.pipeline.reports import BatchDone
from streaming.queries.duckdb_tables import Tables
from streaming.queries.message_attributes import MessageId
from streaming.storage.location import Location

KINDS: Final = frozenset({"redriven", "republished", "discarded"})
"""The events of a letter that a redrive moves."""

MAX_SPANS: Final = 10_000
"""The most spans of one batch."""

STOP_TIMEOUT_S: Final = 10.0

_MOVES: Final = """
    SELECT vhost, queue, kind, number, epoch_us("at") AS at_us, message_id,
           detail ->> '$.redrive' AS redrive,
           coalesce(CAST(detail -> '$.targets' AS VARCHAR[]), []) AS targets
    FROM span_moves WHERE batch_id = ? AND kind IN ('redriven', 'republished', 'discarded')
    ORDER BY vhost, lane, seq LIMIT ?
"""
_HEADERS: Final = """
    SELECT messages.kafka_headers, moved.* EXCLUDE (message_id), message_id
    FROM moved LEFT JOIN span_messages AS messages
        ON messages.topic_number = moved.message_id.topic_number
        AND messages.partition = moved.message_id.partition
        AND messages."offset" = moved.message_id."offset"
    ORDER BY at_us
"""

logger = logging.getLogger(__name__)


class RedriveSpans:
    """Makes a span of each letter that a redrive moves, linked to its message's `traceparent`."""

    def __init__(self, place: Location) -> None:
        self._place = place
        self._batches: SimpleQueue[int | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="redrive-spans", daemon=True)
        self._thread.start()

    def batch_done(self, done: BatchDone) -> None:
        """Take over a batch; returns at once."""
        kinds = (each for report in done.reports for each in report.traffic.kinds.values())
        if any(KINDS & each.keys() for each in kinds):
            self._batches.put(done.batch_id)

    def stop(self) -> None:
        """Make the spans of the batches so far, for at most 10 s."""
        self._batches.put(None)
        self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        while (batch_id := self._batches.get()) is not None:
            try:
                self._make_spans(batch_id)
            except Exception:
                logger.warning("spans of the redrives in batch %d failed", batch_id, exc_info=True)

    def _make_spans(self, batch_id: int) -> None:
        tables = Tables(self._place.url, self._place.options, threads=1)
        try:
            files = tables.files("events", {"batch_id": batch_id}, inclusive=True)
            tables.view("events", files=files, view="span_moves")
            tables.view("messages", view="span_messages")
            create = f"CREATE TEMP TABLE moved AS {_MOVES}"
            tables.connection.execute(create, [batch_id, MAX_SPANS])
            found = tables.connection.execute(_HEADERS)
            names = [column[0] for column in found.description or ()]
            for values in found.fetchall():
                row = dict(zip(names, values, strict=True))
                headers = [(one["key"], one["value"]) for one in row["kafka_headers"] or ()]
                move = {
                    "vhost": row["vhost"],
                    "queue": row["queue"],
                    "message_id": str(MessageId.of(row["message_id"]) or ""),
                    "redrive.id": row["redrive"],
                    "redrive.action": row["kind"],
                    "redrive.targets": row["targets"],
                    "redrive.count": row["number"] or 0,
                }
                _spans.redrive(headers, move, row["at_us"] * 1_000)
        finally:
            tables.close()
