"""Small files that dlx keeps for its next start: written completely or not at all.

They are on a local disk or in shared storage, wherever the path leads.
"""

import os
from typing import Any, TypeVar

import msgspec

from streaming.stored_path import AnyPath, StoredPath
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
    """Replace a file and wait until it is on the disk; a crash leaves the old one or the new one.

    The temporary file is hidden, because Spark lists the folders of its own logs.
    """
    if isinstance(path, StoredPath):
        path.write_bytes(content)
        return
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    flush(path.parent)


def flush(path: AnyPath) -> None:
    """Wait until a local file, or the names in a local folder, are on the disk.

    Without the latter, a power failure can undo a rename, or bring a removed file back. An object
    in shared storage is durable once it is there.
    """
    if isinstance(path, StoredPath):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_file(path: AnyPath) -> None:
    """Remove a file if it exists, and wait until that is on the disk."""
    path.unlink(missing_ok=True)
    flush(path.parent)
