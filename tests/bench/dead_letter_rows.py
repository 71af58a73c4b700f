"""Measures the commands that ask dead letters, on tables with a million of them.

    ./dlx bench dead-letters [--letters 1000000] [--runs 3]

The tables are synthetic: every message enters a queue, is delivered, dies and enters a dead-letter
queue. Messages have unique ids, headers and bodies, since alike ones would be easy. Every command
is timed whole, as a process: elapsed seconds, and seconds of CPU, which other load on the machine
does not change; the best of several runs.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.batch_detail import BatchRow
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Coded, Column, Constant, Lists, build_table
from streaming.ledger.write.batch_row import totals
from streaming.ledger.write.data_file import DRIVER, DataFile, DataFileName, write_data_file
from streaming.ledger.write.ledger import Ledger
from streaming.storage.location import Location

QUERY = "bench"
BATCH = 50_000
CLOSE_EACH = 4
"""Batches; together they have nearly a million events, after which a job writes a snapshot."""

BODY_BYTES = 200
EVENTS_A_LETTER = 4
START_US = 1_600_000_000_000_000
QUEUES = [f"work-{number}" for number in range(10)]
REASONS = ["rejected", "expired", "maxlen", "delivery_limit"]
CAUSES = [
    "timeout after {} ms calling 10.0.{}.7:8080",
    "order {} of customer {} is unknown",
    "constraint violated in row {}: 0x{:x}",
    "no stock of item {} in warehouse {}",
]


class Synthetic:
    """The columns of one batch of letters."""

    def __init__(self, batch_id: int, rows: int) -> None:
        self.rows = rows
        first = batch_id * BATCH
        self.numbers = np.arange(first, first + rows)
        self.ids: dict[str, Column] = {
            "query_id": Constant(QUERY),
            "batch_id": Constant(batch_id),
            "vhost": Constant("/"),
            "lane": Constant(0),
        }
        chance = np.random.default_rng(batch_id)
        body = pa.array([chance.bytes(BODY_BYTES) for _ in range(rows)], pa.binary())
        self.shared: dict[str, Column] = {
            "headers": [self._headers(int(number)) for number in self.numbers],
            "origin.topic": Constant("dlx.publishes"),
            "origin.topic_number": Constant(1),
            "origin.partition": Constant(0),
            "origin.offset": self.numbers,
            "origin.timestamp": START_US + self.numbers * 1000,
            "properties.message_id": [f"order-{number}" for number in self.numbers],
            "properties.delivery_mode": Constant(2),
            "body": body,
            "body_bytes": np.full(rows, BODY_BYTES),
        }
        self.keys = Coded(self.numbers % 7, [f"order.eu.{number}" for number in range(7)])

    @staticmethod
    def _headers(number: int) -> str:
        cause = CAUSES[number % 4].format(number % 997, number % 251)
        return json.dumps({"x-exception": cause, "tenant": f"shop-{number % 50}", "n": number})

    def messages(self) -> pa.Table:
        """The rows of `messages`."""
        columns: dict[str, Column] = {
            **self.ids,
            **self.shared,
            "topic_number": Constant(1),
            "partition": Constant(0),
            "offset": self.numbers,
            "user": Constant("guest"),
            "exchange": Constant("orders"),
            "routing_key": self.keys,
        }
        return build_table(TABLES["messages"].schema, columns, self.rows)

    def events(self) -> pa.Table:
        """The rows of `events`: enqueued, delivered, died, enqueued again for each letter."""
        rows = self.rows * EVENTS_A_LETTER
        numbers = np.repeat(self.numbers, EVENTS_A_LETTER)
        step = np.tile(np.arange(EVENTS_A_LETTER), self.rows)
        first = numbers * EVENTS_A_LETTER
        parents = pa.array(np.where(step == EVENTS_A_LETTER - 1, first, -1))
        columns: dict[str, Column] = {
            **self.ids,
            "seq": first + step,
            "at": START_US + numbers * 1000,
            "message_id.topic_number": Constant(1),
            "message_id.partition": Constant(0),
            "message_id.offset": numbers,
            "copy_id": np.where(step == EVENTS_A_LETTER - 1, first + step, first),
            "parent_copy_id": pa.compute.if_else(pa.compute.less(parents, 0), None, parents),
            "queue": Coded(
                np.where(step == EVENTS_A_LETTER - 1, 10, numbers % 10).astype(np.int32),
                [*QUEUES, "dead"],
            ),
            "kind": Coded(step.astype(np.int32), ["enqueued", "delivered", "died", "enqueued"]),
            "position": first + step,
            "body_bytes": np.full(rows, BODY_BYTES),
            "exchange": Constant("orders"),
        }
        return build_table(TABLES["events"].schema, columns, rows)

    def dead_letters(self) -> pa.Table:
        """The rows of `dead_letters`."""
        queues = Coded(self.numbers % 10, QUEUES)
        reasons = Coded(self.numbers % 4, REASONS)
        keys = [[f"order.eu.{number}"] for number in range(7)]
        death: dict[str, Column] = {
            "count": Constant(1),
            "reason": reasons,
            "queue": queues,
            "time": START_US + self.numbers * 1000,
            "exchange": Constant("orders"),
            "routing_keys": Coded(self.numbers % 7, keys),
        }
        first = self.numbers * EVENTS_A_LETTER
        columns: dict[str, Column] = {
            **self.ids,
            **self.shared,
            "seq": first + 2,
            "at": START_US + self.numbers * 1000,
            "message_id.topic_number": Constant(1),
            "message_id.partition": Constant(0),
            "message_id.offset": self.numbers,
            "copy_id": first,
            "queue": queues,
            "reason": reasons,
            "count": Constant(1),
            "exchange": Constant("orders"),
            "routing_key": self.keys,
            "routing_keys": Coded(self.numbers % 7, keys),
            "dead_letter_exchange": Constant("dlx"),
            "dead_letter_routing_key": self.keys,
            "targets": Coded(np.zeros(self.rows, np.int32), [["dead"]]),
            "x_death": Lists(np.arange(self.rows + 1), death),
        }
        return build_table(TABLES["dead_letters"].schema, columns, self.rows)


def write_letters(root: Path, letters: int) -> None:
    """Write tables with a number of dead letters, snapshots and the contents of queues."""
    place = Location(str(root))
    ledger, writer = Ledger(place), SnapshotWriter(place, threads=None)
    for batch_id, first in enumerate(range(0, letters, BATCH)):
        rows = Synthetic(batch_id, min(BATCH, letters - first))
        files = [
            _file(place, batch_id, name, table)
            for name, table in (
                ("messages", rows.messages()),
                ("dead_letters", rows.dead_letters()),
                ("events", rows.events()),
            )
        ]
        now_ms = (START_US + (first + rows.rows) * 1000) // 1000
        ledger.commit(files, BatchRow(QUERY, batch_id, now_ms, totals(files)))
        if batch_id % CLOSE_EACH == CLOSE_EACH - 1:
            writer.write()
    ContentsUpdater(place, threads=None).update()
    ledger.close()


def _file(place: Location, batch_id: int, name: str, table: pa.Table) -> DataFile:
    file_name = DataFileName(QUERY, batch_id, name, DRIVER)
    file = write_data_file((place / name).storage(), TABLES[name], file_name, table)
    assert file is not None
    return file


def commands(root: Path, letters: int) -> list[tuple[str, ...]]:
    """The commands that are timed."""
    middle = f"1/0/{letters // 2}"
    where = ("--tables", str(root))
    return [
        ("--help",),
        ("dead-letters", "list", *where),
        ("dead-letters", "list", "--queue", "work-3", "--header", "tenant=shop-13", *where),
        ("dead-letters", "show", middle, *where),
        ("dead-letters", "show", f"order-{letters // 2}", *where),
        ("dead-letters", "groups", *where),
        ("dead-letters", "groups", "--by", "queue,cause", *where),
        ("dead-letters", "summary", *where),
        ("balance", *where),
        ("queues", "list", *where),
        ("queues", "list", "--as-of", str(letters // BATCH // 2), *where),
        ("dead-letters", "list", "--as-of", str(letters // BATCH // 2), *where),
    ]


def first_row_s(root: Path, form: str) -> float:
    """Seconds until an export to stdout gives its first bytes; then it is stopped."""
    arguments = [sys.executable, "-m", "streaming.cli", "dead-letters", "export", "-"]
    arguments += ["--format", form, "--tables", str(root)]
    started = time.perf_counter()
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        elapsed = time.perf_counter() - started
        process.terminate()
    return elapsed


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(root: Path, letters: int, runs: int) -> Iterator[dict[str, Any]]:
    """Yield the best time of each command."""
    for command in commands(root, letters):
        best = best_cpu = float("inf")
        for _ in range(runs):
            started, used = time.perf_counter(), _cpu_of_children()
            arguments = [sys.executable, "-m", "streaming.cli", *command]
            subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
            best = min(best, time.perf_counter() - started)
            best_cpu = min(best_cpu, _cpu_of_children() - used)
        shown = " ".join(part for part in command if part not in {"--tables", str(root)})
        found = {"command": shown, "letters": letters, "seconds": round(best, 2)}
        yield {**found, "cpu_seconds": round(best_cpu, 2)}
    for form in ("csv", "jsonl"):
        best = min(first_row_s(root, form) for _ in range(runs))
        shown = f"dead-letters export - --format {form}, the first row"
        yield {"command": shown, "letters": letters, "seconds": round(best, 2)}


def run(letters: int, runs: int, folder: Path | None = None) -> Iterator[dict[str, Any]]:
    """Write the tables, unless the folder has them, and measure the commands."""
    with tempfile.TemporaryDirectory() as temporary:
        root = folder or Path(temporary) / "tables"
        if not root.exists():
            write_letters(root, letters)
        yield from measure(root, letters, runs)
