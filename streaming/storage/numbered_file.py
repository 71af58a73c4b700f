"""A small file that is replaced on a condition, in any storage that creates files on one.

    name.7  --create name.8, unless it is there-->  name.8, and remove name.4

The highest number is the file. So whoever creates one first has replaced the file, unless its
number had been taken and removed: then the highest is far above it.
"""

from typing import Final

from streaming.storage.port import Storage

KEPT: Final = 4
"""How many versions stay, the newest included. Whoever builds on an older one comes too late."""


class NumberedFile:
    """One file; of several processes that replace a version of it, one succeeds."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage, self._name = storage, name

    def read(self) -> tuple[bytes, int] | None:
        """The content and its version; None if it does not exist."""
        while numbers := self._numbers():
            content = self._storage.read(f"{self._name}.{numbers[-1]}")
            if content is not None:  # otherwise it was succeeded since the listing
                return content, numbers[-1]
        return None

    def replace(self, content: bytes, version: int) -> int | None:
        """Replace this version and return the new one; None if it is another one by now.

        If others are fast, None may also mean that it was replaced again already.

        Args:
            version: 0: there must be none.
        """
        ours = version + 1
        if not self._storage.create(f"{self._name}.{ours}", lambda file: file.write(content)):
            return None
        numbers = self._numbers()
        if max(numbers, default=ours) >= version + KEPT or (version and version not in numbers):
            self._storage.delete(f"{self._name}.{ours}")
            return None
        for number in numbers:  # from the lowest: what is missing is below all that is there
            if number <= ours - KEPT:
                self._storage.delete(f"{self._name}.{number}")
        return ours

    def _numbers(self) -> list[int]:
        names = (name.removeprefix(f"{self._name}.") for name in self._storage.names())
        return sorted(int(name) for name in names if name.isdigit())
