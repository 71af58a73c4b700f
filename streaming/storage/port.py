"""The port to storage: what is the same on a local disk, in an object store and in HDFS.

    create(name)     succeeds once, whoever else tries at the same time
    replace(name)    whoever reads finds the old content or the new one

Nothing here loads pyarrow, so that commands which only read tables start quickly.
"""

from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple, Protocol, Self


class StoreError(OSError):
    """Shared storage did not answer, or refused; names the address but no credentials."""


class StoredFile(NamedTuple):
    """A file in a listing; its name is relative to the listed folder."""

    name: str
    size: int
    modified_ms: int


class Storage(Protocol):
    """The files below one folder or URL. All names are relative to it. Thread-safe."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""

    def create(self, name: str, write: Callable[[Any], object]) -> bool:
        """Create a file; return False and change nothing if the name is taken.

        Args:
            write: writes the content to the binary file it is given. It may never be called.
        """

    def replace(self, name: str, content: bytes) -> None:
        """Write a file, whatever is there."""

    def upload(self, name: str, file: IO[bytes]) -> None:
        """Write a file of any length from an open local one; replace an existing one."""

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""

    def open(self, name: str) -> Any:
        """Open a file for reading at any place: a binary file of Python's or of pyarrow's.

        Raises:
            FileNotFoundError: it does not exist.
        """

    def delete(self, name: str) -> None:
        """Remove a file if it exists."""

    def move(self, name: str, target: Self) -> None:
        """Move a file below another place of the same store, under its name."""

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        """The files in a folder, hidden ones included, without those in folders below it."""

    def names(self) -> list[str]:
        """The names of the files in the folder itself, as they were at one moment."""

    def all_names(self) -> list[str]:
        """The names of all files, with those in folders."""

    def has_any(self, folder: str = "") -> bool:
        """Whether there is a file in a folder, or below it."""
