"""Objects in shared storage (S3, Azure, Google): conditional writes, ranges, one client per store.

    create(name)            succeeds once, whoever else tries at the same time
    replace(name, version)  succeeds only if the object is still that version

A process has one client per store and set of options; it keeps its connections open. Nothing here
loads pyarrow, so that commands which only read tables start quickly.
"""

import io
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import copy
from functools import cached_property, lru_cache
from typing import IO, Any, Final, NamedTuple
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PreconditionError,
    UnknownConfigurationKeyError,
)
from obstore.store import AzureStore, from_url

TAIL_BYTES: Final = 64 * 1024
"""What opening an object reads at once: a small object whole, or the footer of a Parquet file."""

BLOCK_BYTES: Final = 1024 * 1024
BLOCKS: Final = 8

_CLIENT_OPTIONS: Final = ("allow_http", "allow_invalid_certificates")
_PREFIXES: Final = ("aws_", "azure_", "google_")


class StoreError(OSError):
    """Shared storage did not answer, or refused; names the address but no credentials."""


class StoredObject(NamedTuple):
    """An object in a listing; its name is relative to the listed folder."""

    name: str
    size: int
    modified_ms: int


class Objects:
    """The objects below one URL. Safe to use from several threads."""

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
        try:
            return _client(self._root, self._options)
        except BaseError as error:
            raise self._failed("", error) from error

    def read(self, name: str) -> tuple[bytes, str] | None:
        """The content and version of an object; None if it does not exist."""
        try:
            found = obstore.get(self._store, self.path_of(name))
            return bytes(found.bytes()), str(found.meta["e_tag"])
        except FileNotFoundError:
            return None
        except BaseError as error:
            raise self._failed(name, error) from error

    def create(self, name: str, content: bytes) -> bool:
        """Write an object; return False and change nothing if the name is taken."""
        try:
            obstore.put(
                self._store, self.path_of(name), content, mode="create", use_multipart=False
            )
        except (AlreadyExistsError, PreconditionError):
            return False
        except (BaseError, FileNotFoundError) as error:  # not found: there is no such bucket
            raise self._failed(name, error) from error
        return True

    def replace(self, name: str, content: bytes, version: str | None = None) -> str | None:
        """Write an object and return its version.

        Args:
            version: replace only this version; None: whatever is there.

        Returns:
            None if the object has another version now; nothing is changed.
        """
        mode: Any = "overwrite" if version is None else {"e_tag": version}
        try:
            done = obstore.put(
                self._store, self.path_of(name), content, mode=mode, use_multipart=False
            )
        except (PreconditionError, AlreadyExistsError, FileNotFoundError):
            return None
        except BaseError as error:
            raise self._failed(name, error) from error
        return str(done["e_tag"])

    def upload(self, name: str, file: IO[bytes]) -> None:
        """Write an object of any length from a local file; replace an existing one."""
        try:
            obstore.put(self._store, self.path_of(name), file)
        except BaseError as error:
            raise self._failed(name, error) from error

    def size(self, name: str) -> int | None:
        """The size of an object in bytes; None if it does not exist."""
        try:
            return int(obstore.head(self._store, self.path_of(name))["size"])
        except FileNotFoundError:
            return None
        except BaseError as error:
            raise self._failed(name, error) from error

    def delete(self, name: str) -> None:
        """Remove an object if it exists."""
        try:
            with suppress(FileNotFoundError):
                obstore.delete(self._store, self.path_of(name))
        except BaseError as error:
            raise self._failed(name, error) from error

    def names(self, folder: str = "") -> Iterator[StoredObject]:
        """The objects in a folder, without those in folders below it."""
        prefix = self.path_of(folder).rstrip("/")
        try:
            found = obstore.list_with_delimiter(self._store, prefix or None)
        except BaseError as error:
            raise self._failed(folder, error) from error
        for one in found["objects"]:
            modified_ms = int(one["last_modified"].timestamp() * 1000)
            yield StoredObject(one["path"].rsplit("/", 1)[-1], one["size"], modified_ms)

    def all_names(self) -> list[str]:
        """The names of all objects, with those in folders; empty objects stand for folders."""
        prefix = self.path_of("")
        try:
            pages = list(obstore.list(self._store, prefix or None))
        except BaseError as error:
            raise self._failed("", error) from error
        skipped = len(prefix) + 1 if prefix else 0
        return [one["path"][skipped:] for page in pages for one in page if one["size"]]

    def move(self, name: str, target: "Objects") -> None:
        """Move an object below another place of the same store, under its name."""
        try:
            obstore.rename(self._store, self.path_of(name), target.path_of(name))
        except (BaseError, FileNotFoundError) as error:
            raise self._failed(name, error) from error

    def has_any(self, folder: str) -> bool:
        """Whether there is an object in a folder, or below it."""
        try:
            return any(obstore.list(self._store, self.path_of(folder), chunk_size=1))
        except BaseError as error:
            raise self._failed(folder, error) from error

    def open(self, name: str) -> "ObjectReader":
        """Open an object for reading at any place.

        Raises:
            FileNotFoundError: it does not exist.
        """
        try:
            return ObjectReader(self._store, self.path_of(name))
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.url}/{name}") from None
        except BaseError as error:
            raise self._failed(name, error) from error

    def path_of(self, name: str) -> str:
        """The full path of an object in its store."""
        return f"{self._prefix}/{name}".strip("/")

    def _failed(self, name: str, error: Exception) -> StoreError:
        said = " ".join(str(error).split("\n\nDebug source")[0].split())
        return StoreError(f"{self.url}/{name}: {said}")


