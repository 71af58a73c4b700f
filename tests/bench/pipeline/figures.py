"""What the cases of `dlx bench pipeline` share: how much they measure, and their figures."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.bench.pipeline.environment import CommittedBatch

WARM_UP: Final = 3
"""Batches to ignore first: modules and classes are loaded, and code is compiled."""

LATENCY_RATES: Final = (1_000, 5_000)

FIRST_STAGE: Final = ("read", "understand", "write")
SECOND_STAGE: Final = ("unpack", "fold", "rows", "outbound", "state")

Figures = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How much to measure.

    Attributes:
        messages: measured in `throughput` and `shapes`, after the warm-up.
        consumed: messages in `consume` and `settle`.
        batch: records per batch in `throughput`.
        rates: messages per second in `latency`, one line each.
        seconds: duration of `latency` and `idle`.
        resident: the larger number of messages in `resident`.
        queues: the larger number of queues in `queues`.
        history: the larger number of batches in `commits`.
        small_batch: records per batch in `resident` and `queues`.
        batches: batches measured in `resident` and `queues`.
        commits: commits measured in `commits`.
        minutes: duration of the sustained rate in `versus_amqp`; 0: it is not measured.
        few: the smaller resident, queues and history, at most a tenth of the larger ones.
    """

    messages: int = 1_000_000
    batch: int = 200_000
    rates: tuple[int, ...] = LATENCY_RATES
    seconds: int = 30
    resident: int = 1_000_000
    queues: int = 10_000
    history: int = 100_000
    small_batch: int = 20_000
    batches: int = 15
    commits: int = 300
    consumed: int = 200_000
    minutes: float = 0
    few: tuple[int, int, int] = (10_000, 10, 100)

    def pair(self, few: int, many: int) -> tuple[int, int]:
        """Return the two sizes to compare."""
        return min(few, max(1, many // 10)), many


def after_warm_up(
    batches: Sequence[CommittedBatch], warm_up: int
) -> tuple[float, list[CommittedBatch]]:
    """Return when `warm_up` publishes were read, and the later batches with publishes.

    Batches may be smaller than asked for, so publishes are counted, not batches.
    """
    read = list(accumulate(each.publishes for each in batches))
    last = bisect_left(read, warm_up)
    return batches[last].at_s, [each for each in batches[last + 1 :] if each.publishes]


def us_per_message(cores: Mapping[str, float], rate: float) -> dict[str, float]:
    """Return the processor time of each part of the system, in microseconds per message."""
    return {
        f"{part.removesuffix('_cores')}_us": round(1e6 * used / rate, 1)
        for part, used in cores.items()
    }


def batch_parts(
    batches: Sequence[CommittedBatch], progress: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Return the median seconds of each part of a batch.

    Args:
        batches: the batches to measure.
        progress: Spark's progress of the query; it may lack some batches.
    """
    triggers = {each["batchId"]: each["durationMs"]["triggerExecution"] / 1000 for each in progress}
    names = ("stages", "commit", *FIRST_STAGE, *SECOND_STAGE)
    parts: dict[str, list[float]] = {name: [] for name in ("spark", *names, "exchange")}
    for each in batches:
        seconds = each.batch.seconds
        for name in names:
            parts[name].append(seconds.get(name, 0.0))
        inside = sum(seconds.get(name, 0.0) for name in (*FIRST_STAGE, *SECOND_STAGE))
        parts["exchange"].append(seconds["stages"] - inside)
        trigger = triggers.get(each.batch.batch_id)
        if trigger is not None:
            parts["spark"].append(trigger - seconds["stages"] - seconds["commit"])
    return {f"{name}_s": round(median(values), 3) for name, values in parts.items() if values}


def batch_shares(parts: Mapping[str, float]) -> dict[str, float]:
    """Return the parts of a batch, and the share of each in its time."""
    whole = parts.get("spark_s", 0.0) + parts["stages_s"] + parts["commit_s"]
    return {
        **parts,
        **{
            f"{name.removesuffix('_s')}_share": round(seconds / whole, 3)
            for name, seconds in parts.items()
            if name != "stages_s"
        },
    }


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("nothing was measured")
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
