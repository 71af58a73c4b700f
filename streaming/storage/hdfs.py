"""Files in HDFS, with the operations of an object store; needs the extra `hdfs`.

    create(name):   .name.UUID.unfinished  --renamed, unless the name is taken-->  name
    replace(name):  .name.UUID.unfinished  --renamed, over whatever is there-->    name

The name node renames atomically, so a file is complete as soon as its name is there. A crash leaves
at most a hidden file. HADOOP_CONF_DIR and HADOOP_USER_NAME count here as they do for Hadoop.
"""

import io
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from typing import IO, Any, Final, Self
from urllib.parse import urlsplit

from streaming.storage.port import StoredFile, StoreError
from streaming.storage.remote_file import TAIL_BYTES, RemoteFile

SCHEME: Final = "hdfs://"
_CHUNK_BYTES: Final = 8 * 1024 * 1024
_ERRORS: Final = (OSError, RuntimeError, ValueError)
"""What the client raises; the text of one from the name node has Java's stack trace below."""


class HdfsStorage:
    """The files below one URL. Thread-safe."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url = url.rstrip("/")
        self._root = f"{SCHEME}{parts.netloc}"
        self._folder = parts.path.strip("/")
        if not parts.netloc:
            raise StoreError(f"{url}: the URL has no name node: {SCHEME}HOST:PORT/FOLDER")

    @cached_property
    def _client(self) -> Any:
        with self._explained(""):
            return _client(self._root)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        path = self.path_of(name)
        with self._explained(name), suppress(FileNotFoundError), self._client.read(path) as file:
            return bytes(file.read())
        return None

    def create(self, name: str, write: Callable[[Any], object]) -> bool:
        """Create a file; return False and change nothing if the name is taken."""
        if self.size(name) is not None:
            return False
        content = io.BytesIO()
        write(content)
        with self._explained(name), suppress(FileExistsError):
            self._write(name, [content.getvalue()], overwrite=False)
            return True
        return False

    def replace(self, name: str, content: bytes) -> None:
        """Write a file, whatever is there."""
        with self._explained(name):
            self._write(name, [content], overwrite=True)

    def upload(self, name: str, file: IO[bytes]) -> None:
        """Write a file of any length from an open local one; replace an existing one."""
        with self._explained(name):
            self._write(name, iter(lambda: file.read(_CHUNK_BYTES), b""), overwrite=True)

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        with self._explained(name), suppress(FileNotFoundError):
            status = self._client.get_file_info(self.path_of(name))
            return None if status.isdir else int(status.length)
        return None

    def delete(self, name: str) -> None:
        """Remove a file if it exists."""
        with self._explained(name):
            self._client.delete(self.path_of(name))

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        """The files in a folder, hidden ones included, without those in folders below it."""
        for each in self._listed(folder, recursive=False):
            name = each.path.rsplit("/", 1)[-1]
            yield StoredFile(name, int(each.length), int(each.modification_time))

    def names(self) -> list[str]:
        """The names of the files in the folder itself, as they were at one moment."""
        return [each.name for each in self.files()]

    def all_names(self) -> list[str]:
        """The names of all files, with those in folders."""
        skipped = len(self.path_of("").rstrip("/")) + 1
        return [each.path[skipped:] for each in self._listed("", recursive=True)]

    def move(self, name: str, target: Self) -> None:
        """Move a file below another place of the same store, under its name."""
        path = target.path_of(name)
        with self._explained(name):
            self._client.mkdirs(path.rpartition("/")[0], create_parent=True)
            self._client.rename(self.path_of(name), path, overwrite=True)

    def has_any(self, folder: str = "") -> bool:
        """Whether there is a file in a folder, or below it."""
        return bool(self._listed(folder, recursive=True))

    def open(self, name: str) -> RemoteFile:
        """Open a file for reading at any place: a binary file of Python's or of pyarrow's."""
        with self._explained(name), suppress(FileNotFoundError):
            return RemoteFile(_HdfsFile(self, self._client.read(self.path_of(name)), name))
        raise FileNotFoundError(f"{self.url}/{name}")

    def path_of(self, name: str) -> str:
        """The full path of a file."""
        return "/" + "/".join(filter(None, (self._folder, name)))

    def _write(self, name: str, chunks: Any, *, overwrite: bool) -> None:
        path = self.path_of(name)
        folder, _, last = path.rpartition("/")
        hidden = f"{folder}/.{last}.{uuid.uuid4().hex}.unfinished"
        try:
            with self._client.create(hidden) as file:
                for chunk in chunks:
                    file.write(chunk)
            self._client.rename(hidden, path, overwrite=overwrite)
        except BaseException:
            with self._explained(name):
                self._client.delete(hidden)
            raise

    def _listed(self, folder: str, *, recursive: bool) -> list[Any]:
        with self._explained(folder), suppress(FileNotFoundError):
            found = self._client.list_status(self.path_of(folder), recursive=recursive)
            return [each for each in found if not each.isdir]
        return []

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except ImportError as error:
            raise StoreError(
                f"{self.url}: the client of HDFS is not installed: pip install 'dlx-stream[hdfs]'"
            ) from error
        except _ERRORS as error:
            said = next(iter(str(error).splitlines()), type(error).__name__)
            raise StoreError(f"{self.url}/{name}: HDFS: {said}") from error


class _HdfsFile:
    """One file, for its reader."""

    def __init__(self, files: HdfsStorage, file: Any, name: str) -> None:
        self._files, self._file, self._name = files, file, name

    def tail(self) -> tuple[int, bytes]:
        """The size of the file, and its last `TAIL_BYTES`."""
        size = len(self._file)
        return size, self.part(max(0, size - TAIL_BYTES), size)

    def part(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`."""
        if start == end:
            return b""
        with self._files._explained(self._name):  # noqa: SLF001 (the same module)
            return bytes(self._file.read_range(start, end - start))


@lru_cache(maxsize=16)
def _client(root: str) -> Any:
    """The client of a name node; Hadoop's configuration may name several behind one name."""
    from hdfs_native import Client  # noqa: PLC0415 (an extra)

    return Client(root)
