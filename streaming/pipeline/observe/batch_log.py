"""The figures of a batch, which the job logs on one line."""

import json
import logging
import time
from collections import Counter
from typing import Any, Literal

from streaming.pipeline.flow.batch_size import GateState
from streaming.pipeline.observe.job_log import FIELDS
from streaming.pipeline.reports import FAULT_KINDS, BatchDone
from streaming.pipeline.shard_stats import ShardStats

logger = logging.getLogger("dlx")


def batch_figures(
    done: BatchDone, stats: ShardStats, gate: GateState, clock: Literal["wall", "event"]
) -> dict[str, Any]:
    """Return rows, durations, resident messages, deaths by reason, faults, lag and gate.

    `lag_ms` is how far the job's time is behind the wall clock. With `clock = event`, that is the
    time of the batch's slowest shard; null if the batch had no shard.
    """
    deaths: Counter[str] = Counter()
    for report in done.reports:
        deaths.update(report.deaths)
    at_ms: int | None = done.now_ms
    if clock == "event":
        at_ms = min((report.now_ms for report in done.reports), default=None)
    return {
        "event": "batch",
        "batch_id": done.batch_id,
        "records": done.records,
        "publishes": sum(report.publishes for report in done.reports),
        "events": done.events,
        "seconds": done.seconds,
        "resident_messages": stats.resident_messages,
        "resident_bytes": stats.resident_bytes,
        "process_bytes": gate.process_bytes,
        "dead_letters": dict(sorted(deaths.items())),
        **{kind: done.faults.get(kind, 0) for kind in FAULT_KINDS},
        "lag_ms": None if at_ms is None else max(0, time.time_ns() // 1_000_000 - at_ms),
        "gate": "open" if gate.open else "closed",
        "gate_cause": gate.cause,
    }


def log_batch(figures: dict[str, Any]) -> None:
    """Log the figures: a log of text has them as JSON, one of JSON as members."""
    members = {"message": f"batch {figures['batch_id']}", **figures}
    logger.info("%s", json.dumps(figures), extra={FIELDS: members})
