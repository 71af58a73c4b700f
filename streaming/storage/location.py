"""Where tables and checkpoints are: a folder, or a URL of shared storage used like one.

A location has the operations of `pathlib.Path` that a checkpoint needs. Loads no library before it
is used, since every command knows one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from streaming.storage.local import LocalStorage
from streaming.storage.port import Storage

_HDFS: Final = "hdfs://"


@dataclass(frozen=True)
class Location:
    """A path or a URL, and what opens it. Small; can be pickled.

    Attributes:
        url: a path, or a URL such as `s3://bucket/tables/events`.
        options: storage options as deltalake takes them; never shown, since they may hold secrets.
    """

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", self.url.rstrip("/") or self.url)

    def __truediv__(self, name: str) -> "Location":
        return Location(f"{self.url}/{name}", self.options)

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> "Location":
        """The folder that holds it."""
        return Location(self.url.rpartition("/")[0], self.options)

    def local_path(self) -> Path | None:
        """The local folder, or None if it is not one."""
        return local_path(self.url)

    def storage(self) -> Storage:
        """The files below it.

        Raises:
            StoreError: the URL is incomplete, or the package for it is not installed.
        """
        path = self.local_path()
        if path is not None:
            return LocalStorage(path)
        if self.url.startswith(_HDFS):
            from streaming.storage.hdfs import HdfsStorage  # noqa: PLC0415 - an extra

            return HdfsStorage(self.url)
        from streaming.storage.object_store import ObjectStorage  # noqa: PLC0415 - slow

        return ObjectStorage(self.url, self.options)

    def absolute(self) -> "Location":
        """Itself."""
        return self

    def exists(self) -> bool:
        """Whether there is a file of this name."""
        return self.parent.storage().size(self.name) is not None

    def is_dir(self) -> bool:
        """Whether there is anything below it."""
        return self.storage().has_any()

    def iterdir(self) -> Iterator["Location"]:
        """The files in it, without folders."""
        return (self / each.name for each in self.storage().files())

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Nothing: a file in shared storage needs no folder."""

    def read_bytes(self) -> bytes:
        """The content.

        Raises:
            FileNotFoundError: it does not exist.
        """
        found = self.parent.storage().read(self.name)
        if found is None:
            raise FileNotFoundError(self.url)
        return found

    def read_text(self) -> str:
        """The content as UTF-8; see `read_bytes`."""
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> None:
        """Replace the content; whoever reads finds the old one or the new one."""
        self.parent.storage().replace(self.name, content)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove it.

        Raises:
            FileNotFoundError: it does not exist, and `missing_ok` is not set.
        """
        if not missing_ok and not self.exists():
            raise FileNotFoundError(self.url)
        self.parent.storage().delete(self.name)


AnyPath = Path | Location
"""A local path, or a location in shared storage."""


def storage_of(path: AnyPath) -> Storage:
    """The files below a path."""
    return LocalStorage(path) if isinstance(path, Path) else path.storage()


def local_path(url: str) -> Path | None:
    """The folder that a path or a `file:` URL names; None for any other URL."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if len(parts.scheme) > 1 else Path(url)
