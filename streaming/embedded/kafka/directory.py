"""One broker a directory, also while a broker that was left behind is still ending."""

import fcntl
import os
import time
from pathlib import Path

from streaming.embedded.errors import EmbeddedError

LOOK_EVERY_S = 0.02


def take_directory(directory: Path, log_dir: Path, patience_s: float) -> int:
    """Make the directories, and take the first for one broker.

    Args:
        directory: the broker's.
        log_dir: the one for its logs.
        patience_s: how long to wait for another broker on the directory to end.

    Returns:
        A file descriptor. The directory is taken as long as a process has it, or a copy, open.

    Raises:
        EmbeddedError: it cannot be used, or another broker runs on it.
    """
    if "," in str(directory):
        raise EmbeddedError(
            f"{directory} has a comma in its name, which Kafka takes for a list of folders. Name "
            "another directory."
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        log_dir.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as failure:
        raise EmbeddedError(
            f"Kafka's directory cannot be used: {failure.strerror} ({failure.filename}). Give "
            "write access there, or name another directory."
        ) from failure
    patience_ends = time.monotonic() + patience_s
    while not _locked(lock):
        if time.monotonic() > patience_ends:
            os.close(lock)
            raise EmbeddedError(
                f"another Kafka is running on {directory}. Stop the dlx that started it, or name "
                "another directory."
            )
        time.sleep(LOOK_EVERY_S)
    return lock


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
