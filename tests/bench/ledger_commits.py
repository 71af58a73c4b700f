"""How long a commit takes after 100 and after 100,000 earlier batches, upkeep running beside it.

    python -m tests.bench.ledger_commits [--batches 100000] [--commits 600] [--pause-ms 50]

Two ledgers, one with a short and one with a long history, take turns with every batch, so that what
else the machine does falls on both alike; what counts is the ratio. The long history is written as
the log entries that so many batches and the joining of their files leave.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from streaming.ledger.files import DataFile
from streaming.ledger.ledger import Ledger
from streaming.ledger.maintenance import Maintenance, Schedule
from streaming.ledger.schemas import LEDGER
from streaming.ledger.storage import Place
from streaming.ledger.tables import load_table
from tests.unit.ledger.builders import (
    QUERY,
    a_batch_row,
    a_place,
    dead_letters,
    events,
    local,
    messages,
    publish,
)

SHORT = 100
FILES = 3  # a batch and table
BATCHES_JOINED = 600  # a minute at ten batches a second
BATCH_MS = 100
CHECKPOINT_BATCHES = 20
SPARSE_CHECKPOINTS = 2_000  # long gone
JOINED_BYTES = 128 * 1024 * 1024


def a_history(root: Place, name: str, batches: int) -> None:
    """The log of a table after so many batches, the files of every minute joined."""
    log = local(root, name).root / "_delta_log"
    version = 1
    for batch in range(batches):
        age_ms = (batches - 1 - batch) * BATCH_MS
        entries = [{"txn": {"appId": QUERY, "version": batch}}]
        entries += [{"add": an_add(batch, batch, f"{batch}-{n}", 1000)} for n in range(FILES)]
        write_entry(log, version, entries, age_ms)
        version += 1
        if (batches - 1 - batch) % BATCHES_JOINED == 0:
            first = max(0, batch + 1 - BATCHES_JOINED)
            gone = [
                {"remove": a_removal(f"{old}-{n}", age_ms)}
                for old in range(first, batch + 1)
                for n in range(FILES)
            ]
            entries = [{"add": an_add(first, batch, f"joined-{version}", JOINED_BYTES)}, *gone]
            write_entry(log, version, entries, age_ms)
            version += 1
        recent = batches - batch < 2 * BATCHES_JOINED  # what the log still holds
        if (batch + 1) % (CHECKPOINT_BATCHES if recent else SPARSE_CHECKPOINTS) == 0:
            load_table(root.below(name)).create_checkpoint()
            make_older(log / f"{version - 1:020}.checkpoint.parquet", age_ms)


def write_entry(log: Path, version: int, entries: Sequence[object], age_ms: int) -> None:
    path = log / f"{version:020}.json"
    path.write_text("\n".join(map(json.dumps, [{"commitInfo": {}}, *entries])))
    make_older(path, age_ms)


def make_older(path: Path, age_ms: int) -> None:
    at_s = time.time() - age_ms / 1000
    os.utime(path, (at_s, at_s))


def an_add(first: int, last: int, path: str, size: int) -> dict[str, object]:
    bounds = {"batch_id": first, "vhost": "/", "lane": 0}
    statistics_ = {
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
        "stats": json.dumps(statistics_),
    }


def a_removal(path: str, age_ms: int) -> dict[str, object]:
    return {
        "path": f"{path}.parquet",
        "deletionTimestamp": time.time_ns() // 1_000_000 - age_ms,
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": 1000,
    }


def a_ledger(folder: Path, batches: int) -> tuple[Place, Ledger, float]:
    """A ledger with a history; its first opening, in seconds."""
    root = a_place(folder)
    with Ledger(root):
        pass
    for name in LEDGER:
        if name != "quarantine":
            a_history(root, name, batches)
    started = time.perf_counter()
    return root, Ledger(root), time.perf_counter() - started


def files_of(root: Place, batch: int) -> list[DataFile]:
    seqs = range(10 * batch, 10 * batch + 10)
    tables = {
        "messages": messages(seqs, batch_id=batch),
        "dead_letters": dead_letters(seqs, batch_id=batch),
        "events": events(seqs, batch_id=batch),
    }
    return [
        publish(root, name, table, partition=task)
        for name, table in tables.items()
        for task in range(2)
    ]


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def milliseconds(seconds: list[float]) -> tuple[float, float, float]:
    """p50, p99, mean."""
    ordered = sorted(seconds)
    return (
        1000 * statistics.median(ordered),
        1000 * ordered[int(len(ordered) * 0.99)],
        1000 * statistics.fmean(ordered),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=600)
    parser.add_argument("--pause-ms", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        histories = {"short": SHORT, "long": given.batches}
        ledgers = {}
        for label, batches in histories.items():
            ledgers[label] = a_ledger(Path(folder) / label, batches)
            say(f"{label}: {batches} batches, first opening {ledgers[label][2]:.2f} s")
        upkeep = [
            Maintenance(root, Schedule(compaction_ms=10_000), ledger.writers)
            for root, ledger, _ in ledgers.values()
        ]
        for maintenance in upkeep:
            maintenance.step(time.time_ns() // 1_000_000)
            maintenance.start()
        seconds: dict[str, list[float]] = {label: [] for label in histories}
        for number in range(given.commits):
            for label, batches in histories.items():
                root, ledger, _ = ledgers[label]
                batch = batches + number
                files = files_of(root, batch)
                started = time.perf_counter()
                ledger.commit(files, a_batch_row(batch))
                seconds[label].append(time.perf_counter() - started)
            time.sleep(given.pause_ms / 1000)
        for maintenance in upkeep:
            maintenance.stop()
            assert maintenance.last_error is None
        figures = {label: milliseconds(times) for label, times in seconds.items()}
        for label, (p50, p99, mean) in figures.items():
            root, ledger, _ = ledgers[label]
            log = len(list((local(root, "events").root / "_delta_log").iterdir()))
            started = time.perf_counter()
            row = ledger.last_batch(QUERY)
            last_ms = 1000 * (time.perf_counter() - started)
            ledger.close()
            started = time.perf_counter()
            with Ledger(root) as again:
                opened_ms = 1000 * (time.perf_counter() - started)
                started = time.perf_counter()
                assert again.last_batch(QUERY) == row
                again_ms = 1000 * (time.perf_counter() - started)
            say(
                f"{label}: commit of three tables p50 {p50:.1f} p99 {p99:.1f} mean {mean:.1f} ms; "
                f"last batch row {last_ms:.1f} ms, after reopening ({opened_ms:.0f} ms) "
                f"{again_ms:.1f} ms; {log} files in the log of events"
            )
        ratios = [long / short for short, long in zip(*figures.values(), strict=True)]
        say("ratio long/short: p50 {:.2f} p99 {:.2f} mean {:.2f}".format(*ratios))


if __name__ == "__main__":
    main()
