"""Which small files to join: as few rewrites of a row as will keep the files few.

Neighbours are joined when together they outweigh the next older file by half. So the sizes of what
is left double from the newest to the oldest, a row is rewritten about log2(target / batch) times at
most, and never again once its file is half the target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from streaming.ledger.read.snapshot_files import ActiveFiles
from streaming.ledger.schema.schemas import TableSpec


@dataclass(frozen=True)
class Small:
    """A file that may be joined with its neighbours.

    Attributes:
        order: where it stands among the files of its table.
    """

    path: str
    size: int
    rows: int
    order: tuple[int, ...]


def plan(files: Sequence[Small], target_bytes: int, least_files: int) -> list[list[Small]]:
    """Choose which files to join.

    Args:
        files: of one table, in any order.
        target_bytes: how large a joined file should be; files above half of it are left alone.
        least_files: fewer are not worth a rewrite.

    Returns:
        Groups of at least two neighbours, in the table's order, each of about `target_bytes` at
        most.
    """
    groups: list[list[Small]] = []
    run: list[Small] = []
    weight = 0
    unfinished = [file for file in files if file.size <= target_bytes // 2]
    for file in sorted(unfinished, key=lambda file: (file.order, file.path), reverse=True):
        if run and file.size > 2 * weight:
            groups += _cut(run, target_bytes, least_files)
            run, weight = [], 0
        run.append(file)
        weight += file.size
    return [*groups, *_cut(run, target_bytes, least_files)]


def _cut(run: list[Small], target_bytes: int, least_files: int) -> Iterator[list[Small]]:
    """Cut neighbours, newest first, into groups of the target's size, oldest first."""
    if len(run) < least_files:
        return
    group: list[Small] = []
    weight = 0
    for file in reversed(run):
        if group and weight + file.size > target_bytes:
            if len(group) > 1:
                yield group
            group, weight = [], 0
        group.append(file)
        weight += file.size
    if len(group) > 1:
        yield group


def small_files(spec: TableSpec, files: ActiveFiles) -> list[Small]:
    """The files of a table as `plan` wants them."""
    keys = np.column_stack([files.least(column) for column in spec.order])
    return [
        Small(path, int(size), int(rows), tuple(int(part) for part in key))
        for path, size, rows, key in zip(files.paths, files.sizes, files.rows, keys, strict=True)
    ]
