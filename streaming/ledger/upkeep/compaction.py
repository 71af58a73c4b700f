"""Compaction: the same rows in fewer files, while batches continue to be committed.

Ten batches a second write a million small files a day, and each makes every commit and query
slower. `plan` chooses which files to compact, `compact` copies their rows and commits.

Neighbouring files are compacted when together they outweigh the next older file by half. File sizes
then double from the newest to the oldest: a row is rewritten at most about log2(target / batch)
times, and never again once its file is half the target size.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.storage import Place
from streaming.ledger.upkeep.rewrite import Rewrite, replace_files
from streaming.ledger.write.log_actions import add_action, removal

COMPACTED_PREFIX: Final = "joined-"


@dataclass(frozen=True)
class SmallFile:
    """A file that may be compacted with its neighbours."""

    path: str
    size: int
    rows: int
    order: tuple[int, ...]


@dataclass(frozen=True)
class Compacted:
    """The result of one compaction: the new file, and the files it replaced."""

    path: str
    replaced: tuple[str, ...]
    rows: int
    size: int


def small_files(spec: TableSpec, files: ActiveFiles) -> list[SmallFile]:
    """The files of a table as `plan` takes them."""
    keys = np.column_stack([files.least(column) for column in spec.order])
    return [
        SmallFile(path, int(size), int(rows), tuple(int(part) for part in key))
        for path, size, rows, key in zip(files.paths, files.sizes, files.rows, keys, strict=True)
    ]


def plan(files: Sequence[SmallFile], target_bytes: int, least_files: int) -> list[list[SmallFile]]:
    """Choose which files to compact.

    Args:
        target_bytes: size of a compacted file; files above half of it are left alone.
        least_files: the smallest number of files that is worth a rewrite.

    Returns:
        Groups of at least two neighbours, in the table's order, each of about `target_bytes` at
        most.
    """
    groups: list[list[SmallFile]] = []
    run: list[SmallFile] = []
    weight = 0
    unfinished = [file for file in files if file.size <= target_bytes // 2]
    for file in sorted(unfinished, key=lambda file: (file.order, file.path), reverse=True):
        if run and file.size > 2 * weight:
            groups += _cut(run, target_bytes, least_files)
            run, weight = [], 0
        run.append(file)
        weight += file.size
    return [*groups, *_cut(run, target_bytes, least_files)]


def _cut(run: list[SmallFile], target_bytes: int, least_files: int) -> list[list[SmallFile]]:
    """Cut neighbours, newest first, into groups of the target size, oldest first."""
    groups: list[list[SmallFile]] = [[]]
    weight = 0
    for file in reversed(run if len(run) >= least_files else []):
        if weight + file.size > target_bytes:
            groups.append([])
            weight = 0
        groups[-1].append(file)
        weight += file.size
    return [group for group in groups if len(group) > 1]


def compact(place: Place, spec: TableSpec, group: Sequence[SmallFile]) -> Compacted | None:
    """Replace files of a table by one file with the same rows, in order.

    Replay: the new file's name is derived from the files it replaces. A second attempt finds it
    written, and the table with or without it.

    Returns:
        None if another process replaced one of the files first; nothing is changed then.
    """
    storage = place.storage()
    paths = tuple(file.path for file in group)
    digest = hashlib.sha256("\n".join(paths).encode()).hexdigest()
    path = f"{COMPACTED_PREFIX}{digest[:32]}.parquet"
    rewritten = Rewrite(storage, spec, paths, digest)
    try:
        if not storage.create(path, rewritten.write):
            with storage.open(path) as file:
                rewritten.describe(file)
    except FileNotFoundError:
        if set(paths) <= set(ActiveFiles(load_table(place)).paths):
            raise
        return None
    size = storage.size(path)
    expected = sum(file.rows for file in group)
    assert size is not None, path
    assert rewritten.rows == expected, f"{path}: {rewritten.rows} rows of {expected}"
    now_ms = time.time_ns() // 1_000_000
    added = add_action(
        spec, path, size, expected, rewritten.ranges, modified_ms=now_ms, data_change=False
    )
    removed = [removal(file.path, file.size, now_ms) for file in group]
    if not replace_files(place, spec, added, removed):
        return None
    return Compacted(path, paths, rewritten.rows, size)
