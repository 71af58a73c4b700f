"""Temporary folders of one process, which the next process removes if that one was killed.

    ROOT/session-XXXX/lock      locked by the process that uses the folder
    ROOT/session-XXXX/sockets   a link to a folder with a short path: the path of a Unix domain
                                socket is limited to about 100 bytes, and ROOT may be longer

Spark unpacks libraries, keeps RocksDB's files and opens sockets here. It removes them only if it
ends normally.
"""

import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PREFIX = "session-"
SHORT_PREFIX = "dlx-sockets-"


@dataclass(frozen=True, slots=True)
class Scratch:
    """The temporary folder of one process.

    Attributes:
        path: absolute; only its owner may enter, since its sockets have no password.
        lock: descriptor of the file lock that marks the folder as in use.
    """

    path: Path
    lock: int

    @classmethod
    def make(cls, root: Path) -> Self:
        """Create a folder, and remove those that killed processes left in the same root."""
        root.mkdir(parents=True, exist_ok=True)
        remove_abandoned(root)
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root)).absolute()
        lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (path / "sockets").symlink_to(tempfile.mkdtemp(prefix=SHORT_PREFIX))
        return cls(path, lock)

    def folder(self, name: str) -> Path:
        """A subfolder, created if missing."""
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def sockets(self) -> Path:
        """The short path of the folder for sockets."""
        return (self.path / "sockets").readlink()

    def remove(self) -> None:
        """Remove everything; harmless if it is already removed."""
        _remove(self.path)
        os.close(self.lock)


def remove_abandoned(root: Path) -> None:
    """Remove the folders in a root whose process has ended."""
    for path in root.glob(f"{PREFIX}*"):
        try:
            lock = os.open(path / "lock", os.O_RDWR)
        except OSError:
            continue  # being created or removed; a folder without a lock is empty
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # in use
        else:
            _remove(path)
        finally:
            os.close(lock)


def _remove(path: Path) -> None:
    link = path / "sockets"
    if link.is_symlink() and link.readlink().name.startswith(SHORT_PREFIX):
        shutil.rmtree(link.readlink(), ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)
