"""Whether memory, files and batch time of a job drift while it works.

The first fifth of the samples is ignored, because modules are loaded and the heap grows. The drift
is the difference between the first and the last third of the rest.
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

from streaming.ledger.schema.schemas import TABLES
from streaming.storage.location import Location
from tests.bench.processes import family, part_of

SAMPLE_S: Final = 5.0
MEBIBYTE: Final = 1 << 20


class Change(NamedTuple):
    """Medians of a figure early and late in a run."""

    name: str
    early: float
    late: float


class Drift:
    """Samples a job at intervals.

    Args:
        root: the folder with `job.log`, the output of the job.
        tables: the job's tables.
        job: returns the pid of `dlx run`, or None while it does not run.
        kafka: returns the pid of Kafka, or None while it does not run.
    """

    def __init__(
        self,
        root: Path,
        tables: Location,
        job: Callable[[], int | None],
        kafka: Callable[[], int | None],
    ) -> None:
        self._root = root
        self._tables = tables
        self._job = job
        self._kafka = kafka
        self._samples: list[dict[str, float]] = []

    @contextmanager
    def sampling(self, interval_s: float = SAMPLE_S) -> Iterator[None]:
        """Sample in the background until the end of the block."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(interval_s):
                self.sample()

        thread = threading.Thread(target=run, name="drift", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def sample(self) -> None:
        """Take one sample of everything that runs at present."""
        sample: dict[str, float] = {}
        job, kafka = self._job(), self._kafka()
        known = {} if kafka is None else {kafka: "kafka"}
        for process in (*family(job), *family(kafka)):
            try:
                name = f"{part_of(process, job, known)}_mb"
                resident = process.memory_info().rss / MEBIBYTE
            except psutil.NoSuchProcess:
                continue
            sample[name] = sample.get(name, 0.0) + resident
        for name in TABLES:
            table, options = (self._tables / name).url, dict(self._tables.options)
            if DeltaTable.is_deltatable(table, options):
                files = DeltaTable(table, storage_options=options).file_uris()
                sample[f"{name}_files"] = len(files)
        self._samples.append(sample)

    def changes(self) -> list[Change]:
        """Return every figure early and late; none without enough samples."""
        names = dict.fromkeys(name for sample in self._samples for name in sample)
        series = {
            name: [sample[name] for sample in self._samples if name in sample] for name in names
        }
        series["batch_ms"] = [1000 * seconds for seconds in _batch_seconds(self._root / "job.log")]
        return [change for name, values in series.items() for change in _change(name, values)]


def _batch_seconds(log: Path) -> list[float]:
    """The duration of each batch, from the lines that the job logged."""
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
