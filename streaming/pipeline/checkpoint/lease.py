"""The lease of a checkpoint in shared storage: of several drivers, one may commit.

    lease.json.N: {"epoch": 1795400000000, "held": true, "host": ..., "renewals": 12, ...}

    free, or not renewed for its duration --next number, higher epoch--> ours --renewed--> ours
                                                                           |
             a renewal finds another number, or none succeeds in time --> lost: nothing is
                                                                           committed any more

A starting driver does not compare clocks: it watches the lease, and takes it if it does not change
for its whole duration. A holder counts its own time from before it asks for a renewal, and includes
time for which the machine slept. So a holder stops before another one may start.

A driver that was stopped between this check and its commit is refused by the tables themselves:
each commit carries the epoch, and the next driver raises it first (`ledger.write.job_fence`).
"""

import logging
import os
import platform
import threading
import time
from pathlib import Path
from typing import Final

import msgspec

from streaming.pipeline.checkpoint.errors import CheckpointInUseError, LeaseLostError
from streaming.storage.json_file import DamagedFileError
from streaming.storage.location import AnyPath, storage_of
from streaming.storage.numbered_file import NumberedFile

FILE: Final = "lease.json"
RENEWALS_PER_DURATION: Final = 4
_POLL_S: Final = 0.25
_REMEDY: Final = "Stop every job of this checkpoint, then delete the file"

logger = logging.getLogger(__name__)


