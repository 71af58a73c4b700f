"""As-of and balance on a long synthetic history, with snapshots.

    python -m tests.bench.history [--events 10000000] [--snapshot-every 1000000] [--folder DIR]

Each message is enqueued, delivered and acked in its batch; every hundredth is never delivered. It
prints the seconds of each command in a process of its own, at an instant in the middle and now.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from streaming.broker import commands
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.batch_detail import BatchRow
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Coded, Constant, build_table
from streaming.ledger.write.batch_row import totals
from streaming.ledger.write.data_file import DRIVER, DataFile, DataFileName, write_data_file
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.rows.events import event_table
from streaming.storage.location import Location
from tests.bench.output import say
from tests.builders import START_MS, Broker
from topology.declarations import Queue

QUERY_ID = "6f0e9bd2-0000-4000-8000-000000000002"
MESSAGES = 100_000
"""Messages of a batch."""

READY_EACH = 100
KINDS = ["enqueued", "delivered", "acked"]
MICROS = 1000


class History:
    """Writes batches that look like those of a job with one shard and ten queues."""

    def __init__(self, root: Path) -> None:
        self.place = Location(str(root))
        self.ledger = Ledger(self.place)
        self.batch_id = 0
        self.seq = 1
        self.offset = 0
        self.resident = 0
        self.queues = [f"work-{number}" for number in range(10)]

    def declare(self) -> None:
        """The first batch: the queues."""
        broker = Broker()
        for name in self.queues:
            broker.do(commands.DeclareQueue(queue=Queue(name)))
        events = broker.finish().events
        table = event_table(events, QUERY_ID, self.batch_id, "/", 0)
        self._commit([self._file("events", table)])
        self.seq = events.next_seq

    def batch(self) -> int:
        """Write a batch; returns its number of events."""
        rows = MESSAGES
        ready = np.arange(rows) % READY_EACH == 0
        births = np.arange(rows)
        settled = np.flatnonzero(~ready)
        message = np.concatenate([births, np.repeat(settled, 2)])
        kind = np.concatenate([np.zeros(rows, int), np.tile([1, 2], len(settled))])
        count = len(message)
        seq = np.arange(self.seq, self.seq + count)
        offset = self.offset + message
        columns: dict[str, Any] = {
            "query_id": Constant(QUERY_ID),
            "batch_id": Constant(self.batch_id),
            "vhost": Constant("/"),
            "lane": np.zeros(count, np.int32),
            "seq": seq,
            "at": np.full(count, (START_MS + self.batch_id * 1000) * MICROS),
            "kind": Coded(kind.astype(np.int32), KINDS),
            "message_id.topic_number": np.ones(count, np.int32),
            "message_id.partition": np.zeros(count, np.int32),
            "message_id.offset": offset,
            "copy_id": self.seq + message,
            "queue": Coded((message % 10).astype(np.int32), self.queues),
            "position": offset,
            "body_bytes": np.full(count, 200),
            "exchange": Constant(""),
            "routing_key": Constant("work"),
        }
        events = self._file("events", build_table(TABLES["events"].schema, columns, count))
        columns = {
            "query_id": Constant(QUERY_ID),
            "batch_id": Constant(self.batch_id),
            "vhost": Constant("/"),
            "lane": np.zeros(rows, np.int32),
            "topic_number": np.ones(rows, np.int32),
            "partition": np.zeros(rows, np.int32),
            "offset": self.offset + births,
            "exchange": Constant(""),
            "routing_key": Constant("work"),
            "body_bytes": np.full(rows, 200),
        }
        self.resident += int(ready.sum())
        self._commit(
            [self._file("messages", build_table(TABLES["messages"].schema, columns, rows)), events]
        )
        self.seq += count
        self.offset += rows
        return count

    def _file(self, name: str, table: pa.Table) -> DataFile:
        file_name = DataFileName(QUERY_ID, self.batch_id, name, DRIVER)
        storage = (self.place / name).storage()
        file = write_data_file(storage, TABLES[name], file_name, table)
        assert file is not None
        return file

    def _commit(self, files: list[DataFile]) -> None:
        resident = {1: (self.resident, self.resident * 200)}
        detail = msgspec.structs.replace(totals(files), resident=resident)
        now_ms = START_MS + self.batch_id * 1000
        self.ledger.commit(files, BatchRow(QUERY_ID, self.batch_id, now_ms, detail))
        self.batch_id += 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--snapshot-every", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = options.folder or Path(scratch) / "tables"
        history = History(root)
        history.declare()
        writer, written, since = SnapshotWriter(history.place, threads=None), 0, 0
        while written < options.events:
            count = history.batch()
            written, since = written + count, since + count
            if since >= options.snapshot_every:
                since = 0
                say(f"snapshot: {writer.write()}")
        ContentsUpdater(history.place, threads=None).update()
        history.ledger.close()
        middle = str(history.batch_id // 2)
        say(f"{written} events, {history.resident} messages in queues")
        for command in (
            ["queues", "list", "--as-of", middle],
            ["queues", "peek", "work-1", "--as-of", middle],
            ["exchanges", "list", "--as-of", middle],
            ["balance", "--as-of", middle],
            ["queues", "list"],
            ["balance"],
        ):
            timed(command, root)


def timed(command: list[str], root: Path) -> None:
    """Print the seconds of a command in a process of its own."""
    arguments = [sys.executable, "-m", "streaming.cli", *command, "--tables", str(root), "--json"]
    started = time.perf_counter()
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    say(f"  {' '.join(command):48} {seconds:6.2f} s  exit {done.returncode} {done.stderr.strip()}")


if __name__ == "__main__":
    main()
