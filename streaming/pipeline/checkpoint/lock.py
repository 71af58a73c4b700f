"""The lock that keeps a second job away from a checkpoint; it ends with its process."""

from pathlib import Path

from filelock import FileLock, Timeout

from streaming.pipeline.checkpoint.errors import CheckpointError
from streaming.pipeline.checkpoint.folders import make_folder

FILE = "dlx.lock"


class CheckpointLock:
    """The lock of one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._lock = FileLock(checkpoint / FILE, thread_local=False)

    def acquire(self) -> None:
        """Take the lock; create the checkpoint's folder.

        Raises:
            CheckpointError: another job has the lock.
            FolderError: the folder cannot be written to.
        """
        make_folder("job.checkpoint_location", self._checkpoint)
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise CheckpointError(
                f"job.checkpoint_location: another job uses {self._checkpoint}. Stop it, or give "
                "this job its own checkpoint and tables"
            ) from error

    def release(self) -> None:
        """Let another job take the lock; harmless without the lock."""
        self._lock.release()
