"""Keeping the tables healthy beside the batches: checkpoints, joined files, short log, no rubbish.

Each task is done when it is due and none waits for another table's. None is on a batch's path:
commits go on meanwhile, and one that overlaps with another is tried again by whoever was second. If
all of this stops, the tables stay right and get slower.
"""

import atexit
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from streaming.ledger.read.snapshot_files import ActiveFiles
from streaming.ledger.schema.schemas import LEDGER, TABLES
from streaming.ledger.schema.table_setup import load_table, table_exists
from streaming.ledger.storage import Place
from streaming.ledger.upkeep.compaction import join
from streaming.ledger.upkeep.compaction_plan import plan, small_files
from streaming.ledger.upkeep.vacuum import LowestResident, Vacuum
from streaming.ledger.write.table_writer import TableWriter, last_checkpoint

Task = Literal["checkpoint", "compaction", "log cleanup", "vacuum"]

_MESSAGES: Final = "messages"
_CHECKPOINT_SHARE: Final = 20
"""Of the time, one part in so many may go into a table's checkpoints, however large they are."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Schedule:
    """When what is done.

    Attributes:
        checkpoint_commits: commits between checkpoints. Each commit since the last one makes the
            next 0.18 ms slower; a checkpoint costs 5-50 ms, elsewhere.
        compaction_ms: how often small files are looked for.
        compaction_files: as many files in a table make it due at once; it keeps a commit short.
        compaction_least_files: fewer small files are left for later.
        target_bytes: size of joined files.
        log_cleanup_ms: how often entries past the table's log retention are removed.
        vacuum_ms: how often files no longer needed are looked for.
        vacuum_grace_ms: how long they stay: longer than the longest query.
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
    """One task done.

    Attributes:
        count: files joined or removed; 1 for a checkpoint.
        seconds: how long it took.
    """

    table: str
    task: Task
    count: int
    seconds: float


class TableMaintenance:
    """One table's tasks.

    Args:
        root: of the tables.
        writer: who commits to it in this process; it is handed each table loaded from a checkpoint.
    """

    def __init__(
        self, root: Place, name: str, schedule: Schedule, writer: TableWriter | None = None
    ) -> None:
        self.name = name
        self._spec = TABLES[name]
        self._place = root.below(name)
        self._storage = self._place.storage()
        self._schedule = schedule
        self._writer = writer
        self._vacuum = Vacuum(
            self._storage, schedule.vacuum_grace_ms, protect_messages=name == _MESSAGES
        )
        self._next_ms: dict[Task, int] = {}
        self._exists = False

    def step(self, now_ms: int, lowest_resident: LowestResident | None = None) -> list[Done]:
        """Do what is due; nothing as long as there is no such table.

        Args:
            now_ms: epoch milliseconds.
            lowest_resident: see `Vacuum.sweep`.
        """
        schedule = self._schedule
        done: list[Done] = []
        self._exists = self._exists or table_exists(self._place)
        if not self._exists:
            return done

        def run(task: Task, work: Callable[[], int]) -> None:
            started = time.perf_counter()
            count = work()
            if count:
                done.append(Done(self.name, task, count, time.perf_counter() - started))

        if now_ms >= self._next_ms.get("checkpoint", 0):
            run("checkpoint", self._checkpoint)
            if done:
                pause_ms = done[0].seconds * 1000 * _CHECKPOINT_SHARE
                self._next_ms["checkpoint"] = now_ms + int(pause_ms)
        if self._name_is_ledger() and self._due("compaction", now_ms, schedule.compaction_ms):
            run("compaction", self._compact)
        if self._due("log cleanup", now_ms, schedule.log_cleanup_ms):
            run("log cleanup", self._clean_log)
        if self._due("vacuum", now_ms, schedule.vacuum_ms):
            run("vacuum", lambda: self._sweep(now_ms, lowest_resident))
        return done

    def _name_is_ledger(self) -> bool:
        """`queue_contents` is rewritten by whoever keeps it: it must not be rewritten here too."""
        return self.name in LEDGER

    def _due(self, task: Task, now_ms: int, interval_ms: int) -> bool:
        if now_ms < self._next_ms.get(task, 0):
            return False
        self._next_ms[task] = now_ms + interval_ms
        return True

    def _checkpoint(self) -> int:
        """Make a checkpoint if enough was committed since the last."""
        due = max(last_checkpoint(self._storage), 0) + self._schedule.checkpoint_commits
        if self._storage.size(f"_delta_log/{due:020}.json") is None:
            return 0
        load_table(self._place).create_checkpoint()
        table = load_table(self._place)
        if len(ActiveFiles(table)) >= self._schedule.compaction_files:
            self._next_ms["compaction"] = 0
        if self._writer is not None:
            self._writer.offer(table)
        return 1

    def _compact(self) -> int:
        schedule = self._schedule
        files = small_files(self._spec, ActiveFiles(load_table(self._place)))
        joined = 0
        for group in plan(files, schedule.target_bytes, schedule.compaction_least_files):
            result = join(self._place, self._spec, group)
            if result is not None:
                joined += len(result.replaced)
        return joined

    def _clean_log(self) -> int:
        before = self._log_files()
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            load_table(self._place).cleanup_metadata()
        return max(before - self._log_files(), 0)

    def _log_files(self) -> int:
        return sum(1 for _ in self._place.below("_delta_log").storage().files())

    def _sweep(self, now_ms: int, lowest_resident: LowestResident | None) -> int:
        swept = self._vacuum.sweep(load_table(self._place), now_ms, lowest_resident)
        if swept.kept:
            _log.warning(
                "%s: %d files are kept although nothing names them: they hold messages that are "
                "still in queues and in no other file, such as %s",
                self._place.url,
                len(swept.kept),
                swept.kept[0],
            )
        return len(swept.removed)


class Maintenance:
    """Looks after several tables in a thread of its own.

    Args:
        root: of the tables.
        schedule: when what is done.
        writers: by table, who commits in this process.
        lowest_resident: asked before each vacuum of `messages`.
        names: of the tables; all by default, made yet or not.
        pause_seconds: between two rounds of the thread.
    """

    def __init__(
        self,
        root: Place,
        schedule: Schedule | None = None,
        writers: Mapping[str, TableWriter] | None = None,
        lowest_resident: Callable[[], LowestResident] | None = None,
        names: tuple[str, ...] = tuple(TABLES),
        pause_seconds: float = 0.5,
    ) -> None:
        self._lowest_resident = lowest_resident
        self._tables = [
            TableMaintenance(root, name, schedule or Schedule(), (writers or {}).get(name))
            for name in names
        ]
        self._pause_seconds = pause_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-maintenance", daemon=True)
        self.last_error: Exception | None = None

    def step(self, now_ms: int) -> list[Done]:
        """Do what is due in every table. A failure in one is logged; the others go on."""
        lowest = self._lowest_resident() if self._lowest_resident is not None else None
        done: list[Done] = []
        for table in self._tables:
            try:
                done += table.step(now_ms, lowest)
            except Exception as error:  # noqa: BLE001 - upkeep never stops the stream
                self.last_error = error
                _log.exception("upkeep of table %s failed; it is tried again", table.name)
        return done

    def start(self) -> None:
        """Begin; once. It ends with the process, if nobody stops it before."""
        self._thread.start()
        atexit.register(
            self.stop
        )  # a thread inside native code must not meet the interpreter's end

    def stop(self) -> None:
        """Finish the task under way, then end."""
        atexit.unregister(self.stop)
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_seconds):
            self.step(time.time_ns() // 1_000_000)
