"""The checkpoint's folder: one job at a time, the same job every time."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import IO, Any, NamedTuple

from streaming.config import outcome_changes
from streaming.pipeline.checkpoint.folders import make_folder
from streaming.pipeline.checkpoint.manifest import (
    FILE,
    FORMAT,
    JobFile,
    read_job_file,
    write_job_file,
)
from streaming.pipeline.checkpoint.table_match import (
    CheckpointError,
    TablesSeen,
    refuse_foreign_tables,
)
from streaming.pipeline.checkpoint.written_batches import WrittenBatches
from streaming.protocol.headers import WIRE_VERSION

CORE_VERSION = 5
"""Raised with every change of what the broker does with the same log."""

LOCK = "dlx.lock"


class Offsets(NamedTuple):
    """What Spark logged of a batch before it ran it: its instant, and where each partition ends."""

    now_ms: int
    ends: dict[str, Any]


class Checkpoint:
    """A checkpoint on a local disk.

    Attributes:
        job_file: the numbers beside it, once it is open.
        written: which batches its tables have, once it is open.
    """

    written: WrittenBatches

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job_file = JobFile()
        self._lock: IO[str] | None = None

    def lock(self) -> None:
        """Keep other jobs away.

        Raises:
            CheckpointError: another job has it.
            FolderError: it cannot be written to.
        """
        make_folder("job.checkpoint_location", self.path)
        lock = (self.path / LOCK).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise CheckpointError(
                f"job.checkpoint_location: another job uses {self.path}; stop it, or give this "
                "one a checkpoint and tables of its own"
            ) from error
        self._lock = lock

    def unlock(self) -> None:
        """Let other jobs have it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def open(
        self,
        shuffle_partitions: int,
        outcome_hash: str,
        outcome_settings: dict[str, Any],
        tables: TablesSeen,
    ) -> None:
        """Read what the checkpoint belongs to, and refuse what does not fit.

        Args:
            outcome_hash, outcome_settings: of the configuration; see `streaming.config.outcome`.

        Raises:
            CheckpointError: another partition count, version or configuration; or tables that are
            not its own.
        """
        found = read_job_file(self.path)
        self._refuse_parts_missing(found)
        self.written = WrittenBatches(self.path)
        refuse_foreign_tables(
            self.path,
            self.query_id(),
            tables,
            last_planned=self.last_planned(),
            last_committed=self.last_committed(),
            written=self.written.last,
        )
        if found is None:
            found = JobFile(
                shuffle_partitions=shuffle_partitions,
                core_version=CORE_VERSION,
                wire_version=WIRE_VERSION,
            )
        elif (
            found.format > FORMAT
            or found.core_version > CORE_VERSION
            or found.wire_version > WIRE_VERSION
        ):
            raise CheckpointError(
                f"{self.path} was written by a newer version of dlx: {_versions(found)}, and this "
                f"one has {_versions(JobFile(FORMAT, 0, CORE_VERSION, WIRE_VERSION))}. Run that "
                "version"
            )
        elif found.shuffle_partitions != shuffle_partitions:
            raise CheckpointError(
                f"job.shuffle_partitions: {self.path} was made with {found.shuffle_partitions}, "
                f"and the state is divided by it; this start has {shuffle_partitions}. Set it to "
                f"{found.shuffle_partitions}"
            )
        elif found.outcome_hash != outcome_hash and self._has_unfinished_batch():
            changes = outcome_changes(found.outcome_settings, outcome_settings)
            raise CheckpointError(
                f"{self.path} has a batch that was begun with another configuration or version "
                f"({_versions(found)}, hash {found.outcome_hash[:12]}; now hash "
                f"{outcome_hash[:12]}). Start once with that one to finish it, then change:\n"
                + "\n".join(f"  {change}" for change in changes or ("the version of dlx",))
            )
        found.core_version, found.wire_version = CORE_VERSION, WIRE_VERSION
        found.outcome_settings = outcome_settings
        found.outcome_hash = outcome_hash
        self.job_file = found

    def _refuse_parts_missing(self, job_file: JobFile | None) -> None:
        """Refuse a checkpoint of which somebody has removed a part.

        Raises:
            CheckpointError: names the part.
        """
        missing = None
        if job_file is None and self.query_id() is not None:
            missing = FILE
        elif self.last_committed() is not None and not (self.path / "state").is_dir():
            missing = "state"
        if missing is not None:
            raise CheckpointError(
                f"job.checkpoint_location: {self.path} has no {missing} any more. Restore it from "
                "a copy of the same time; without it the tables can be read but not continued: "
                "give the job a new checkpoint and new tables"
            )

    def save(self) -> None:
        """Write the numbers down; before any batch runs with them."""
        write_job_file(self.path, self.job_file)

    def query_id(self) -> str | None:
        """Spark's id of the query, the same for ever; None before the first start."""
        path = self.path / "metadata"
        if not path.exists():
            return None
        return str(json.loads(path.read_text().splitlines()[-1])["id"])

    def has_planned(self) -> bool:
        """Whether Spark has begun a batch, and thus decided what is in the first."""
        folder = self.path / "offsets"
        return folder.is_dir() and any(each.name.isdigit() for each in folder.iterdir())

    def offsets(self, batch_id: int) -> Offsets:
        """What Spark logged of a batch."""
        lines = (self.path / "offsets" / str(batch_id)).read_text().splitlines()
        metadata = json.loads(lines[1])
        ends: dict[str, Any] = {}
        for line in lines[2:]:  # SOURCE:{"TOPIC":{"PARTITION":OFFSET}}
            _source, _colon, offsets = line.partition(":")
            if offsets.startswith("{"):
                ends.update(json.loads(offsets))
        return Offsets(int(metadata["batchTimestampMs"]), ends)

    def last_committed(self) -> int | None:
        """The last batch that Spark will not run again; None if there is none."""
        return max(_numbers(self.path / "commits"), default=None)

    def last_planned(self) -> int | None:
        """The last batch whose offsets Spark logged, run or not; None if there is none."""
        return max(_numbers(self.path / "offsets"), default=None)

    def forget_planned(self, batch_id: int) -> None:
        """Take back the plan of a batch that was not finished."""
        folder = self.path / "offsets"
        (folder / str(batch_id)).unlink()
        (folder / f".{batch_id}.crc").unlink(missing_ok=True)

    def positions(self) -> dict[str, dict[str, int]]:
        """Topic -> partition -> the offset that the next batch to be run begins at."""
        batch_id = self.last_committed()
        return {} if batch_id is None else self.offsets(batch_id).ends

    def _has_unfinished_batch(self) -> bool:
        last = self.last_planned()
        return last is not None and last != self.last_committed()


def _versions(job_file: JobFile) -> str:
    return f"format {job_file.format}, core {job_file.core_version}, wire {job_file.wire_version}"


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(file.name) for file in folder.iterdir() if file.name.isdigit()]


__all__ = ["CORE_VERSION", "Checkpoint", "CheckpointError", "Offsets"]
