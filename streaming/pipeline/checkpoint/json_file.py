"""Reading the job's own small files beside the checkpoint; a damaged one is refused in words.

They are written whole or not at all, so what is damaged was damaged by something else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from topology.errors import DlxError

T = TypeVar("T")


class DamagedFileError(DlxError):
    """A file beside the checkpoint cannot be read as what the job wrote there."""


def read_kept(path: Path, kind: type[T], remedy: str) -> T | None:
    """What a JSON file holds; None if there is no such file.

    Args:
        remedy: what to do about a damaged one, as a sentence without its full stop.

    Raises:
        DamagedFileError: it is no JSON, or not of that kind.
    """
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedFileError(
            f"job.checkpoint_location: {path} is damaged ({error}). {remedy}"
        ) from error
