"""What a checkpoint tells others about its job: whether it runs, and why its batches fail.

    failing.json: {"since_ms": ..., "attempts": 15, "code": "batch-failed", "next_ms": ..., ...}

    an attempt fails --> it is written, and counts on --a batch is committed--> it is removed

So whoever sees a job without new batches can say why. It stays if the job ends, or is killed: the
next start counts on. It decides nothing. If it cannot be written, only others know less.
"""

import fcntl
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from streaming.config import JobConfig
from streaming.job_locations import checkpoint_place
from streaming.pipeline.checkpoint.checkpoint import LOCK_FILE
from streaming.pipeline.checkpoint.folders import lease_ms
from streaming.pipeline.checkpoint.lease import read_lease
from streaming.storage.json_file import (
    DamagedFileError,
    read_json_file,
    remove_file,
    write_json_file,
)
from streaming.storage.location import AnyPath

FILE: Final = "failing.json"

STORAGE: Final = "the storage"
"""The cause of a failure of shared storage."""

logger = logging.getLogger(__name__)


class Failing(msgspec.Struct, frozen=True):
    """The attempts that failed since the last committed batch.

    Attributes:
        since_ms: when the first of them failed, epoch milliseconds.
        last_ms: when the last of them failed.
        attempts: how many they are, over restarts.
        code: of the error, as `dlx doctor explain` knows it.
        said: what the error says, in one line.
        cause: what failed, if that may pass by itself; empty if it lasts, or is not known.
        next_ms: when the job tries again; None: it has ended.
    """

    since_ms: int
    last_ms: int
    attempts: int
    code: str
    said: str
    cause: str = ""
    next_ms: int | None = None


class FailingFile:
    """Writes how attempts fail, for a job that holds the checkpoint.

    Args:
        now_ms: the clock; epoch milliseconds.
    """

    def __init__(
        self,
        checkpoint: AnyPath,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._checkpoint = checkpoint
        self._path = checkpoint / FILE
        self._now_ms = now_ms
        self._may_exist = True  # an earlier process may have left one

    def failed(self, code: str, said: str, cause: str = "", pause_s: float | None = None) -> None:
        """Note that an attempt has failed.

        Args:
            pause_s: how long until the next one; None: the job ends.
        """
        if cause == STORAGE and not isinstance(self._checkpoint, Path):
            return  # the file would be there too
        now_ms = self._now_ms()
        try:
            before = read_failing(self._checkpoint) if self._may_exist else None
            failing = Failing(
                now_ms if before is None else before.since_ms,
                now_ms,
                1 if before is None else before.attempts + 1,
                code,
                said,
                cause,
                None if pause_s is None else now_ms + round(1000 * pause_s),
            )
            self._may_exist = True
            write_json_file(self._path, failing)
        except OSError as error:
            logger.debug("%s could not be written: %s", self._path, error)

    def succeeded(self) -> None:
        """Note that a batch is committed."""
        if not self._may_exist:
            return
        try:
            remove_file(self._path)
        except OSError as error:
            logger.debug("%s could not be removed: %s", self._path, error)
        else:
            self._may_exist = False


def read_failing(checkpoint: AnyPath) -> Failing | None:
    """Return the attempts that failed since the last committed batch; None if none has.

    Raises:
        OSError: the checkpoint cannot be read.
    """
    try:
        return read_json_file(checkpoint / FILE, Failing, "It can be deleted")
    except DamagedFileError as error:
        logger.debug("%s", error)
        return None


class JobState(NamedTuple):
    """A job as its checkpoint tells.

    Attributes:
        runs: whether a process holds the checkpoint; None: nobody has yet, or not from here.
    """

    runs: bool | None
    failing: Failing | None


def job_state(config: JobConfig, environ: Mapping[str, str]) -> JobState:
    """Return what the checkpoint of a configuration tells.

    Raises:
        OSError: the checkpoint cannot be read.
        DlxError: the lease is damaged, or a secret cannot be read.
    """
    return JobState(_runs(config, environ), read_failing(checkpoint_place(config, environ)))


def is_running(config: JobConfig) -> bool:
    """Whether a job holds the lock or the lease of the checkpoint."""
    return bool(_runs(config, os.environ))


def _runs(config: JobConfig, environ: Mapping[str, str]) -> bool | None:
    if lease_ms(config) is not None:
        lease = read_lease(checkpoint_place(config, environ))
        return None if lease is None else lease.held and lease.age_ms < lease.duration_ms
    lock = Path(config.job.checkpoint_location) / LOCK_FILE
    try:
        with lock.open("rb") as opened:  # it may be on a volume that can only be read
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return True
    return False
