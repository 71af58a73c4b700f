"""The folders that a job writes to: made, or refused in words that name the setting."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake.exceptions import DeltaError

from streaming.config.secrets import mask_secrets
from streaming.ledger.write.ledger import Ledger
from topology.errors import DlxError

if TYPE_CHECKING:
    from pathlib import Path

    from streaming.ledger.schema.table_setup import Retention
    from streaming.ledger.storage import Place


_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_QUERY: Final = re.compile(r"(?<=\S)\?\S*")
"""Of a URL: it may be signed."""


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
    except (OSError, DeltaError, pa.ArrowInvalid) as error:
        why = _reasons(str(error), root)
        raise FolderError(f"job.tables_location: the tables cannot be opened: {why}") from error


def _reasons(text: str, root: Place) -> str:
    """What deltalake says, and the causes below it, in one line without secrets."""
    first, *below = _COLOURS.sub("", text).splitlines() or [""]
    causes = [line.strip().removeprefix("\u21b3") for line in below if "\u21b3" in line]
    words = ": ".join(each.strip() for each in (first, *causes))
    return _QUERY.sub("", mask_secrets(words, root.options.values()))
