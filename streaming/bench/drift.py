"""Whether a job stays as it is while it works: memory, files and batch time, early and late.

The first fifth of the samples does not count: modules are loaded, the heap grows to its size. Of
the rest, the first third is compared with the last.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil
from deltalake import DeltaTable

from streaming.bench.cpu_use import part_of
from streaming.ledger.schema.schemas import TABLES

SAMPLE_S: Final = 5.0
MEBIBYTE: Final = 1 << 20


class Change(NamedTuple):
    """A figure early and late in the run, as medians."""

    name: str
    early: float
    late: float


class Steadiness:
    """Looks at a job now and then.

    Args:
        root: with `tables` in it, and `job.log`, what the job printed.
        job: the pid of `dlx run`, None while it does not run.
        kafka: the pid of the broker.
    """

    def __init__(
        self, root: Path, job: Callable[[], int | None], kafka: Callable[[], int | None]
    ) -> None:
        self._root = root
        self._job = job
        self._kafka = kafka
        self._samples: list[dict[str, float]] = []

    @contextmanager
    def watching(self, pause_s: float = SAMPLE_S) -> Iterator[None]:
        """Look, every so often, until the end of the block."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(pause_s):
                self.look()

        thread = threading.Thread(target=run, name="steadiness", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def look(self) -> None:
        """Take one sample; what does not run at the moment is not in it."""
        sample: dict[str, float] = {}
        job, kafka = self._job(), self._kafka()
        for pid in (job, kafka):
            for process in _family(pid):
                try:
                    name = f"{part_of(process, job, kafka)}_mb"
                    held = process.memory_info().rss / MEBIBYTE
                except psutil.NoSuchProcess:  # it has ended
                    continue
                sample[name] = sample.get(name, 0.0) + held
        for name in TABLES:
            folder = self._root / "tables" / name
            if DeltaTable.is_deltatable(str(folder)):
                sample[f"{name}_files"] = len(DeltaTable(str(folder)).file_uris())
        self._samples.append(sample)

    def changes(self) -> list[Change]:
        """Every figure, early and late; none if there are too few samples to tell."""
        names = dict.fromkeys(name for sample in self._samples for name in sample)
        series = {
            name: [sample[name] for sample in self._samples if name in sample] for name in names
        }
        series["batch_ms"] = [1000 * seconds for seconds in batch_seconds(self._root / "job.log")]
        return [change for name, values in series.items() for change in _change(name, values)]


def batch_seconds(log: Path) -> list[float]:
    """How long each batch took, by the lines that the job printed."""
    return [
        sum(json.loads(line[line.index("{") :])["seconds"].values())
        for line in log.read_text(errors="replace").splitlines()
        if '{"event": "batch"' in line
    ]


def _change(name: str, values: list[float]) -> Iterator[Change]:
    counted = values[len(values) // 5 :]
    third = len(counted) // 3
    if third:
        yield Change(name, round(median(counted[:third])), round(median(counted[-third:])))


def _family(pid: int | None) -> list[psutil.Process]:
    if pid is None:
        return []
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
