"""The views that a user keeps: an address of a page under a name.

They are in the user's state folder on the machine of the console, a file for each user.
"""

import hashlib
from pathlib import Path
from typing import Final

import msgspec
from filelock import FileLock

from streaming.console.page import Refused
from streaming.user_folders import user_state_folder
from topology.sentences import say

MAX_VIEWS: Final = 100
MAX_NAME: Final = 80


class SavedViews:
    """The kept views of one user."""

    def __init__(self, user: str) -> None:
        name = hashlib.sha256(user.encode()).hexdigest()[:32]  # any name is a file name
        self._file = user_state_folder() / "console" / f"{name}.json"

    def all(self) -> dict[str, str]:
        """Name -> address, in the order of the names."""
        return dict(sorted(self._read().items()))

    def put(self, name: str, address: str) -> None:
        """Keep an address; an earlier one of the same name goes.

        Raises:
            Refused: the name is too long, or there are too many.
        """
        if len(name) > MAX_NAME:
            what = say("The name is longer than %(count)s characters.", count=MAX_NAME)
            raise Refused(400, what)
        with self._lock():
            views = {**self._read(), name: address}
            if len(views) > MAX_VIEWS:
                what = say("There are %(count)s views already: remove one first.", count=MAX_VIEWS)
                raise Refused(400, what)
            self._write(views)

    def remove(self, name: str) -> None:
        """Forget an address, if there is one."""
        with self._lock():
            views = self._read()
            views.pop(name, None)
            self._write(views)

    def _lock(self) -> FileLock:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(self._file.with_suffix(".lock"))

    def _read(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.DecodeError):
            return {}

    def _write(self, views: dict[str, str]) -> None:
        part: Path = self._file.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(views))
        part.replace(self._file)
