"""Rebuild a checkpoint: refuse, plan, write beside the old one, then put it in its place.

    DIR.rebuilding/         the new checkpoint while it is written; the next attempt removes it
    DIR.before-rebuild-N/   what was in the checkpoint's folder before; never removed

Of a checkpoint in shared storage, the new one is written to a folder below the logs, and uploaded.

Replay: an attempt that was interrupted leaves the old checkpoint, or one without its manifest,
which a job refuses. The next attempt starts again from the tables, which only lose rows of a batch
that never happened.
"""

import dataclasses
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from streaming.broker.rebuilt_shard import rebuild_shard
from streaming.config import JobConfig
from streaming.contents.replacement import replace_rows
from streaming.job_locations import checkpoint_place, tables_place
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import LEDGER, TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import conformed
from streaming.pipeline.checkpoint import table_match
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.checkpoint.errors import CheckpointError
from streaming.pipeline.checkpoint.folders import NewFolders, lease_ms
from streaming.pipeline.checkpoint.manifest import read_manifest, write_manifest
from streaming.pipeline.checkpoint.spark_logs import SparkLogs
from streaming.pipeline.flow.notices import FILE as FLOW_FILE
from streaming.pipeline.query import COMMANDS, PUBLISHES
from streaming.pipeline.rebuild.plan import RebuildPlan, plan_rebuild
from streaming.pipeline.rebuild.put_in_place import WORK, is_empty, put_aside, put_in_place
from streaming.pipeline.rebuild.spark_state import renumber, store_entries, write_entries
from streaming.queries.duckdb_tables import Tables
from streaming.spark.session import SessionConfig, session_config
from streaming.storage.json_file import write_json_file
from streaming.storage.location import AnyPath, Location
from topology.errors import DlxError


class IntactCheckpointError(CheckpointError):
    """The checkpoint that is to be rebuilt is complete."""

    help_code = "intact-checkpoint"


class Rebuild:
    """The rebuild of the checkpoint of one job.

    Args:
        partitions: shuffle partitions of the new checkpoint.
    """

    def __init__(self, config: JobConfig, partitions: int) -> None:
        self.config = config
        self._partitions = partitions
        self.path = checkpoint_place(config, os.environ).absolute()
        if isinstance(self.path, Location) and not urlsplit(str(self.path)).path.strip("/"):
            raise CheckpointError(
                f"job.checkpoint_location: {self.path} is a whole bucket, so there is no place "
                "beside it for what is in it now. Copy its objects to a folder of the bucket, and "
                "name that"
            )
        self.place = tables_place(config, os.environ)
        self._logs = Path(config.job.log_dir).absolute()
        self._lock = Checkpoint(self.path, lease_ms(config)).lock

    @contextmanager
    def locked(self, *, replace: bool) -> Iterator[None]:
        """Keep jobs away.

        Args:
            replace: replace a complete checkpoint too.

        Raises:
            CheckpointError: a job runs, or the checkpoint is complete.
        """
        new_folders = NewFolders([self.path] if isinstance(self.path, Path) else [])
        self._lock.acquire()
        try:
            if not replace and is_complete(self.path):
                raise IntactCheckpointError(
                    f"{self.path} is complete: dlx run continues it. To make a new checkpoint from "
                    "the tables all the same, for example for another number of shuffle partitions "
                    "or lanes, add --replace; the folder is kept under another name"
                )
            yield
        finally:
            self._lock.release()
            if is_empty(self.path):
                new_folders.remove()

    def plan(self) -> RebuildPlan:
        """Read what the new checkpoint will hold; see `plan_rebuild` for the errors."""
        with Tables(self.place.url, self.place.options) as tables:
            return plan_rebuild(self.config, tables, self.place, self._partitions)

    def session_config(self, environ: Mapping[str, str]) -> SessionConfig:
        """The session that writes the new checkpoint.

        Raises:
            InvalidConfigError: a secret cannot be read.
        """
        session = dataclasses.replace(
            session_config(self.config, environ), shuffle_partitions=self._partitions
        )
        if isinstance(self.path, Path):
            return session
        return dataclasses.replace(
            session,
            master="local[*]",  # no other machine reaches the folder of the new checkpoint
            local_checkpoints=True,
            s3_checkpoints=False,
            storage=(),
        )

    def write(self, plan: RebuildPlan, spark: SparkSession) -> AnyPath | None:
        """Write the new checkpoint.

        Returns:
            The place that has what was there before; None if there was nothing.

        Raises:
            LeaseLostError: another job has taken the checkpoint meanwhile.
        """
        beside = self.path if isinstance(self.path, Path) else self._logs / self.path.name
        work = beside.with_name(f"{beside.name}{WORK}")
        shutil.rmtree(work, ignore_errors=True)
        source, seed = work / "entries", work / "checkpoint"
        rebuilt = (
            (key, rebuild_shard(known, plan.configs[key])) for key, known in plan.known.items()
        )
        entries = chain(plan.folded.items(), rebuilt)
        count = write_entries(source, entries)
        store_entries(spark, source, seed, self._partitions, count)
        sources = {
            name: {
                topic: plan.offsets[topic]
                for topic in self.config.topics_of(name)
                if topic in plan.offsets
            }
            for name in (PUBLISHES, COMMANDS)
        }
        renumber(seed, self.path, plan.query_id, plan.spark_batch, plan.now_ms, sources)
        remove_half_written(self.place, plan)
        write_json_file(seed / table_match.FILE, self._last_batches(plan.query_id))
        write_json_file(seed / FLOW_FILE, {"seq": plan.now_ms // 1000, "active": plan.gate_open})
        write_manifest(seed, plan.manifest)
        self._lock.check()
        kept = put_aside(self.path)
        put_in_place(seed, self.path)
        shutil.rmtree(work)
        return kept

    def _last_batches(self, query_id: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for name in LEDGER:
            batch_id = load_table(self.place / name).transaction_version(query_id)
            if batch_id is not None:
                found[name] = batch_id
        return found


def is_complete(path: AnyPath) -> bool:
    """Whether a checkpoint has all that a job needs to continue.

    A file of it that cannot be read counts as missing.
    """
    logs = SparkLogs(path)
    try:
        has_manifest = read_manifest(path) is not None
        has_query = logs.query_id() is not None
    except (DlxError, ValueError, LookupError):
        return False
    last = logs.last_committed()
    return has_manifest and has_query and last is not None and logs.has_state()


def remove_half_written(place: Location, plan: RebuildPlan) -> None:
    """Remove the rows of a batch that never happened: its records are read again."""
    for name in plan.half_written:
        spec, below = TABLES[name], place / name
        schema = spec.schema.remove_metadata()
        files = ActiveFiles(load_table(below))
        pieces = [schema.empty_table()]
        paths = []
        for index in np.flatnonzero(files.greatest("batch_id") > plan.batch_id):
            paths.append(files.paths[index])
            with below.storage().open(files.paths[index]) as file:
                found = conformed(pq.ParquetFile(file).read(), schema)
            pieces.append(found.filter(pc.field("batch_id") <= plan.batch_id))
        replace_rows(below, spec, paths, pa.concat_tables(pieces))
