"""Where a table's files are: a narrow port, with a local and an object store implementation.

A data file appears whole or not at all, and is never replaced: `create` writes under a hidden name,
makes the bytes durable, and only then gives them their name, which fails if the name is taken.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

HIDDEN_END: Final = ".unfinished"


@dataclass(frozen=True)
class StoredFile:
    """A file directly below a table's root.

    Attributes:
        size: bytes.
        modified_ms: epoch milliseconds.
    """

    name: str
    size: int
    modified_ms: int


class Storage(Protocol):
    """The files of one table. Paths are relative to the table's root."""

    def create(self, path: str, write: Callable[[Any], None]) -> bool:
        """Make a file; False, and nothing changed, if the name is taken.

        Args:
            write: is given a binary file opened for writing. It may be left uncalled.
        """

    def size(self, path: str) -> int | None:
        """Bytes of a file, or None if there is none."""

    def open(self, path: str) -> pa.NativeFile:
        """A file for random access reading; FileNotFoundError if there is none."""

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""

    def files(self) -> Iterator[StoredFile]:
        """The files directly below the root, hidden ones included."""


@dataclass(frozen=True)
class LocalStorage:
    """A folder of a file system with hard links.

    Attributes:
        root: the table's folder.
        durable: flush every file and its name to the disk before it counts as written.
    """

    root: Path
    durable: bool = True

    def create(self, path: str, write: Callable[[Any], None]) -> bool:
        """See `Storage`. A crash leaves at most a hidden file that nothing names."""
        target = self.root / path
        if target.exists():
            os.utime(target)  # it is in use: whoever cleans up by age must not take it for old
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
        """See `Storage`. Stays readable when the name is removed."""
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
    """A prefix of an object store, or anything else that pyarrow has a file system for.

    Such stores show an object only when it is whole. A look comes before the write, so two writers
    of one name at the same instant may both write; that is harmless because a name of ours
    stands for one content, and any other content is found by the next look.

    Attributes:
        file_system: pyarrow's.
        root: the table's prefix in it.
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
        write(whole)  # to memory first: closing a stream half written would show half an object
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
    """A table's address: what deltalake and this package need to reach it. Small, can be pickled.

    Attributes:
        url: a path, or a URL such as `s3://bucket/tables/events`.
        options: storage options as deltalake takes them; never shown, for they may hold secrets.
    """

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def below(self, name: str) -> "Place":
        """The place of a table below a root."""
        return Place(f"{self.url.rstrip('/')}/{name}", self.options)

    def local_path(self) -> Path | None:
        """The folder, where it is one."""
        parts = urlsplit(self.url)
        if parts.scheme == "file":
            return Path(unquote(parts.path))
        return None if len(parts.scheme) > 1 else Path(self.url)

    def storage(self) -> Storage:
        """The files there."""
        path = self.local_path()
        if path is not None:
            return LocalStorage(path)
        file_system, root = _remote(self.url, self.options)
        return RemoteStorage(file_system, root)


def _remote(url: str, options: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    """Give pyarrow's file system for a URL, with the settings that deltalake takes for S3."""
    parts = urlsplit(url)
    root = f"{parts.netloc}{parts.path}".rstrip("/")
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
        return fs.S3FileSystem(**given), root
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(url)
    return found
