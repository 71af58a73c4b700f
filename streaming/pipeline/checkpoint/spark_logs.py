"""Spark's own files in a checkpoint: all knowledge of their format.

    metadata         the query's id, the same for the life of the checkpoint
    offsets/N        written before batch N runs: its timestamp, and where each partition ends
    commits/N        written once batch N has ended: Spark will not run it again

A file of offsets has a version, a line of JSON about the batch, and a line per source:
`SOURCE:{"TOPIC":{"PARTITION":OFFSET}}`. Beside each file there may be a checksum, `.N.crc`.

Spark does not wait until its files are on the disk. The job does so before a batch runs, so a power
failure damages at most the last plan, whose batch did not run, and the last commit.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from streaming.storage.json_file import DamagedFileError, remove_file, replace_file
from streaming.storage.local import flush
from streaming.storage.location import AnyPath

Positions = dict[str, dict[str, int]]
"""Topic -> partition (as text) -> offset of the next record to read."""


_REMEDY = (
    "Restore the checkpoint from a backup, or let `dlx checkpoint rebuild --replace` make a new "
    "one from the tables"
)


class BatchOffsets(NamedTuple):
    """Spark's plan of a batch: its timestamp and end offsets."""

    now_ms: int
    ends: Positions


class SparkLogs:
    """Spark's files in a checkpoint."""

    def __init__(self, checkpoint: AnyPath) -> None:
        self._checkpoint = checkpoint
        self._offsets = checkpoint / "offsets"
        self._commits = checkpoint / "commits"
        self._query_id: str | None = None

    def query_id(self) -> str | None:
        """Return Spark's id of the query; None before the first start.

        Raises:
            DamagedFileError: Spark's file cannot be read.
        """
        if self._query_id is None:
            path = self._checkpoint / "metadata"
            try:
                self._query_id = str(json.loads(path.read_text().splitlines()[-1])["id"])
            except FileNotFoundError:
                return None
            except (ValueError, LookupError, TypeError) as error:
                raise DamagedFileError(f"{path} is damaged ({error}). {_REMEDY}") from error
        return self._query_id

    def mend(self) -> list[str]:
        """Remove what a power failure left incomplete, and return the names of those files.

        A batch whose plan is incomplete did not run, so Spark plans it again. A batch whose commit
        is incomplete runs again, with the same result.

        Raises:
            DamagedFileError: an earlier file is incomplete; that cannot be mended.
        """
        mended = []
        for folder, least_lines in ((self._commits, 2), (self._offsets, 4)):
            numbers = _numbers(folder)
            for number in numbers[-2:]:
                path = folder / str(number)
                if _is_complete(path, least_lines):
                    continue
                is_needed = folder == self._offsets and number == self.last_committed()
                if number != numbers[-1] or is_needed:
                    raise DamagedFileError(f"{path} is incomplete. {_REMEDY}")
                _forget(path)
                mended.append(f"{folder.name}/{number}")
        return mended

    def flush(self, batch_id: int) -> None:
        """Wait until the plan of a batch, and the commit of the one before, are on the disk."""
        for path in (self._offsets / str(batch_id), self._commits / str(batch_id - 1)):
            if isinstance(path, Path):  # in shared storage it is durable once it is there
                with suppress(FileNotFoundError):
                    flush(path)
                    flush(path.parent)

    def has_state(self) -> bool:
        """Return whether the folder of the state is there."""
        return (self._checkpoint / "state").is_dir()

    def last_planned(self) -> int | None:
        """Return the last batch whose offsets Spark logged, whether it ran or not."""
        return _last_number(self._offsets)

    def last_committed(self) -> int | None:
        """Return the last batch that Spark will not run again."""
        return _last_number(self._commits)

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
        _forget(self._offsets / str(batch_id))

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
        (self._offsets / f".{batch_id}.crc").unlink(missing_ok=True)  # it is of the old content
        replace_file(self._offsets / str(batch_id), "\n".join(lines).encode())

    def _lines(self, batch_id: int) -> list[str]:
        return (self._offsets / str(batch_id)).read_text().splitlines()


def _sources(lines: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and offsets of each source; a source without offsets has none."""
    found = []
    for line in lines[2:]:
        source, _colon, text = line.partition(":")
        found.append((source, json.loads(text) if text.startswith("{") else {}))
    return found


def _numbers(folder: AnyPath) -> list[int]:
    """The batches that have a file in a folder of Spark's, in order."""
    try:
        return sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit())
    except FileNotFoundError:
        return []


def _last_number(folder: AnyPath) -> int | None:
    return max(_numbers(folder), default=None)


def _is_complete(path: AnyPath, least_lines: int) -> bool:
    """Whether a file of Spark's has its version and ends with JSON or a source without offsets."""
    try:
        lines = path.read_text().splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return False
    if len(lines) < least_lines or not lines[0].startswith("v"):
        return False
    try:
        json.loads(lines[1])
        _sources(lines)
    except ValueError:
        return False
    return True


def _forget(path: AnyPath) -> None:
    """Remove a file of Spark's and its checksum."""
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    remove_file(path)
