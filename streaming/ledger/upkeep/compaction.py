"""Joining small files: the same rows in fewer files, while batches go on being committed.

Ten batches a second leave a million small files a day, and each of them makes every commit and
every query slower. `compaction_plan` says which to join, `rewrite` copies their rows, `swap`
commits.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streaming.ledger.read.snapshot_files import ActiveFiles
from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.storage import Place
from streaming.ledger.upkeep.compaction_plan import Small
from streaming.ledger.upkeep.rewrite import Rewrite
from streaming.ledger.upkeep.swap import swap
from streaming.ledger.write.log_actions import add_action, removal

JOINED_START: Final = "joined-"


@dataclass(frozen=True)
class Joined:
    """What one rewrite did."""

    path: str
    replaced: tuple[str, ...]
    rows: int
    size: int


def join(place: Place, spec: TableSpec, group: Sequence[Small]) -> Joined | None:
    """Replace files of a table by one that holds their rows, in their order.

    Replay: the new file's name follows from what it replaces; a second try finds it written, and
    the table with or without it.

    Returns:
        What was done; None if another was first, and nothing was.
    """
    storage = place.storage()
    paths = tuple(file.path for file in group)
    digest = hashlib.sha256("\n".join(paths).encode()).hexdigest()
    path = f"{JOINED_START}{digest[:32]}.parquet"
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
        spec,
        path=path,
        size=size,
        rows=rewritten.rows,
        ranges=rewritten.ranges,
        modified_ms=now_ms,
        data_change=False,
    )
    removed = [removal(file.path, file.size, now_ms) for file in group]
    if not swap(place, spec, added, removed):
        return None
    return Joined(path, paths, rewritten.rows, size)
