"""Processes of a benchmark: start, stop and kill them, and measure what they use."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Final, Self

import psutil

from streaming.embedded.child import start_child
from streaming.spark.settings import WORKER_DAEMON

STOP_TIMEOUT_S: Final = 180
STOP_GRACE_S: Final = 30
SAMPLE_S: Final = 0.5
LEAST_S: Final = 0.001
"""What is shorter than that has no share of a core that means anything."""

PARTS: Final = ("driver", "workers", "spark", "kafka", "load")
"""The Python driver (commits, upkeep, contents), Python workers, Spark's JVM, Kafka's JVM, and the
process that publishes and consumes."""

_UNKNOWN: Final = "load"
"""A process may be another program's before it is its own."""


class Process:
    """A Python module as a process, with its output in a log file.

    Args:
        root: the folder of the log file.
        name: the name of the process and of `NAME.log`.
        arguments: the arguments of `python -m`.
    """

    def __init__(self, root: Path, name: str, *arguments: str) -> None:
        self.name = name
        self.log = root / f"{name}.log"
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id; None while it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process, or start it again."""
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", *self._arguments]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """Send SIGKILL to the process and everything that it started."""
        if self._process is None:
            return
        kill_family(self._process.pid)
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """Send SIGTERM and wait; kill the process if it does not end.

        Raises:
            RuntimeError: it ended with an error; the text has the end of its log.
        """
        if self._process is None:
            return
        self._process.terminate()
        try:
            code = self._process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -9
        self._process = None
        if code:
            raise RuntimeError(f"{self.name} ended with {code}:\n{self.log_end()}")

    def check(self) -> None:
        """Raise RuntimeError if the process has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            code, self._process = self._process.returncode, None
            raise RuntimeError(f"{self.name} ended by itself with {code}:\n{self.log_end()}")

    def log_end(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""


class Supervised:
    """A program that ends with this process, however this process ends.

    Attributes:
        pid: its process id.
        output: the file with its output.
    """

    def __init__(
        self, command: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.output = output
        self._child = start_child(
            command,
            output,
            cwd=Path.cwd(),
            environment={**os.environ, **(environment or {})},
            grace_s=STOP_GRACE_S,
        )
        self.pid = self._child.pid

    @property
    def has_ended(self) -> bool:
        """Whether the program has ended by itself.

        Raises:
            RuntimeError: it ended with an error; the text has the end of its output.
        """
        status = self._child.status()
        if status:
            raise RuntimeError(f"{self.output.stem} ended with {status}:\n{self.output_end()}")
        return status is not None

    def output_end(self) -> str:
        """Return the end of its output."""
        return self.output.read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """Stop the program, and wait for its end."""
        self._child.request_stop()
        self._child.wait()


class CpuUse:
    """Samples the CPU time of this process and its descendants inside its `with` block.

    Args:
        known: the part that a process id belongs to, for processes that cannot be told apart.
    """

    def __init__(self, known: Mapping[int, str]) -> None:
        self._known = known
        self._parts = tuple(dict.fromkeys((*PARTS, *known.values())))
        self._used: dict[int, tuple[str, float]] = {}
        self._samples: list[tuple[float, dict[str, float]]] = []
        self._one_at_a_time = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu use", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def cores(self, start_s: float, end_s: float) -> dict[str, float]:
        """Return the cores that each part used on average between two instants (epoch seconds)."""
        self._sample()  # the last one may be from before the start
        first, last = self._used_until(start_s), self._used_until(end_s)
        seconds = max(end_s - start_s, LEAST_S)
        return {
            f"{part}_cores": round((last[part] - first[part]) / seconds, 2) for part in self._parts
        }

    def _used_until(self, instant_s: float) -> dict[str, float]:
        """The seconds of each part; between two samples they are used evenly."""
        index = bisect_left(self._samples, instant_s, key=itemgetter(0))
        (before_s, before), (after_s, after) = (
            self._samples[min(max(each, 0), len(self._samples) - 1)] for each in (index - 1, index)
        )
        share = (instant_s - before_s) / (after_s - before_s) if after_s > before_s else 0.0
        return {part: before[part] + share * (after[part] - before[part]) for part in self._parts}

    def _run(self) -> None:
        while not self._ended.is_set():
            self._sample()
            self._ended.wait(SAMPLE_S)

    def _sample(self) -> None:
        with self._one_at_a_time:
            self._samples.append((time.time(), self._cpu_seconds()))

    def _cpu_seconds(self) -> dict[str, float]:
        me = os.getpid()
        for pid in {process.pid for process in family(me)} | self._known.keys():
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                times = process.cpu_times()
                part, _ = self._used.get(pid, (_UNKNOWN, 0.0))
                if part == _UNKNOWN:  # to ask each time costs more than all else here
                    part = part_of(process, me, self._known)
                self._used[pid] = (part, times.user + times.system)
        used = dict.fromkeys(self._parts, 0.0)
        for part, seconds in self._used.values():  # a process that has ended keeps its time
            used[part] += seconds
        return used


def part_of(process: psutil.Process, driver_pid: int | None, known: Mapping[int, str]) -> str:
    """Return which part of the system a process belongs to: one of PARTS, or one that is known."""
    if process.pid in known:
        return known[process.pid]
    if process.pid == driver_pid:
        return "driver"
    if process.name() == "java":
        return "spark"
    return "workers" if WORKER_DAEMON in process.cmdline() else "load"


def kill_family(pid: int) -> None:
    """Send SIGKILL to a process and its descendants."""
    for member in family(pid):
        with suppress(psutil.NoSuchProcess):
            member.kill()


def family(pid: int | None) -> list[psutil.Process]:
    """Return a process and its descendants; nothing if it does not run."""
    if pid is None:
        return []
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def command_lines(processes: Iterable[psutil.Process]) -> str:
    """Return what everybody on this machine can read of processes, in one text."""
    lines = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it has just ended
            lines += process.cmdline()
    return " ".join(lines)
