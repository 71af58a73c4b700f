"""The locations that a job writes to: created, or refused with the name of the setting."""

import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake.exceptions import DeltaError

from streaming.config import JobConfig
from streaming.config.secrets import mask_secrets
from streaming.config.types import local_folder
from streaming.ledger.errors import DamagedLogError
from streaming.ledger.schema.table_setup import Retention
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.checkpoint.errors import FolderError
from streaming.storage.location import Location

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_QUERY: Final = re.compile(r"(?<=\S)\?\S*")
"""The query of a URL, which may hold a signature."""


def lease_ms(config: JobConfig) -> int | None:
    """Return how long the lease of a checkpoint lasts; None on a disk that only we can reach."""
    job = config.job
    folder = local_folder(job.checkpoint_location)
    if folder is not None and (
        job.shared_mount is None or not folder.is_relative_to(job.shared_mount)
    ):
        return None
    return job.lease_ms


def make_folder(setting: str, path: Path) -> None:
    """Create a folder that `setting` names, with its parents; it must be writable.

    Raises:
        FolderError: it is a file, or this user may not write there.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise FolderError(
            f"{setting}: {path} cannot be created: a file is in its place. Name another folder"
        ) from error
    except OSError as error:
        raise FolderError(f"{setting}: {path} cannot be created: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise FolderError(f"{setting}: this user cannot write to {path}")


class NewFolders:
    """The folders among some paths that do not exist yet, so that a refused start leaves none."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._new = [path.absolute() for path in paths if not path.exists()]
        self._above = {
            parent for path in self._new for parent in path.parents if not parent.exists()
        }

    def remove(self) -> None:
        """Remove what has appeared since, and the folders above it that are empty."""
        for path in self._new:
            shutil.rmtree(path, ignore_errors=True)
        for parent in sorted(self._above, key=lambda each: len(each.parts), reverse=True):
            with suppress(OSError):  # it holds something else, or was never created
                parent.rmdir()


def open_ledger(root: Location, retention: Retention) -> Ledger:
    """Open the tables; create missing ones.

    Raises:
        FolderError: they cannot be reached, or cannot be written to.
        TableMismatchError: another version of dlx made one of the tables.
    """
    local = root.local_path()
    if local is not None:
        make_folder("job.tables_location", local)
    try:
        return Ledger(root, retention)
    except (OSError, DeltaError, DamagedLogError, pa.ArrowInvalid) as error:
        reason = _reason(str(error), root)
        raise FolderError(f"job.tables_location: the tables cannot be opened: {reason}") from error


def _reason(text: str, root: Location) -> str:
    """Return deltalake's error and its causes in one line, without secrets."""
    first, *below = _COLOURS.sub("", text).splitlines() or [""]
    causes = [line.strip().removeprefix("\u21b3") for line in below if "\u21b3" in line]
    words = ": ".join(each.strip() for each in (first, *causes))
    return _QUERY.sub("", mask_secrets(words, root.options.values()))
