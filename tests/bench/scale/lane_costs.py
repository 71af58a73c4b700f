"""What lanes cost: processor time, state and commits of a batch, with 1 to 64 lanes.

The pure core folds the same messages on one lane or many, and a real ledger on a local disk commits
the files that so many tasks write. A straight line through the results separates what each batch,
each lane and each message costs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from streaming.broker.state.store import MemoryStore
from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.write.ledger import Ledger
from streaming.storage.location import Location
from tests.bench import workload
from tests.bench.core import Broker, event_columns
from tests.bench.pipeline.commit_history import QUERY, START_MS, batch_files
from tests.bench.pipeline.figures import Figures

LANES: Final = (1, 2, 4, 8, 16, 32, 64)
WARM_UP: Final = 2


class CountingStore(MemoryStore):
    """A store that counts what a batch writes."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_written = 0

    def write(self, key: str, value: bytes) -> None:
        """Set the value of a key."""
        self.bytes_written += len(key) + len(value)
        super().write(key, value)


class Lane(Broker):
    """One lane with its own state."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.counted = CountingStore()
        depths = workload.Depths()
        self.command(*workload.declarations(depths))
        self.command(*workload.consumers(depths), actor=workload.WORKER)


def lane_costs(
    folder: Path, messages: int, batches: int, numbers: Sequence[int] = LANES
) -> Iterator[Figures]:
    """Measure a batch of so many messages on each number of lanes; then the fitted line.

    Args:
        messages: of a batch, on all lanes together.
        batches: how many are measured for each number of lanes.
        numbers: the numbers of lanes.
    """
    folds, commits = [], []
    for lanes in numbers:
        fold_s, state_bytes, read = _fold(lanes, messages, batches)
        commit_s = _commit(folder / str(lanes), lanes, batches)
        folds.append((lanes, read, fold_s))
        commits.append((lanes, read, commit_s))
        yield {
            "case": f"model_lanes_{lanes}",
            "messages": read,
            "core_us_per_message": round(1e6 * fold_s / read, 2),
            "state_bytes_per_message": round(state_bytes / read, 1),
            "commit_ms": round(1000 * commit_s, 1),
        }
    per_lane, per_message = _line(folds)
    commit_lane, _ = _line(commits)
    yield {
        "case": "model_fitted",
        "core_us_per_lane_and_batch": round(1e6 * per_lane, 1),
        "core_us_per_message": round(1e6 * per_message, 2),
        "commit_ms_per_lane_and_batch": round(1000 * commit_lane, 2),
    }


def _fold(lanes: int, messages: int, batches: int) -> tuple[float, float, int]:
    """Return processor time and state bytes of the median batch, and its messages."""
    shards = [Lane() for _ in range(lanes)]
    rounds = max(1, round(messages / lanes / workload.ROUND))
    seconds, written = [], []
    gc.collect()
    gc.disable()
    try:
        for _ in range(WARM_UP + batches):
            records = [shard.log.batch(rounds) for shard in shards]
            before = sum(shard.counted.bytes_written for shard in shards)
            started = time.process_time()
            for shard, part in zip(shards, records, strict=True):
                event_columns(shard.fold(part))
            seconds.append(time.process_time() - started)
            written.append(sum(shard.counted.bytes_written for shard in shards) - before)
    finally:
        gc.enable()
    return median(seconds[WARM_UP:]), median(written[WARM_UP:]), rounds * workload.ROUND * lanes


def _commit(folder: Path, lanes: int, batches: int) -> float:
    """Return the time of the median commit of the files of so many lanes."""
    folder.mkdir(parents=True)
    seconds = []
    with Ledger(Location(str(folder))) as ledger:
        for batch_id in range(WARM_UP + batches):
            files = batch_files(ledger.root, batch_id, tasks=lanes)
            started = time.perf_counter()
            ledger.commit(files, BatchRow(QUERY, batch_id, START_MS + batch_id, BatchDetail()))
            seconds.append(time.perf_counter() - started)
    return median(seconds[WARM_UP:])


def _line(points: Sequence[tuple[int, int, float]]) -> tuple[float, float]:
    """Return the seconds of one lane and of one message, by least squares."""
    lanes, messages, seconds = (np.array(each, float) for each in zip(*points, strict=True))
    factors = np.column_stack((lanes, messages))
    (per_lane, per_message), *_ = np.linalg.lstsq(factors, seconds, rcond=None)
    return float(per_lane), float(per_message)
