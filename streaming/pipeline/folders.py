"""The folders that a job writes to: made, or refused in words that name the setting."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from streaming.ledger.ledger import Ledger
from topology.errors import DlxError

if TYPE_CHECKING:
    from pathlib import Path

    from streaming.ledger.storage import Place
    from streaming.ledger.tables import Retention


class FolderError(DlxError):
    """A place that the configuration names cannot be written to."""


def make_folder(setting: str, path: Path) -> None:
    """Make a folder, with those above it; one that is there already must be writable.

    Args:
        setting: that names it, such as `job.checkpoint_location`.

    Raises:
        FolderError: it is a file, or this user may not write there.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise FolderError(
            f"{setting}: {path} cannot be made: there is a file in its way"
        ) from error
    except OSError as error:
        raise FolderError(f"{setting}: {path} cannot be made: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise FolderError(f"{setting}: {path} cannot be written to by this user")


def open_ledger(root: Place, retention: Retention) -> Ledger:
    """Open the tables; make those that are not there.

    Raises:
        FolderError: they cannot be reached, or not be written to.
        TableMismatchError: a table is not one of this version.
    """
    local = root.local_path()
    if local is not None:
        make_folder("job.tables_location", local)
    try:
        return Ledger(root, retention)
    except (OSError, DeltaError) as error:
        why = str(error).splitlines()[0]
        raise FolderError(f"job.tables_location: the tables cannot be opened: {why}") from error
