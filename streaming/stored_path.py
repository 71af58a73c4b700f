"""Where a job keeps its checkpoint: a folder, or a place in shared storage used like one.

Both have the operations of `pathlib.Path` that the checkpoint needs. An object is written by one
request, so it is always complete; `json_file` makes a local file as safe.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from streaming.object_store import objects_at
from streaming.stored_objects import Objects


class StoredPath:
    """A place in shared storage, with the methods of `pathlib.Path` that are used of it.

    Args:
        options: storage options as deltalake takes them; never shown, since they may hold secrets.
    """

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self._url = url.rstrip("/")
        self._options = options

    def __truediv__(self, name: str) -> "StoredPath":
        return StoredPath(f"{self._url}/{name}", self._options)

    def __str__(self) -> str:
        return self._url

    def __repr__(self) -> str:
        return f"StoredPath({self._url!r})"

    @property
    def name(self) -> str:
        """The last part."""
        return self._url.rpartition("/")[2]

    @property
    def parent(self) -> "StoredPath":
        """The folder that holds it."""
        return StoredPath(self._url.rpartition("/")[0], self._options)

    @cached_property
    def objects(self) -> Objects:
        """What is below this place."""
        return objects_at(self._url, self._options)

    def absolute(self) -> "StoredPath":
        """Itself."""
        return self

    def exists(self) -> bool:
        """Whether there is an object of this name."""
        return self.parent.objects.size(self.name) is not None

    def is_dir(self) -> bool:
        """Whether there is anything below it."""
        return self.objects.has_any("")

    def iterdir(self) -> Iterator["StoredPath"]:
        """The objects in it, without folders."""
        return (self / each.name for each in self.objects.names())

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Nothing: an object needs no folder."""

    def read_bytes(self) -> bytes:
        """The content.

        Raises:
            FileNotFoundError: it does not exist.
        """
        found = self.parent.objects.read(self.name)
        if found is None:
            raise FileNotFoundError(self._url)
        return found[0]

    def read_text(self) -> str:
        """The content as UTF-8; see `read_bytes`."""
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> None:
        """Replace the content; whoever reads finds the old one or the new one."""
        self.parent.objects.replace(self.name, content)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove it.

        Raises:
            FileNotFoundError: it does not exist, and `missing_ok` is not set.
        """
        if not missing_ok and not self.exists():
            raise FileNotFoundError(self._url)
        self.parent.objects.delete(self.name)


AnyPath = Path | StoredPath
"""A local path, or a place in shared storage."""
