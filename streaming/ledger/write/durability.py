"""Delta's log on a local disk after a power failure: made durable, and mended.

deltalake does not wait until a log entry is on the disk, and Spark would not run its batch again.
So the ledger waits, before a batch counts as committed. What a power failure can leave is then the
entry of a commit that did not count: the newest file, empty or cut off. It is removed, and the
batch runs again.
"""

import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from streaming.ledger.errors import DamagedLogError
from streaming.storage.local import flush
from streaming.storage.location import Location

LOG = "_delta_log"
_FLUSHED = 3
_LOOKED_AT = 2
"""How many of the newest entries are read at a start."""

logger = logging.getLogger(__name__)


def flush_entries(entries: Iterable[tuple[Location, int]]) -> None:
    """Wait until log entries, and their names, are on the disk; object stores need no waiting.

    Args:
        entries: tables, and versions of theirs; maintenance may have committed before us, so some
            later entries are flushed too.
    """
    for place, version in entries:
        folder = place.local_path()
        if folder is None:
            return
        log = folder / LOG
        for each in range(version, version + _FLUSHED):
            with suppress(FileNotFoundError):
                flush(log / f"{each:020}.json")
        flush(log)


def flush_checkpoint(place: Location, version: int) -> None:
    """Wait until a checkpoint of the log is on the disk, before older entries are removed."""
    folder = place.local_path()
    if folder is None:
        return
    log = folder / LOG
    paths = [*log.glob(f"{version:020}.checkpoint*.parquet"), log / "_last_checkpoint", log]
    for path in paths:
        with suppress(FileNotFoundError):
            flush(path)


def mend_log(place: Location) -> None:
    """Remove a newest log entry that is incomplete, and a damaged pointer to the last checkpoint.

    Raises:
        DamagedLogError: an earlier entry, or a checkpoint, is incomplete.
    """
    folder = place.local_path()
    if folder is None or not (folder / LOG).is_dir():
        return
    log = folder / LOG
    entries = sorted(path for path in log.glob("*.json") if path.stem.isdigit())
    for path in entries[-_LOOKED_AT:]:
        if _is_complete(path):
            continue
        if not int(path.stem):  # the table itself, not a commit; deltalake says what is wrong
            continue
        if path != entries[-1]:
            raise DamagedLogError(_damaged(path))
        logger.warning("%s was incomplete and is removed: a power failure?", path)
        path.unlink()
        flush(log)
    pointer = log / "_last_checkpoint"
    if pointer.exists() and not _is_complete(pointer):
        logger.warning("%s was incomplete and is removed: a power failure?", pointer)
        pointer.unlink()
        flush(log)
    checkpoints = sorted(log.glob("*.checkpoint*.parquet"))
    if checkpoints and not checkpoints[-1].stat().st_size:
        raise DamagedLogError(_damaged(checkpoints[-1]))


def _damaged(path: Path) -> str:
    return (
        f"{path} is incomplete, and later entries need it. Restore the tables and the checkpoint "
        "from a backup of the same time"
    )


def _is_complete(path: Path) -> bool:
    """Whether every line of a file is JSON, and there is at least one."""
    try:
        lines = path.read_text("utf-8").splitlines()
        return bool(lines) and all(json.loads(line) is not None for line in lines)
    except ValueError:
        return False
