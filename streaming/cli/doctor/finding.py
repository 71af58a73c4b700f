"""What a check found: whether it is well, and what to do otherwise."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

Status = Literal["ok", "warn", "fail"]

LOW_DISK_BYTES: Final = 5_000_000_000
FULL_DISK_BYTES: Final = 1_000_000_000


class Finding(msgspec.Struct, frozen=True):
    """The result of one check.

    Attributes:
        check: what was checked.
        detail: what was found.
        remedy: what to do about it; empty if nothing.
    """

    status: Status
    check: str
    detail: str
    remedy: str = ""


def size_text(size_bytes: int) -> str:
    """A number of bytes in the largest fitting unit: `1.5 GB`."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 - the step between the units
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def existing(path: Path) -> Path:
    """The path itself, or the nearest folder above it that exists."""
    return next(each for each in (path, *path.parents) if each.exists())


def check_folder(name: str, path: Path, remedy: str) -> Iterator[Finding]:
    """Check that a folder can be written to, or created, and that its disk has room.

    Args:
        name: what the folder is.
        remedy: how to choose another folder.
    """
    place = existing(path)
    if not place.is_dir():
        yield Finding("fail", name, f"{place} is a file, not a folder", remedy)
        return
    if not os.access(place, os.W_OK | os.X_OK):
        what = f"this user may not write to {place}"
        yield Finding("fail", name, what, f"grant write access, or {remedy}")
        return
    free = shutil.disk_usage(place).free
    detail = f"{path}, {size_text(free)} free"
    if not path.exists():
        detail += ", not created yet"
    if free < LOW_DISK_BYTES:
        status: Status = "fail" if free < FULL_DISK_BYTES else "warn"
        yield Finding(status, name, detail, f"free some space, or {remedy}")
    else:
        yield Finding("ok", name, detail)
