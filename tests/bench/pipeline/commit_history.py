"""Measures commits after many earlier batches against commits after few, with upkeep running.

Two ledgers, one with a short and one with a long history, take turns with every batch, so that
other load affects both equally. The histories are synthetic: the log entries that this many batches
and the compaction of their files leave.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.maintenance import Maintenance, Schedule
from streaming.ledger.write.arrow_columns import Constant, build_table
from streaming.ledger.write.data_file import (
    DataFile,
    DataFileName,
    source_of_shard,
    write_data_file,
)
from streaming.ledger.write.ledger import Ledger
from streaming.storage.location import Location

QUERY: Final = "bench-query"
FILES: Final = 3
"""Per batch and table, in the history."""

BATCHES_COMPACTED: Final = 600  # a minute at ten batches per second
BATCH_MS: Final = 100
CHECKPOINT_BATCHES: Final = 20
SPARSE_CHECKPOINTS: Final = 2_000  # where the log is already cleaned up
COMPACTED_BYTES: Final = 128 * 1024 * 1024
PAUSE_S: Final = 0.05
WARM_UP: Final = 10
ROWS: Final = 10
START_MS: Final = 1_700_000_000_000
_WRITTEN: Final = ("messages", "dead_letters", "events")


def measure(folder: Path, few: int, many: int, count: int) -> dict[int, list[float]]:
    """Time `count` commits of three tables after `few` and after `many` batches, in turns.

    Args:
        folder: where to create the two ledgers.

    Returns:
        Number of earlier batches -> seconds of each commit.
    """
    with ExitStack() as stack:
        ledgers: dict[int, Ledger] = {}
        for batches in (few, many):
            root = _ledger(folder / str(batches), batches)
            ledgers[batches] = stack.enter_context(Ledger(root))
            upkeep = Maintenance(root, Schedule(compaction_ms=10_000), ledgers[batches].writers)
            upkeep.step(time.time_ns() // 1_000_000)
            upkeep.start()
            stack.callback(upkeep.stop)
        seconds: dict[int, list[float]] = {batches: [] for batches in ledgers}
        for number in range(-WARM_UP, count):
            for batches, ledger in ledgers.items():
                batch_id = batches + WARM_UP + number
                files = batch_files(ledger.root, batch_id)
                row = BatchRow(QUERY, batch_id, START_MS + batch_id, BatchDetail())
                started = time.perf_counter()
                ledger.commit(files, row)
                if number >= 0:
                    seconds[batches].append(time.perf_counter() - started)
            time.sleep(PAUSE_S)
    return seconds


def _ledger(folder: Path, batches: int) -> Location:
    """Create a ledger with a history."""
    folder.mkdir(parents=True)
    root = Location(str(folder))
    with Ledger(root):
        pass
    for name in _WRITTEN:
        _write_history(root, folder / name / "_delta_log", name, batches)
    return root


def _write_history(root: Location, log: Path, name: str, batches: int) -> None:
    """Write the log of a table after many batches, with the files of every minute compacted."""
    version = 1
    for batch in range(batches):
        age_ms = (batches - 1 - batch) * BATCH_MS
        entries: list[object] = [{"txn": {"appId": QUERY, "version": batch}}]
        entries += [{"add": _add(batch, batch, f"{batch}-{n}", 1000)} for n in range(FILES)]
        _write_entry(log, version, entries, age_ms)
        version += 1
        if (batches - 1 - batch) % BATCHES_COMPACTED == 0:
            first = max(0, batch + 1 - BATCHES_COMPACTED)
            removed: list[object] = [
                {"remove": _removal(f"{old}-{n}", age_ms)}
                for old in range(first, batch + 1)
                for n in range(FILES)
            ]
            compacted = _add(first, batch, f"compacted-{version}", COMPACTED_BYTES)
            _write_entry(log, version, [{"add": compacted}, *removed], age_ms)
            version += 1
        recent = batches - batch < 2 * BATCHES_COMPACTED  # still in the log
        if (batch + 1) % (CHECKPOINT_BATCHES if recent else SPARSE_CHECKPOINTS) == 0:
            load_table(root / name).create_checkpoint()
            _set_age(log / f"{version - 1:020}.checkpoint.parquet", age_ms)


def _write_entry(log: Path, version: int, entries: Sequence[object], age_ms: int) -> None:
    path = log / f"{version:020}.json"
    path.write_text("\n".join(map(json.dumps, [{"commitInfo": {}}, *entries])))
    _set_age(path, age_ms)


def _set_age(path: Path, age_ms: int) -> None:
    at_s = time.time() - age_ms / 1000
    os.utime(path, (at_s, at_s))


def _add(first: int, last: int, path: str, size: int) -> dict[str, object]:
    bounds = {"batch_id": first, "vhost": "/", "lane": 0}
    statistics = {
        "numRecords": 100,
        "minValues": bounds,
        "maxValues": {**bounds, "batch_id": last},
        "nullCount": dict.fromkeys(bounds, 0),
    }
    return {
        "path": f"{path}.parquet",
        "partitionValues": {},
        "size": size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps(statistics),
    }


def _removal(path: str, age_ms: int) -> dict[str, object]:
    return {
        "path": f"{path}.parquet",
        "deletionTimestamp": time.time_ns() // 1_000_000 - age_ms,
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": 1000,
    }


def batch_files(root: Location, batch_id: int, tasks: int = 2) -> list[DataFile]:
    """Write the files of a batch, as some tasks do."""
    found = []
    for name in _WRITTEN:
        for task in range(tasks):
            file = write_data_file(
                (root / name).storage(),
                TABLES[name],
                DataFileName(QUERY, batch_id, name, source_of_shard(task)),
                _rows(TABLES[name].schema, batch_id),
            )
            assert file is not None, "there are rows"
            found.append(file)
    return found


def _rows(schema: pa.Schema, batch_id: int) -> pa.Table:
    """Return rows with a value in each required column."""
    values: dict[str, Any] = {}
    for field in schema:
        if field.nullable:
            continue
        kind = field.type
        if pa.types.is_timestamp(kind):
            values[field.name] = pa.array([START_MS * 1000] * ROWS, pa.int64()).cast(kind)
        elif pa.types.is_boolean(kind):
            values[field.name] = [False] * ROWS
        elif pa.types.is_string(kind):
            values[field.name] = Constant("/")
        elif pa.types.is_integer(kind):
            values[field.name] = [batch_id] * ROWS
        elif pa.types.is_binary(kind):
            values[field.name] = [b""] * ROWS
    values["query_id"] = Constant(QUERY)
    return build_table(schema, values, ROWS)
