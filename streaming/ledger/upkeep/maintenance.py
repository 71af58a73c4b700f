"""Maintain the tables beside the batches: checkpoints, compaction, log cleanup, vacuum.

Each task runs when it is due, independently of other tables and off the batch path. If two commits
overlap, the second one is retried. Without maintenance the tables stay correct but get slower.
"""

import atexit
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import LEDGER, TABLES
from streaming.ledger.schema.table_setup import load_table, table_exists
from streaming.ledger.upkeep.compaction import (
    SORTED_BYTES,
    Rest,
    SmallFile,
    compact,
    is_large,
    no_rest,
    plan,
    small_files,
)
from streaming.ledger.upkeep.vacuum import LowestResident, Vacuum
from streaming.ledger.write.durability import flush_checkpoint
from streaming.ledger.write.table_writer import TableWriter, last_checkpoint
from streaming.machine_cores import LOOK_S
from streaming.niceness import yield_at_least
from streaming.storage.location import Location

Task = Literal["checkpoint", "compaction", "log cleanup", "vacuum"]

_CHECKPOINT_SHARE: Final = 20
"""At most one part in 20 of the time goes into a table's checkpoints, however large they are."""

_NICE: Final = 10

REST: Final = 1.0
"""How many times as long as it has worked compaction rests, if it is to leave time to others."""

_SHARED_LOOK_MS: Final = 10_000
"""How often a table in shared storage that another part of the job writes is looked at."""

_log = logging.getLogger(__name__)


def lower_priority() -> None:
    """Let this thread use the processor time that other threads and processes leave.

    Only Linux knows priorities of threads; elsewhere this does nothing.
    """
    if sys.platform == "linux":
        yield_at_least(threading.get_native_id(), _NICE)


@dataclass(frozen=True)
class Schedule:
    """When each task is due.

    Attributes:
        checkpoint_commits: commits between checkpoints. Each commit since the last one makes the
            next 0.18 ms slower; a checkpoint takes 5-50 ms, off the batch path.
        compaction_files: number of small files in a table that makes compaction due at once, even
            under load, to keep commits short.
        compaction_least_files: the smallest number of small files that is compacted.
        vacuum_grace_ms: how long unneeded files stay: longer than the longest query.
    """

    checkpoint_commits: int = 20
    compaction_ms: int = 60_000
    compaction_files: int = 500
    compaction_least_files: int = 10
    target_bytes: int = 128 * 1024 * 1024
    log_cleanup_ms: int = 10_000
    vacuum_ms: int = 600_000
    vacuum_grace_ms: int = 3_600_000


@dataclass(frozen=True)
class Done:
    """One task that changed something; `count` files, or 1 checkpoint."""

    table: str
    task: Task
    count: int
    seconds: float


class TableMaintenance:
    """The tasks of one table.

    Args:
        writer: commits to the table in this process; it is offered a handle after each checkpoint.
        rest: lets compaction rest, but not behind many files.

    Attributes:
        has_many_files: whether the next compaction cannot be put off.
    """

    def __init__(
        self,
        root: Location,
        name: str,
        schedule: Schedule,
        writer: TableWriter | None = None,
        rest: Rest = no_rest,
    ) -> None:
        self.name = name
        self._spec = TABLES[name]
        self._place = root / name
        self._storage = self._place.storage()
        self._schedule = schedule
        self._writer = writer
        self._rest = rest
        protect = name == "messages"
        self._vacuum = Vacuum(self._place, schedule.vacuum_grace_ms, protect_messages=protect)
        self._next_ms: dict[Task, int] = {}
        self._due_version = 0  # the next checkpoint
        self._cleaned_version = -1
        self.has_many_files = False
        self._exists = False

    def step(
        self,
        now_ms: int,
        lowest_resident: LowestResident | None = None,
        *,
        is_busy: bool = False,
    ) -> list[Done]:
        """Run the tasks that are due; do nothing until the table exists.

        Args:
            lowest_resident: see `Vacuum.sweep`.
            is_busy: batches need the processors; compaction waits until there are many files.
        """
        schedule = self._schedule
        self._exists = self._exists or table_exists(self._place)
        if not self._exists:
            return []
        done = self.checkpoint_if_due(now_ms)
        # The updater of `queue_contents` rewrites that table itself.
        is_joined = self.name in LEDGER or self._spec.sort is not None
        may_compact = is_joined and (self.has_many_files or not is_busy)
        if may_compact and self._due("compaction", now_ms, schedule.compaction_ms):
            done += self._run("compaction", self._compact)
        if self._due("log cleanup", now_ms, schedule.log_cleanup_ms) and self._has_commits():
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                load_table(self._place).cleanup_metadata()
        if self._due("vacuum", now_ms, schedule.vacuum_ms):
            done += self._run("vacuum", lambda: self._sweep(now_ms, lowest_resident))
        return done

    def checkpoint_if_due(self, now_ms: int) -> list[Done]:
        """Make a checkpoint if it is due; none of a table that no `step` has seen."""
        if not self._exists or not self._may_be_due(now_ms):
            return []
        done = self._run("checkpoint", self._checkpoint)
        for one in done:
            pause_ms = one.seconds * 1000 * _CHECKPOINT_SHARE
            self._next_ms["checkpoint"] = now_ms + int(pause_ms)
        return done

    def _run(self, task: Task, work: Callable[[], int]) -> list[Done]:
        started = time.perf_counter()
        count = work()
        return [Done(self.name, task, count, time.perf_counter() - started)] if count else []

    def _due(self, task: Task, now_ms: int, interval_ms: int) -> bool:
        if now_ms < self._next_ms.get(task, 0):
            return False
        self._next_ms[task] = now_ms + interval_ms
        return True

    def _may_be_due(self, now_ms: int) -> bool:
        """Whether to look for a due checkpoint: a look is two requests in shared storage.

        The writer of this process knows the version, so that most looks are spared.
        """
        if now_ms < self._next_ms.get("checkpoint", 0):
            return False
        if self._writer is None:
            if self._place.local_path() is None:
                self._next_ms["checkpoint"] = now_ms + _SHARED_LOOK_MS
            return True
        return self._writer.version >= self._due_version

    def _has_commits(self) -> bool:
        """Whether this process's writer has committed since the last log cleanup."""
        if self._writer is None:
            return True
        before, self._cleaned_version = self._cleaned_version, self._writer.version
        return before != self._cleaned_version

    def _checkpoint(self) -> int:
        """Make a checkpoint if enough was committed since the last one."""
        due = max(last_checkpoint(self._storage), 0) + self._schedule.checkpoint_commits
        self._due_version = due
        if self._storage.size(f"_delta_log/{due:020}.json") is None:
            return 0
        load_table(self._place).create_checkpoint()
        table = load_table(self._place)
        flush_checkpoint(self._place, table.version())
        self._due_version = table.version() + self._schedule.checkpoint_commits
        files = ActiveFiles(table)
        target = self._schedule.target_bytes
        both = zip(files.sizes, files.rows, strict=True)
        small = sum(not is_large(int(size), int(rows), target) for size, rows in both)
        if small >= self._schedule.compaction_files:
            self.has_many_files = True
            self._next_ms["compaction"] = 0
        if self._writer is not None:
            self._writer.offer(table)
        return 1

    def to_compact(self) -> list[list[SmallFile]]:
        """The groups of files that compaction would replace now."""
        schedule = self._schedule
        files = small_files(self._spec, ActiveFiles(load_table(self._place)))
        target = schedule.target_bytes
        if self._spec.sort is not None:
            target = min(target, SORTED_BYTES)
        return plan(files, target, schedule.compaction_least_files)

    def _compact(self) -> int:
        def rest(worked_s: float) -> None:
            if not self.has_many_files:
                self._rest(worked_s)

        results = [compact(self._place, self._spec, group, rest) for group in self.to_compact()]
        self.has_many_files = False
        return sum(len(result.replaced) for result in results if result is not None)

    def _sweep(self, now_ms: int, lowest_resident: LowestResident | None) -> int:
        swept = self._vacuum.sweep(load_table(self._place), now_ms, lowest_resident)
        if swept.kept:
            _log.warning(
                "%s: vacuum keeps %d files that are no longer part of the table, such as %s: they "
                "hold messages that are still in queues and in no other file",
                self._place.url,
                len(swept.kept),
                swept.kept[0],
            )
        return len(swept.removed)