class ObjectReader(io.RawIOBase):
    """An object as a file. Opening it takes one request, which small objects are read with.

    Azure cannot send the end of an object of unknown size: a large one takes two requests there.
    Later reads take a request for each new block of 1 MiB, or for a longer range.
    """

    def __init__(self, store: Any, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path
        try:
            knows_suffixes = not isinstance(store, AzureStore)
            part: Any = {"suffix": TAIL_BYTES} if knows_suffixes else (0, TAIL_BYTES)
            found = obstore.get(store, path, options={"range": part})
            self.size, self._tail = int(found.meta["size"]), bytes(found.bytes())
            if self.size > TAIL_BYTES and not knows_suffixes:
                tail_at = self.size - TAIL_BYTES
                self._tail = bytes(obstore.get_range(store, path, start=tail_at, end=self.size))
        except BaseError:  # an empty object has no range
            if obstore.head(store, path)["size"]:
                raise
            self.size, self._tail = 0, b""
        self._tail_at = self.size - len(self._tail)
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._at = 0

    def again(self) -> "ObjectReader":
        """The same object, opened once more without a request."""
        other = copy(self)
        other.begin()
        return other

    def begin(self) -> None:
        """Read from the beginning, with no blocks in memory."""
        self._at, self._blocks = 0, OrderedDict()

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be read at any place."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set where the next read begins."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read bytes, up to the end at most."""
        left = max(0, self.size - self._at)
        count = left if size is None or size < 0 else min(size, left)
        content = self._range(self._at, self._at + count)
        self._at += count
        return content

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; return how many bytes."""
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def _range(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        if start >= self._tail_at:
            return self._tail[start - self._tail_at : end - self._tail_at]
        if end - start >= BLOCK_BYTES:
            return self._fetch(start, end)
        first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        content = b"".join(self._block(number) for number in range(first, last + 1))
        return content[start - first * BLOCK_BYTES : end - first * BLOCK_BYTES]

    def _block(self, number: int) -> bytes:
        block = self._blocks.get(number)
        if block is None:
            start = number * BLOCK_BYTES
            block = self._fetch(start, min(start + BLOCK_BYTES, self.size))
            self._blocks[number] = block
            if len(self._blocks) > BLOCKS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return block

    def _fetch(self, start: int, end: int) -> bytes:
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
