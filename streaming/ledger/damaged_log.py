"""Which entry of a Delta log keeps a table from being read; Delta's own errors do not name it."""

import re
from pathlib import Path
from typing import Final

import msgspec

RESTORE: Final = "restore tables and checkpoint from a backup of the same time"

DERIVED: Final = "queue_contents"
"""The table that `dlx tables rebuild` makes from the others."""

_ENTRY: Final = re.compile(r"([0-9]{20})\.json")


def fault_of_log(folder: Path) -> str | None:
    """The first entry of a log that is damaged or missing, and what to do; None if none is.

    Args:
        folder: that of a table on this machine.
    """
    try:
        fault = _faulty_entry(folder / "_delta_log")
    except OSError:
        return None
    return fault and f"{fault}, so the table {folder.name} cannot be read: {remedy(folder)}"


def remedy(folder: Path | str) -> str:
    """What to do about a table whose log is damaged.

    Args:
        folder: the folder or URL of the table.
    """
    if str(folder).rpartition("/")[2] == DERIVED:
        return f"remove {folder}, and `dlx tables rebuild` makes the table again from events"
    return RESTORE


def _faulty_entry(log: Path) -> str | None:
    names = [path.name for path in log.iterdir()]
    versions = sorted(int(entry[1]) for entry in map(_ENTRY.fullmatch, names) if entry)
    starts_late = any(".checkpoint" in name for name in names)  # entries before it were removed
    for expected, version in enumerate(versions, versions[0] if starts_late and versions else 0):
        path = log / f"{expected:020}.json"
        if version != expected:
            return f"{path}: this entry of the log is missing"
        try:
            for line in path.read_bytes().splitlines():
                msgspec.json.decode(line or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return f"{path}: this entry of the log is damaged ({error})"
    return None