class Maintenance:
    """Maintains several tables in its own thread.

    Args:
        writers: this process's writer of each table.
        lowest_resident: gives the value for `Vacuum.sweep`.
        is_busy: whether batches need the processors at present.
        has_burst: whether others need the processors for a short while; compaction that has begun
            waits for the end of that, and rests as long as it works at other times. None: it does
            neither.
    """

    def __init__(
        self,
        root: Location,
        schedule: Schedule | None = None,
        writers: Mapping[str, TableWriter] | None = None,
        lowest_resident: Callable[[], LowestResident] | None = None,
        is_busy: Callable[[], bool] = lambda: False,
        names: tuple[str, ...] = tuple(TABLES),
        pause_seconds: float = 0.5,
        *,
        has_burst: Callable[[], bool] | None = None,
    ) -> None:
        self._lowest_resident = lowest_resident
        self._is_busy = is_busy
        self._pause_seconds = pause_seconds
        self._stopping = threading.Event()
        self._tables = [
            TableMaintenance(
                root,
                name,
                schedule or Schedule(),
                (writers or {}).get(name),
                no_rest if has_burst is None else partial(self._rest, has_burst),
            )
            for name in names
        ]
        self._thread = threading.Thread(target=self._run, name="ledger-maintenance", daemon=True)
        self.last_error: Exception | None = None

    def step(self, now_ms: int) -> list[Done]:
        """Run the tasks that are due in every table. A failure is logged; other tables continue."""
        lowest = self._lowest_resident() if self._lowest_resident is not None else None
        return self._each(lambda table: table.step(now_ms, lowest, is_busy=self._is_busy()))

    def _each(self, work: Callable[[TableMaintenance], list[Done]]) -> list[Done]:
        done: list[Done] = []
        for table in self._tables:
            try:
                done += work(table)
            except Exception as error:  # noqa: BLE001 (maintenance never stops the stream)
                self.last_error = error
                _log.exception("maintenance of table %s failed; it will be retried", table.name)
            if self._stopping.is_set():
                break
        return done

    def _rest(self, has_burst: Callable[[], bool], worked_s: float) -> None:
        """Let compaction rest; without checkpoints meanwhile, commits would become slower."""
        rest_s = REST * worked_s
        while True:
            now_ms = time.time_ns() // 1_000_000
            self._each(partial(TableMaintenance.checkpoint_if_due, now_ms=now_ms))
            is_over = self._stopping.wait(rest_s) or any(one.has_many_files for one in self._tables)
            if is_over or not has_burst():
                return
            rest_s = LOOK_S

    def start(self) -> None:
        """Start the thread, once. It ends with the process at the latest."""
        self._thread.start()
        # A thread inside native code must not be running when the interpreter ends.
        atexit.register(self.stop)

    def stop(self) -> None:
        """Finish the running task, then end the thread."""
        atexit.unregister(self.stop)
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        lower_priority()
        while not self._stopping.wait(self._pause_seconds):
            self.step(time.time_ns() // 1_000_000)
