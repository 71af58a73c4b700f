"""Spark's own files in a checkpoint: all knowledge of their format.

    metadata         the query's id, the same for the life of the checkpoint
    offsets/N        written before batch N runs: its timestamp, and where each partition ends
    commits/N        written once batch N has ended: Spark will not run it again

A file of offsets has a version, a line of JSON about the batch, and a line per source:
`SOURCE:{"TOPIC":{"PARTITION":OFFSET}}`. Beside each file there may be a checksum, `.N.crc`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from streaming.json_file import replace_file

Positions = dict[str, dict[str, int]]
"""Topic -> partition (as text) -> offset of the next record to read."""


class BatchOffsets(NamedTuple):
    """Spark's plan of a batch: its timestamp and end offsets."""

    now_ms: int
    ends: Positions


class SparkLogs:
    """Spark's files in a checkpoint on a local disk."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._offsets = checkpoint / "offsets"

    def query_id(self) -> str | None:
        """Return Spark's id of the query; None before the first start."""
        path = self._checkpoint / "metadata"
        if not path.exists():
            return None
        return str(json.loads(path.read_text().splitlines()[-1])["id"])

    def has_state(self) -> bool:
        """Return whether the folder of the state is there."""
        return (self._checkpoint / "state").is_dir()

    def last_planned(self) -> int | None:
        """Return the last batch whose offsets Spark logged, whether it ran or not."""
        return _last_number(self._offsets)

    def last_committed(self) -> int | None:
        """Return the last batch that Spark will not run again."""
        return _last_number(self._checkpoint / "commits")

    def has_unfinished_batch(self) -> bool:
        """Return whether Spark must run a batch again."""
        last = self.last_planned()
        return last is not None and last != self.last_committed()

    def offsets(self, batch_id: int) -> BatchOffsets:
        """Return Spark's plan of a batch."""
        lines = self._lines(batch_id)
        ends: dict[str, Any] = {}
        for _source, offsets in _sources(lines):
            ends.update(offsets)
        return BatchOffsets(int(json.loads(lines[1])["batchTimestampMs"]), ends)

    def next_positions(self) -> Positions:
        """Return where the next batch begins; empty before the first batch has ended."""
        batch_id = self.last_committed()
        return {} if batch_id is None else self.offsets(batch_id).ends

    def forget_planned(self, batch_id: int) -> None:
        """Delete the plan of an unfinished batch: Spark will plan it again."""
        (self._offsets / str(batch_id)).unlink()
        self._delete_checksum(batch_id)

    def move_ends(
        self, batch_id: int, moved: Mapping[str, Mapping[str, int]], replaced: set[str]
    ) -> None:
        """Change where partitions end in a finished batch; the next batch begins there.

        Args:
            moved: topic -> partition -> the new end.
            replaced: topics that were recreated: their other partitions are forgotten.
        """
        lines = self._lines(batch_id)
        for index, (source, offsets) in enumerate(_sources(lines), 2):
            for topic in offsets.keys() & moved.keys():
                kept = {} if topic in replaced else offsets[topic]
                offsets[topic] = {**kept, **moved[topic]}
            if offsets:
                lines[index] = f"{source}:{json.dumps(offsets, separators=(',', ':'))}"
        self._delete_checksum(batch_id)  # it is that of the old content
        replace_file(self._offsets / str(batch_id), "\n".join(lines).encode())

    def _lines(self, batch_id: int) -> list[str]:
        return (self._offsets / str(batch_id)).read_text().splitlines()

    def _delete_checksum(self, batch_id: int) -> None:
        (self._offsets / f".{batch_id}.crc").unlink(missing_ok=True)


def _sources(lines: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and offsets of each source; a source without offsets has none."""
    found = []
    for line in lines[2:]:
        source, _colon, text = line.partition(":")
        found.append((source, json.loads(text) if text.startswith("{") else {}))
    return found


def _last_number(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    return max((int(each.name) for each in folder.iterdir() if each.name.isdigit()), default=None)
