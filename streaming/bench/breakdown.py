"""What a batch's time goes to, so that a figure says what bounds it.

batch_s
  spark_s       before and after the stages: offsets, plan, the checkpoint's logs
  stages_s      the Spark job
    read, understand, write               first stage, the slowest task
    unpack, fold, rows, outbound, state   stateful stage, the slowest task
    exchange    what is left: starting tasks, the shuffle, the state store's own commit
  commit_s      of the four tables
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.bench.pipeline_environment import Done

FIRST_STAGE = ("read", "understand", "write")
SECOND_STAGE = ("unpack", "fold", "rows", "outbound", "state")


def batch_parts(batches: Sequence[Done], progress: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Medians, seconds a batch.

    Args:
        batches: those that count.
        progress: Spark's of the query; it may have forgotten some.
    """
    triggers = {each["batchId"]: each["durationMs"]["triggerExecution"] / 1000 for each in progress}
    names = ("stages", "commit", *FIRST_STAGE, *SECOND_STAGE)
    parts: dict[str, list[float]] = {name: [] for name in ("spark", *names, "exchange")}
    for done in batches:
        seconds = done.batch.seconds
        for name in names:
            parts[name].append(seconds.get(name, 0.0))
        inside = sum(seconds.get(name, 0.0) for name in (*FIRST_STAGE, *SECOND_STAGE))
        parts["exchange"].append(seconds["stages"] - inside)
        if done.batch.batch_id in triggers:
            trigger = triggers[done.batch.batch_id]
            parts["spark"].append(trigger - seconds["stages"] - seconds["commit"])
    return {f"{name}_s": round(median(each), 3) for name, each in parts.items() if each}