class Held(msgspec.Struct, frozen=True):
    """The content of the lease.

    Attributes:
        epoch: goes up with each holder; no commit of an earlier one is accepted.
        held: whether the holder still runs; False once it has ended in good order.
        renewals: goes up with each renewal.
        renewed_ms: by the holder's clock; for people only.
    """

    epoch: int
    held: bool
    host: str
    pid: int
    duration_ms: int
    renewals: int = 0
    renewed_ms: int = 0

    @property
    def age_ms(self) -> int:
        """How long ago it was renewed, if both clocks are right."""
        return max(0, time.time_ns() // 1_000_000 - self.renewed_ms)

    @property
    def holder(self) -> str:
        """Who has it, for a message."""
        return f"process {self.pid} on {self.host}"


def lease_file(checkpoint: AnyPath) -> NumberedFile:
    """The file of the lease of a checkpoint."""
    return NumberedFile(storage_of(checkpoint), FILE)


def read_lease(checkpoint: AnyPath) -> Held | None:
    """Return the lease of a checkpoint; None if there is none.

    Raises:
        DamagedFileError: it cannot be read.
    """
    found = lease_file(checkpoint).read()
    return None if found is None else _decoded(checkpoint, found)


class CheckpointLease:
    """The lease of one checkpoint; `acquire`, then `check` before every commit.

    Args:
        duration_ms: how long a renewal lasts.
    """

    def __init__(self, checkpoint: AnyPath, duration_ms: int) -> None:
        self._checkpoint = checkpoint
        self._file = lease_file(checkpoint)
        self._duration_ms = duration_ms
        self._mine: Held | None = None
        self._version = 0
        self._until_s = 0.0
        self._lost = ""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def epoch(self) -> int:
        """The epoch of this holder."""
        assert self._mine is not None, "the lease is not held"
        return self._mine.epoch

    def acquire(self) -> None:
        """Take the lease, after its last holder has ended or was silent for the whole duration.

        Raises:
            CheckpointInUseError: another job renews it.
            StoreError: the storage does not answer.
        """
        if isinstance(self._checkpoint, Path):
            self._checkpoint.mkdir(parents=True, exist_ok=True)
        found = self._file.read()
        if found is None:
            self._take(None, 0)
            return
        before, version = _decoded(self._checkpoint, found), found[1]
        if before.held:
            before, version = self._watch(before, version)
        self._take(before, version)

    def check(self) -> None:
        """Return if this driver may commit.

        Raises:
            LeaseLostError: it may not, now or ever again.
        """
        if not self._lost and _now_s() >= self._until_s:
            self._lost = f"it was not renewed for {self._duration_ms / 1000:g} s"
        if self._lost:
            raise LeaseLostError(
                f"job.checkpoint_location: this job lost the lease of {self._checkpoint}: "
                f"{self._lost}. It commits nothing any more; the job that has the lease continues"
            )

    def stop_renewing(self) -> None:
        """Let the lease run out."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def renew(self) -> None:
        """Renew the lease once; if somebody else has it, it is lost.

        Raises:
            StoreError: the storage does not answer.
        """
        assert self._mine is not None, "the lease is not held"
        started_s = _now_s()
        if self._put(msgspec.structs.replace(self._mine, renewals=self._mine.renewals + 1)):
            self._until_s = started_s + self._duration_ms / 1000
        else:
            self._lost = "another job has taken it"

    def release(self) -> None:
        """Let another job take it at once; harmless without it."""
        self.stop_renewing()
        if self._mine is not None and not self._lost:
            try:
                self._put(msgspec.structs.replace(self._mine, held=False))
            except OSError:
                logger.warning("the lease could not be released; it ends by itself")
        self._mine = None

    def _watch(self, before: Held, version: int) -> tuple[Held, int]:
        """Wait until the lease is free; return what it is then, and its version."""
        logger.warning(
            "the lease of %s is held by %s: waiting up to %g s for a renewal",
            *(self._checkpoint, before.holder, before.duration_ms / 1000),
        )
        until_s = _now_s() + before.duration_ms / 1000
        while _now_s() < until_s:
            time.sleep(_POLL_S)
            found = self._file.read()
            if found is None:
                break
            now = _decoded(self._checkpoint, found)
            if not now.held:
                return now, found[1]
            if found[1] != version:
                raise CheckpointInUseError(
                    f"job.checkpoint_location: another job uses {self._checkpoint}: {now.holder} "
                    "renews its lease. Stop it, or give this job its own checkpoint and tables"
                )
        return before, version

    def _take(self, before: Held | None, version: int) -> None:
        started_s = _now_s()
        now_ms = time.time_ns() // 1_000_000
        epoch = now_ms if before is None else max(before.epoch + 1, now_ms)
        self._mine = Held(
            epoch,
            held=True,
            host=platform.node(),
            pid=os.getpid(),
            duration_ms=self._duration_ms,
            renewed_ms=now_ms,
        )
        taken = self._file.replace(msgspec.json.encode(self._mine), version)
        if taken is None:
            self._mine = None
            raise CheckpointInUseError(
                f"job.checkpoint_location: another job has just taken {self._checkpoint}. Stop "
                "it, or give this job its own checkpoint and tables"
            )
        self._version = taken
        self._until_s = started_s + self._duration_ms / 1000
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause_s = self._duration_ms / 1000 / RENEWALS_PER_DURATION
        has_failed = False
        while not self._stopping.wait(pause_s) and not self._lost:
            try:
                self.renew()
            except OSError as error:
                if not has_failed:
                    logger.warning("the lease could not be renewed, trying again: %s", error)
                has_failed = True
                continue
            if has_failed:
                logger.warning("the lease is renewed again")
                has_failed = False

    def _put(self, value: Held) -> bool:
        """Write the lease; return False if it is somebody else's."""
        value = msgspec.structs.replace(value, renewed_ms=time.time_ns() // 1_000_000)
        content = msgspec.json.encode(value)
        version = self._file.replace(content, self._version)
        if version is None:  # the answer to our own last request may have been lost
            found = self._file.read()
            if found is None or _decoded(self._checkpoint, found).epoch != value.epoch:
                return False
            version = self._file.replace(content, found[1])
        if version is None:
            return False
        self._version, self._mine = version, value
        return True


def _decoded(checkpoint: AnyPath, found: tuple[bytes, int]) -> Held:
    content, version = found
    try:
        return msgspec.json.decode(content, type=Held)
    except msgspec.DecodeError as error:
        path = checkpoint / f"{FILE}.{version}"
        raise DamagedFileError(f"{path} is damaged ({error}). {_REMEDY}") from error


def _now_s() -> float:
    """Return a clock that never goes back and goes on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
