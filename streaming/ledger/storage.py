"""The files of a table: a narrow port, implemented for local folders and for object stores.

A data file appears whole or not at all, and is never replaced: `create` writes under a hidden name,
makes the bytes durable, then links the final name, which fails if the name is taken.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from streaming.json_file import flush
from streaming.ledger.location import local_path
from streaming.object_store import objects_at
from streaming.stored_objects import Objects

HIDDEN_END: Final = ".unfinished"


@dataclass(frozen=True)
class StoredFile:
    """A file in a table's root folder."""

    name: str
    size: int
    modified_ms: int


class Storage(Protocol):
    """The files of one table. All paths are relative to the table's root."""

    def create(self, path: str, write: Callable[[Any], None]) -> bool:
        """Create a file; return False and change nothing if the name is taken.

        Args:
            write: writes the content to the binary file it is given. It may never be called.
        """

    def size(self, path: str) -> int | None:
        """The size of a file in bytes, or None if it does not exist."""

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for random access reading; FileNotFoundError if it does not exist."""

    def delete(self, path: str) -> None:
        """Remove a file if it exists."""

    def files(self) -> Iterator[StoredFile]:
        """The files in the root folder, hidden ones included."""


@dataclass(frozen=True)
class LocalStorage:
    """A folder of a local file system that supports hard links.

    Attributes:
        durable: flush each file and its name to the disk before `create` returns.
    """

    root: Path
    durable: bool = True

    def create(self, path: str, write: Callable[[Any], None]) -> bool:
        """See `Storage`. A crash leaves at most a hidden, unreferenced file."""
        target = self.root / path
        if target.exists():
            os.utime(target)  # still in use: cleaning up by age must spare it
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}.{uuid.uuid4().hex}{HIDDEN_END}")
        try:
            with hidden.open("xb") as file:
                write(file)
                if self.durable:
                    file.flush()
                    os.fsync(file.fileno())
            try:
                os.link(hidden, target)
            except FileExistsError:
                return False
        finally:
            hidden.unlink(missing_ok=True)
        if self.durable:
            flush(target.parent)
        return True

    def size(self, path: str) -> int | None:
        """See `Storage`."""
        try:
            return (self.root / path).stat().st_size
        except FileNotFoundError:
            return None

    def open(self, path: str) -> pa.NativeFile:
        """See `Storage`. The open file stays readable after its name is removed."""
        return pa.memory_map(str(self.root / path))

    def delete(self, path: str) -> None:
        """See `Storage`."""
        (self.root / path).unlink(missing_ok=True)

    def files(self) -> Iterator[StoredFile]:
        """See `Storage`."""
        if not self.root.is_dir():
            return
        with os.scandir(self.root) as entries:
            for entry in entries:
                try:
                    if entry.is_file():
                        status = entry.stat()
                        modified_ms = status.st_mtime_ns // 1_000_000
                        yield StoredFile(entry.name, status.st_size, modified_ms)
                except FileNotFoundError:  # removed meanwhile
                    continue


@dataclass(frozen=True)
class RemoteStorage:
    """A prefix of an object store.

    An object appears when it is complete. `create` is conditional, so of two simultaneous writers
    of one name only one succeeds.
    """

    objects: Objects

    def create(self, path: str, write: Callable[[Any], None]) -> bool:
        """See `Storage`. The content is built in memory, since the request needs its length."""
        whole = pa.BufferOutputStream()
        write(whole)
        return self.objects.create(path, whole.getvalue().to_pybytes())

    def size(self, path: str) -> int | None:
        """See `Storage`."""
        return self.objects.size(path)

    def open(self, path: str) -> pa.NativeFile:
        """See `Storage`."""
        return pa.PythonFile(self.objects.open(path), mode="r")

    def delete(self, path: str) -> None:
        """See `Storage`."""
        self.objects.delete(path)

    def files(self) -> Iterator[StoredFile]:
        """See `Storage`."""
        for one in self.objects.names():
            yield StoredFile(*one)


@dataclass(frozen=True)
class Place:
    """The address of a table or of the folder of all tables. Small; can be pickled.

    Attributes:
        url: a path, or a URL such as `s3://bucket/tables/events`.
        options: storage options as deltalake takes them; never shown, since they may hold secrets.
    """

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def below(self, name: str) -> "Place":
        """The place of a table inside this folder."""
        return Place(f"{self.url.rstrip('/')}/{name}", self.options)

    def local_path(self) -> Path | None:
        """The local folder, or None if it is not one."""
        return local_path(self.url)

    def storage(self) -> Storage:
        """The files in this place."""
        path = self.local_path()
        if path is not None:
            return LocalStorage(path)
        return RemoteStorage(objects_at(self.url, self.options))
