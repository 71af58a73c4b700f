"""Small files that dlx keeps for its next start: written completely or not at all.

They are on a local disk or in shared storage, wherever the path leads.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from streaming.storage.local import flush
from streaming.storage.location import AnyPath, storage_of
from topology.errors import DlxError

T = TypeVar("T")


class DamagedFileError(DlxError):
    """A file does not contain what dlx wrote there."""

    help_code = "damaged-file"


def read_json_file(path: AnyPath, kind: type[T], remedy: str) -> T | None:
    """Read a JSON file; None if it does not exist.

    Raises:
        DamagedFileError: it is not JSON, or not of this type; ends with the remedy.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedFileError(f"{path} is damaged ({error}). {remedy}") from error


def write_json_file(path: AnyPath, value: Any) -> None:
    """Replace a JSON file with a value; a crash leaves the old file or the new one."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(value)))


def replace_file(path: AnyPath, content: bytes) -> None:
    """Replace a file and wait until it is durable; a crash leaves the old one or the new one."""
    storage_of(path.parent).replace(path.name, content)


def remove_file(path: AnyPath) -> None:
    """Remove a file if it exists, and wait until that is on the disk."""
    path.unlink(missing_ok=True)
    if isinstance(path, Path):
        flush(path.parent)
