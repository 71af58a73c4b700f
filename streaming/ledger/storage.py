"""The files of a table: a narrow port, implemented for local folders and for object stores.

A data file appears whole or not at all, and is never replaced: `create` writes under a hidden name,
makes the bytes durable, then links the final name, which fails if the name is taken.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from streaming.ledger.location import local_path

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
            _flush_folder(target.parent)
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


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class RemoteStorage:
    """A prefix of an object store, or of any other file system that pyarrow supports.

    Object stores show an object only when it is complete. `create` checks for the name, then
    writes, so two simultaneous writers of one name may both write. That is harmless: both write the
    same content, and the next check detects any other content.
    """

    file_system: fs.FileSystem
    root: str

    def create(self, path: str, write: Callable[[Any], None]) -> bool:
        """See `Storage`."""
        if self.size(path) is not None:
            return False
        target = self._path(path)
        if self.file_system.type_name == "local":
            self.file_system.create_dir(str(PurePosixPath(target).parent), recursive=True)
        whole = pa.BufferOutputStream()
        write(whole)  # to memory first: closing a half-written stream would publish half an object
        with self.file_system.open_output_stream(target) as file:
            file.write(whole.getvalue())
        return True

    def size(self, path: str) -> int | None:
        """See `Storage`."""
        info = self.file_system.get_file_info(self._path(path))
        return info.size if info.type == fs.FileType.File else None

    def open(self, path: str) -> pa.NativeFile:
        """See `Storage`."""
        return self.file_system.open_input_file(self._path(path))

    def delete(self, path: str) -> None:
        """See `Storage`."""
        if self.size(path) is not None:
            self.file_system.delete_file(self._path(path))

    def files(self) -> Iterator[StoredFile]:
        """See `Storage`."""
        selector = fs.FileSelector(self.root, allow_not_found=True, recursive=False)
        for info in self.file_system.get_file_info(selector):
            if info.type == fs.FileType.File:
                modified_ms = (info.mtime_ns or time.time_ns()) // 1_000_000
                yield StoredFile(info.base_name, info.size, modified_ms)

    def _path(self, path: str) -> str:
        return f"{self.root}/{path}"


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
        file_system, root = file_system_of(self.url, self.options)
        return RemoteStorage(file_system, root)


def file_system_of(url: str, options: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    """The pyarrow file system and path of a URL; S3 settings are those that deltalake takes."""
    parts = urlsplit(url)
    if parts.scheme in {"s3", "s3a"}:
        settings = {key.lower(): value for key, value in options.items()}
        arguments = {
            "access_key": settings.get("aws_access_key_id"),
            "secret_key": settings.get("aws_secret_access_key"),
            "session_token": settings.get("aws_session_token"),
            "region": settings.get("aws_region"),
            "endpoint_override": settings.get("aws_endpoint_url", settings.get("aws_endpoint")),
        }
        if settings.get("aws_allow_http", "").lower() == "true":
            arguments["scheme"] = "http"
        given = {key: value for key, value in arguments.items() if value is not None}
        return fs.S3FileSystem(**given), f"{parts.netloc}{parts.path}".rstrip("/")
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(url)
    return found
