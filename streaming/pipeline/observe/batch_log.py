"""One structured line a batch, for logs that machines read."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from streaming.pipeline.flow.gate import GateState
    from streaming.pipeline.reports import BatchDone
    from streaming.pipeline.shard_stats import ShardsSeen


def batch_line(
    done: BatchDone, shards: ShardsSeen, gate: GateState, clock: Literal["wall", "event"]
) -> str:
    """The line: JSON of rows, durations, what is resident, deaths by reason, lag and gate.

    `lag_ms` is how far the job's time is behind the wall. With `clock = event` that time is the
    clock of the batch's shard that is furthest behind; null, if the batch had none.
    """
    deaths: Counter[str] = Counter()
    for report in done.reports:
        deaths.update(report.deaths)
    at_ms: int | None = done.now_ms
    if clock == "event":
        at_ms = min((report.now_ms for report in done.reports), default=None)
    return json.dumps(
        {
            "event": "batch",
            "batch_id": done.batch_id,
            "records": done.records,
            "publishes": sum(report.publishes for report in done.reports),
            "events": done.events,
            "seconds": done.seconds,
            "resident_messages": shards.resident_messages,
            "resident_bytes": shards.resident_bytes,
            "dead_letters": dict(sorted(deaths.items())),
            "lag_ms": None if at_ms is None else max(0, time.time_ns() // 1_000_000 - at_ms),
            "gate": "open" if gate.open else "closed",
            "gate_cause": gate.cause,
        }
    )
