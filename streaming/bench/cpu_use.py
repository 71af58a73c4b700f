"""Which processes of a run use the processor: the job's own, Spark's, its workers, Kafka's."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Self

import psutil

from streaming.spark.settings import WORKER_DAEMON

if TYPE_CHECKING:
    from types import TracebackType

PARTS: Final = ("driver", "workers", "spark", "kafka", "load")
"""The Python driver (commits, upkeep, contents), Python workers, Spark's JVM, the broker's JVM, and
what publishes and consumes in a process of its own."""

SAMPLE_S: Final = 0.5


class CpuUse:
    """Looks at this process and those below it, twice a second, between `with` and its end."""

    def __init__(self, kafka_pid: int | None) -> None:
        self._kafka_pid = kafka_pid
        self._samples: list[tuple[float, dict[str, float]]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu use", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def cores(self, began_s: float, ended_s: float) -> dict[str, float]:
        """Cores that each part kept busy between two instants (epoch seconds), on average."""
        first = min(self._samples, key=lambda sample: abs(sample[0] - began_s))
        last = min(self._samples, key=lambda sample: abs(sample[0] - ended_s))
        seconds = max(last[0] - first[0], SAMPLE_S)
        return {
            f"{part}_cores": round(max(last[1][part] - first[1][part], 0.0) / seconds, 2)
            for part in PARTS  # less than before: a process has ended
        }

    def _run(self) -> None:
        while not self._ended.is_set():
            self._samples.append((time.time(), self._used()))
            self._ended.wait(SAMPLE_S)

    def _used(self) -> dict[str, float]:
        """Processor seconds so far."""
        used = dict.fromkeys(PARTS, 0.0)
        me = psutil.Process()
        used["driver"] = _seconds(me)
        for process in me.children(recursive=True):
            try:
                used[part_of(process, me.pid, self._kafka_pid)] += _seconds(process)
            except psutil.NoSuchProcess:  # it has ended
                continue
        return used


def part_of(process: psutil.Process, driver_pid: int | None, kafka_pid: int | None) -> str:
    """Which of PARTS a process of a job's family is."""
    if process.pid == kafka_pid:
        return "kafka"
    if process.pid == driver_pid:
        return "driver"
    if process.name() == "java":
        return "spark"
    return "workers" if WORKER_DAEMON in process.cmdline() else "load"


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
