"""Beside the checkpoint: the last batch that brought each table rows.

A table that is put back to an older state (a backup that was restored) lacks rows that the
checkpoint counts on, and its log knows fewer batches than stand here. So it is found at the start,
not when somebody looks for a message.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streaming.pipeline.checkpoint.json_file import read_kept

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = "batches.json"

_REMEDY = "Move it away: it only tells tables that were put back to an older state"


class WrittenBatches:
    """What the tables of a checkpoint have, at least: the file is written behind their commits.

    Attributes:
        last: by table; one that never had a row is not in it.

    Raises:
        DamagedFileError: the file cannot be read.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint / FILE
        self.last: dict[str, int] = read_kept(self._path, dict[str, int], _REMEDY) or {}

    def committed(self, batch_id: int, tables: Iterable[str]) -> None:
        """These tables have the batch."""
        changes = dict.fromkeys(tables, batch_id)
        if not changes:
            return
        self.last |= changes
        unfinished = self._path.with_suffix(".unfinished")
        unfinished.write_bytes(msgspec.json.encode(self.last, order="deterministic"))
        unfinished.replace(self._path)
