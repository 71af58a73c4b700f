"""Files on a local disk or a mount: each appears whole or not at all.

create(name):   .name.UUID.unfinished  --linked, unless the name is taken-->  name
replace(name):  .name.unfinished       --renamed, over whatever is there-->   name
"""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from streaming.storage.port import StoredFile

HIDDEN_END: Final = ".unfinished"


@dataclass(frozen=True)
class LocalStorage:
    """A folder of a local file system that supports hard links.

    Attributes:
        durable: flush each file and its name to the disk before `create` returns.
    """

    root: Path
    durable: bool = True

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, write: Callable[[Any], object]) -> bool:
        """Create a file; return False and change nothing if the name is taken.

        A crash leaves at most a hidden, unreferenced file.
        """
        target = self.root / name
        with suppress(FileNotFoundError):
            os.utime(target)  # still in use: cleaning up by age must spare it
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}.{uuid.uuid4().hex}{HIDDEN_END}")
        try:
            self._write(hidden, write)
            try:
                os.link(hidden, target)
            except FileExistsError:
                return False
        finally:
            hidden.unlink(missing_ok=True)
        if self.durable:
            flush(target.parent)
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Write a file, whatever is there. A crash leaves the old file or the new one.

        The temporary file is hidden, because Spark lists the folders of its own logs.
        """
        self._put(name, lambda file: file.write(content))

    def upload(self, name: str, file: IO[bytes]) -> None:
        """Write a file of any length from an open local one; replace an existing one."""
        self._put(name, lambda target: shutil.copyfileobj(file, target))

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        try:
            return (self.root / name).stat().st_size
        except FileNotFoundError:
            return None

    def open(self, name: str) -> Any:
        """Open a file for reading at any place: a binary file of Python's or of pyarrow's.

        The open file stays readable after its name is removed.
        """
        import pyarrow as pa  # noqa: PLC0415 - slow

        return pa.memory_map(str(self.root / name))

    def delete(self, name: str) -> None:
        """Remove a file if it exists."""
        (self.root / name).unlink(missing_ok=True)

    def move(self, name: str, target: Self) -> None:
        """Move a file below another place of the same store, under its name.

        A folder moves whole.
        """
        path = target.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).rename(path)

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        """The files in a folder, hidden ones included, without those in folders below it."""
        path = self.root / folder
        if not path.is_dir():
            return
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    if entry.is_file():
                        status = entry.stat()
                        modified_ms = status.st_mtime_ns // 1_000_000
                        yield StoredFile(entry.name, status.st_size, modified_ms)
                except FileNotFoundError:  # removed meanwhile
                    continue

    def names(self) -> list[str]:
        """The names of the files in the folder itself, as they were at one moment.

        `files` would leave out one that is removed before it is looked at.
        """
        try:
            return [path.name for path in self.root.iterdir()]
        except FileNotFoundError:
            return []

    def all_names(self) -> list[str]:
        """The names of all files, with those in folders."""
        return [str(path.relative_to(self.root)) for path in _files_below(self.root)]

    def has_any(self, folder: str = "") -> bool:
        """Whether there is a file in a folder, or below it."""
        return any(True for _ in _files_below(self.root / folder))

    def _put(self, name: str, write: Callable[[Any], object]) -> None:
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}{HIDDEN_END}")
        self._write(hidden, write)
        hidden.replace(target)
        if self.durable:
            flush(target.parent)

    def _write(self, path: Path, write: Callable[[Any], object]) -> None:
        with path.open("wb") as file:
            write(file)
            if self.durable:
                file.flush()
                os.fsync(file.fileno())


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk.

    Without the latter, a power failure can undo a rename, or bring a removed file back.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
