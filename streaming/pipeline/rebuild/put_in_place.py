"""Puts a new checkpoint in the place of the old one, in a folder or in shared storage.

    CHECKPOINT/                     -->  CHECKPOINT.before-rebuild-N/   manifest first
    the new one, in a local folder  -->  CHECKPOINT/                    manifest last

A job refuses a checkpoint without its manifest. So after an interruption anywhere, a job sees the
old checkpoint, the new one, or one that it refuses. Locks and leases stay where they are, and so do
the snapshots of the AMQP front: they are of its log, not of the job.
"""

from pathlib import Path
from typing import Final

from streaming.job_locations import FRONT_FOLDER
from streaming.pipeline.checkpoint.checkpoint import LOCK_FILE
from streaming.pipeline.checkpoint.lease import FILE as LEASE_FILE
from streaming.pipeline.checkpoint.manifest import FILE
from streaming.storage.location import AnyPath, storage_of

_ASIDE: Final = ".before-rebuild-"
WORK: Final = ".rebuilding"
"""The name of the folder of a rebuild that is under way ends in this."""

_MOVED_LAST: Final = (FILE, "metadata")


def is_empty(path: AnyPath) -> bool:
    """Whether there is nothing but what stays: locks, and snapshots of the front."""
    return not _entries(path)


def put_aside(path: AnyPath) -> AnyPath | None:
    """Move everything but locks to a place of its own, and return it; None: there was nothing."""
    entries = sorted(_entries(path), key=lambda each: -_MOVED_LAST.count(each))
    if not entries:
        return None
    number = 1
    while (kept := path.parent / f"{path.name}{_ASIDE}{number}").is_dir():
        number += 1
    kept.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        storage_of(path).move(entry, storage_of(kept))
    return kept


def kept_checkpoints(checkpoint: Path) -> list[Path]:
    """The folders of earlier checkpoints beside one, and that of an unfinished rebuild."""
    name = checkpoint.name
    aside = checkpoint.parent.glob(f"{name}{_ASIDE}*")
    numbered = [path for path in aside if path.name.rpartition("-")[2].isdigit()]
    unfinished = checkpoint.with_name(f"{name}{WORK}")
    return sorted([*numbered, *([unfinished] if unfinished.is_dir() else [])])


def put_in_place(new: Path, path: AnyPath) -> None:
    """Move a new checkpoint from a local folder to its place, where only locks are."""
    if isinstance(path, Path):
        for entry in sorted(new.iterdir(), key=lambda each: _MOVED_LAST.count(each.name)):
            entry.rename(path / entry.name)
        return
    files = [each for each in new.rglob("*") if each.is_file()]
    for file in sorted(files, key=lambda each: _MOVED_LAST.count(each.name)):
        with file.open("rb") as content:
            path.storage().upload(str(file.relative_to(new)), content)


def _entries(path: AnyPath) -> list[str]:
    """The names in a folder, or those of all objects below a place, without what stays."""
    if isinstance(path, Path):
        names = [each.name for each in path.iterdir()]
    else:
        names = path.storage().all_names()
    locks = (LOCK_FILE, f"{LEASE_FILE}.", f".{LEASE_FILE}.")  # and what is not yet renamed
    return [
        name
        for name in names
        if not name.startswith(locks) and name.partition("/")[0] != FRONT_FOLDER
    ]
