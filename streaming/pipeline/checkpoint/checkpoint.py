"""The checkpoint of a job: used by one job at a time, and always by the same job."""

import logging
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from filelock import FileLock, Timeout

from streaming.broker.config import CORE_VERSION
from streaming.config import outcome_changes
from streaming.pipeline.checkpoint.errors import (
    CheckpointError,
    CheckpointInUseError,
    FixedSettingError,
    NewerVersionError,
    UnfinishedBatchError,
)
from streaming.pipeline.checkpoint.folders import make_folder
from streaming.pipeline.checkpoint.lease import CheckpointLease
from streaming.pipeline.checkpoint.manifest import (
    FILE,
    FORMAT,
    Manifest,
    read_manifest,
    write_manifest,
)
from streaming.pipeline.checkpoint.spark_logs import SparkLogs
from streaming.pipeline.checkpoint.table_match import TableBatches, WrittenBatches, refuse_mismatch
from streaming.protocol.record_headers import WIRE_VERSION
from streaming.storage.location import AnyPath

LOCK_FILE = "dlx.lock"
LOCK_S = 0.5
"""How long a job waits for the lock: whoever looks whether one runs has it for a moment."""

logger = logging.getLogger(__name__)


class CheckpointLock:
    """The lock of one checkpoint on a local disk; the system releases it with the process."""

    epoch = None

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._lock = FileLock(checkpoint / LOCK_FILE, thread_local=False)

    def acquire(self) -> None:
        """Take the lock; create the checkpoint's folder.

        Raises:
            CheckpointError: another job has the lock.
            FolderError: the folder cannot be written to.
        """
        make_folder("job.checkpoint_location", self._checkpoint)
        try:
            self._lock.acquire(timeout=LOCK_S)
        except Timeout as error:
            raise CheckpointInUseError(
                f"job.checkpoint_location: another job uses {self._checkpoint}. Stop it, or give "
                "this job its own checkpoint and tables"
            ) from error

    def check(self) -> None:
        """Nothing: the lock is held until the process ends."""

    def release(self) -> None:
        """Let another job take the lock; harmless without the lock."""
        self._lock.release()


class Checkpoint:
    """A checkpoint on a local disk, or in shared storage.

    Args:
        lease_ms: how long a lease lasts; None: the disk is this machine's, and a lock is enough.

    Attributes:
        lock: keeps other jobs away.
        logs: Spark's own files.
        manifest: the numbers of topics and shards, once it is open.
        written: the batches that its tables have, once it is open.
    """

    written: WrittenBatches

    def __init__(self, path: AnyPath, lease_ms: int | None = None) -> None:
        self.path = path
        self.lock: CheckpointLock | CheckpointLease
        if lease_ms is None:
            assert isinstance(path, Path), "shared storage has no locks"
            self.lock = CheckpointLock(path)
        else:
            self.lock = CheckpointLease(path, lease_ms)
        self.logs = SparkLogs(path)
        self.manifest = Manifest()
        self._new_job_id = uuid.uuid4().hex

    @property
    def job_id(self) -> str:
        """What identifies the job in its heartbeats; it is fixed once the manifest is saved.

        Raises:
            DamagedFileError: the manifest cannot be read.
        """
        found = read_manifest(self.path)
        return (found.job_id if found is not None else "") or self._new_job_id

    def open(
        self,
        shuffle_partitions: int,
        outcome_hash: str,
        outcome_settings: dict[str, Any],
        tables: TableBatches,
        constants: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Read the manifest, and refuse a job or tables that do not match it.

        Args:
            constants: what a replay depends on besides records and settings.

        Raises:
            CheckpointError: another partition count, version or configuration, or other tables.
        """
        for name in self.logs.mend():
            logger.warning("%s/%s was incomplete and is removed: a power failure?", self.path, name)
        found = read_manifest(self.path)
        self._refuse_missing_parts(found)
        self.written = WrittenBatches(self.path)
        refuse_mismatch(self.path, self.logs, self.written, tables)
        ours = Manifest(
            shuffle_partitions=shuffle_partitions,
            core_version=CORE_VERSION,
            wire_version=WIRE_VERSION,
            outcome_hash=outcome_hash,
            outcome_settings=outcome_settings,
            constants=dict(constants),
            job_id=self.job_id,
        )
        if found is not None:
            self._refuse_other_job(found, ours)
            found.refuse_changed_front(outcome_settings)
            ours.topics, ours.topic_names = found.topics, found.topic_names
            ours.shards, ours.rebuilt = found.shards, found.rebuilt
            ours.outbound_from = found.outbound_from
        self.manifest = ours

    def save(self) -> None:
        """Write the manifest; call this before any batch uses its numbers."""
        write_manifest(self.path, self.manifest)

    def _refuse_missing_parts(self, manifest: Manifest | None) -> None:
        missing = None
        if manifest is None and self.logs.query_id() is not None:
            missing = FILE
        elif self.logs.last_committed() is not None and not self.logs.has_state():
            missing = "state"
        if missing is not None:
            raise CheckpointError(
                f"job.checkpoint_location: {missing} is missing in {self.path}. Restore it from a "
                "backup of the same time, or let `dlx checkpoint rebuild` make a new checkpoint "
                "from the tables"
            )

    def _refuse_other_job(self, found: Manifest, ours: Manifest) -> None:
        if (
            found.format > FORMAT
            or found.core_version > CORE_VERSION
            or found.wire_version > WIRE_VERSION
        ):
            raise NewerVersionError(
                f"{self.path} was written by a newer version of dlx: {found.versions}; this "
                f"version has {ours.versions}. Run the newer version"
            )
        if found.shuffle_partitions != ours.shuffle_partitions:
            raise FixedSettingError(
                f"job.shuffle_partitions: the state in {self.path} has {found.shuffle_partitions} "
                f"partitions; this start has {ours.shuffle_partitions}. Set it to "
                f"{found.shuffle_partitions}, or change it by `dlx checkpoint rebuild --replace`"
            )
        if self.logs.has_unfinished_batch():
            self._refuse_other_batch(found, ours)

    def _refuse_other_batch(self, found: Manifest, ours: Manifest) -> None:
        """Refuse to finish a batch that was begun otherwise."""
        changes = outcome_changes(found.outcome_settings, ours.outcome_settings)
        if found.constants != ours.constants:
            names = sorted(found.constants.keys() | ours.constants.keys())
            differences = (
                f"  {name}: was {found.constants.get(name)}, now {ours.constants.get(name)}"
                for name in names
                if found.constants.get(name) != ours.constants.get(name)
            )
            raise UnfinishedBatchError(
                f"{self.path} has an unfinished batch that this version would cut into other files "
                f"and records. Start once with the version that began it ({found.versions}), then "
                "change:\n" + "\n".join(differences)
            )
        if found.outcome_hash != ours.outcome_hash:
            raise UnfinishedBatchError(
                f"{self.path} has an unfinished batch that was begun with another configuration or "
                f"version ({found.versions}, hash {found.outcome_hash[:12]}; now hash "
                f"{ours.outcome_hash[:12]}). Start once with that one to finish the batch, then "
                "change:\n"
                + "\n".join(f"  {change}" for change in changes or ("the version of dlx",))
            )
