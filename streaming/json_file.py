"""Small files that dlx keeps for its next start: written completely or not at all."""

import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from topology.errors import DlxError

T = TypeVar("T")


class DamagedFileError(DlxError):
    """A file does not contain what dlx wrote there."""

    help_code = "damaged-file"


def read_json_file(path: Path, kind: type[T], remedy: str) -> T | None:
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


def write_json_file(path: Path, value: Any) -> None:
    """Replace a JSON file with a value; a crash leaves the old file or the new one."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(value)))


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file and wait until it is on the disk; a crash leaves the old one or the new one.

    The temporary file is hidden, because Spark lists the folders of its own logs.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # without it, a power failure can undo the rename
    finally:
        os.close(folder)
