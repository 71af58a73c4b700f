"""Lets DuckDB read the files of tables in shared storage: the parts that a query needs, no more.

    read_parquet(['dlx-store://events/X.parquet'])  -->  the footer (one request)  -->  the columns

DuckDB reads Parquet footers and then the row groups and columns of a query, as in a local file. The
tails of the latest files stay in memory, since DuckDB opens a file several times.
"""

from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fsspec import AbstractFileSystem

from streaming.storage.location import Location
from streaming.storage.remote_file import RemoteFile

PROTOCOL: Final = "dlx-store"
_PREFIX: Final = f"{PROTOCOL}://"
_KEPT_FILES: Final = 256
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class SharedFiles(AbstractFileSystem):  # type: ignore[misc] # has no types
    """The files below one URL, read only; they never change once they are written."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        super().__init__()
        self._storage = Location(url, options).storage()
        self._readers: OrderedDict[str, RemoteFile] = OrderedDict()

    def open(self, path: str, *_: Any, **__: Any) -> RemoteFile:
        """Open a file for reading."""
        return self._reader(path).again()

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return self._reader(path).size

    def exists(self, path: str, **_: Any) -> bool:
        """Whether a file exists."""
        try:
            self._reader(path)
        except FileNotFoundError:
            return False
        return True

    def isfile(self, path: str) -> bool:
        """Whether a file exists."""
        return self.exists(path)

    def glob(self, path: str, **_: Any) -> list[str]:
        """The path itself: queries name every file."""
        return [path]

    def modified(self, _path: str) -> datetime:
        """Always the same instant: a file never changes."""
        return _EPOCH

    def _reader(self, path: str) -> RemoteFile:
        name = path.removeprefix(_PREFIX)
        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers[name] = self._storage.open(name)
            if len(self._readers) > _KEPT_FILES:
                self._readers.popitem(last=False)
        return reader


def shared_path(table: str, file: str) -> str:
    """What a query calls a file of a table."""
    return f"{_PREFIX}{table}/{file}"
