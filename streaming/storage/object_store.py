"""Objects in a cloud's object store (S3, Azure, Google).

An object appears when it is complete. A process has one client per store and set of options; it
keeps its connections open.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from typing import IO, Any, Final, Literal, Self
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PreconditionError,
    UnknownConfigurationKeyError,
)
from obstore.store import AzureStore, from_url

from streaming.storage.port import StoredFile, StoreError
from streaming.storage.remote_file import TAIL_BYTES, RemoteFile

_CLIENT_OPTIONS: Final = ("allow_http", "allow_invalid_certificates")
_PREFIXES: Final = ("aws_", "azure_", "google_")


class ObjectStorage:
    """The objects below one URL. Thread-safe."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self.url = url.rstrip("/")
        self._prefix = parts.path.strip("/")
        self._root = f"{parts.scheme}://{parts.netloc}"
        if parts.scheme.startswith("abfs") and "@" not in parts.netloc:
            has_account = any(name.lower().endswith("account_name") for name in options)
        else:
            has_account = bool(parts.netloc) or parts.scheme in {"file", "memory"}
        if not has_account:
            raise StoreError(f"{url}: the URL has no account name or bucket name")
        self._options = tuple(sorted(options.items()))

    @cached_property
    def _store(self) -> Any:
        with self._explained(""):
            return _client(self._root, self._options)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        with self._explained(name), suppress(FileNotFoundError):
            return bytes(obstore.get(self._store, self.path_of(name)).bytes())
        return None

    def create(self, name: str, write: Callable[[Any], object]) -> bool:
        """Create a file; return False and change nothing if the name is taken.

        The content is built in memory, since the request needs its length.
        """
        content = io.BytesIO()
        write(content)
        try:
            self._put(name, content.getvalue(), "create")
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Write a file, whatever is there."""
        self._put(name, content, "overwrite")

    def upload(self, name: str, file: IO[bytes]) -> None:
        """Write a file of any length from an open local one; replace an existing one."""
        with self._explained(name):
            obstore.put(self._store, self.path_of(name), file)

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        with self._explained(name), suppress(FileNotFoundError):
            return int(obstore.head(self._store, self.path_of(name))["size"])
        return None

    def delete(self, name: str) -> None:
        """Remove a file if it exists."""
        with self._explained(name), suppress(FileNotFoundError):
            obstore.delete(self._store, self.path_of(name))

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        """The files in a folder, hidden ones included, without those in folders below it."""
        prefix = self.path_of(folder).rstrip("/")
        with self._explained(folder):
            found = obstore.list_with_delimiter(self._store, prefix or None)
        for one in found["objects"]:
            modified_ms = int(one["last_modified"].timestamp() * 1000)
            yield StoredFile(one["path"].rsplit("/", 1)[-1], one["size"], modified_ms)

    def names(self) -> list[str]:
        """The names of the files in the folder itself, as they were at one moment."""
        return [each.name for each in self.files()]

    def all_names(self) -> list[str]:
        """The names of all files, with those in folders. Empty objects stand for folders."""
        prefix = self.path_of("")
        with self._explained(""):
            pages = list(obstore.list(self._store, prefix or None))
        skipped = len(prefix) + 1 if prefix else 0
        return [one["path"][skipped:] for page in pages for one in page if one["size"]]

    def move(self, name: str, target: Self) -> None:
        """Move a file below another place of the same store, under its name."""
        with self._explained(name):
            obstore.rename(self._store, self.path_of(name), target.path_of(name))

    def has_any(self, folder: str = "") -> bool:
        """Whether there is a file in a folder, or below it."""
        with self._explained(folder):
            return any(obstore.list(self._store, self.path_of(folder), chunk_size=1))

    def open(self, name: str) -> RemoteFile:
        """Open a file for reading at any place: a binary file of Python's or of pyarrow's."""
        with self._explained(name), suppress(FileNotFoundError):
            return RemoteFile(_Object(self._store, self.path_of(name)))
        raise FileNotFoundError(f"{self.url}/{name}")

    def _put(self, name: str, content: bytes, mode: Literal["create", "overwrite"]) -> None:
        with self._explained(name):
            obstore.put(self._store, self.path_of(name), content, mode=mode, use_multipart=False)

    def path_of(self, name: str) -> str:
        """The full path of an object in its store."""
        return f"{self._prefix}/{name}".strip("/")

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Explain an error of the store, but not that a name is taken."""
        try:
            yield
        except (AlreadyExistsError, PreconditionError):
            raise
        except (BaseError, FileNotFoundError) as error:  # not found: there is no such bucket
            said = " ".join(str(error).split("\n\nDebug source")[0].split())
            raise StoreError(f"{self.url}/{name}: {said}") from error


class _Object:
    """One object, for its reader."""

    def __init__(self, store: Any, path: str) -> None:
        self._store, self._path = store, path

    def tail(self) -> tuple[int, bytes]:
        """The size of the object, and its last bytes.

        Azure cannot send the end of an object of unknown size: a large one takes two requests.
        """
        knows_suffixes = not isinstance(self._store, AzureStore)
        part: Any = {"suffix": TAIL_BYTES} if knows_suffixes else (0, TAIL_BYTES)
        try:
            found = obstore.get(self._store, self._path, options={"range": part})
            size, content = int(found.meta["size"]), bytes(found.bytes())
        except BaseError:  # an empty object has no range
            if obstore.head(self._store, self._path)["size"]:
                raise
            return 0, b""
        if size > TAIL_BYTES and not knows_suffixes:
            content = self.part(size - TAIL_BYTES, size)
        return size, content

    def part(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`."""
        try:
            return bytes(obstore.get_range(self._store, self._path, start=start, end=end))
        except BaseError as error:
            raise StoreError(f"{self._path}: {str(error).splitlines()[0]}") from error


@lru_cache(maxsize=16)
def _client(root: str, options: tuple[tuple[str, str], ...]) -> Any:
    """The client of a store, with deltalake's options; those that obstore lacks are left out."""
    config: dict[str, str] = {}
    client: dict[str, Any] = {}
    for name, value in options:
        key = name.lower()
        plain = key
        for prefix in _PREFIXES:
            plain = plain.removeprefix(prefix)
        if plain in _CLIENT_OPTIONS:
            client[plain] = value.lower() == "true"
        elif key.startswith(_PREFIXES):
            config[key] = value
    while True:
        try:
            return from_url(root, config=config, client_options=client)  # type: ignore[call-overload] # by URL
        except UnknownConfigurationKeyError as error:  # an option that only deltalake has
            unknown = next((key for key in config if f"'{key}'" in str(error)), None)
            if unknown is None:
                raise
            del config[unknown]
