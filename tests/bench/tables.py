"""Measures the commands that query the tables, and updates of `queue_contents`.

    python -m tests.bench.tables [--messages 240000] [--resident 1000000] [--update 50000]

A ledger is written from what the core does: every message dies once and is read from the dead
letters (`tests.bench.workload`). Commands are timed whole, as processes: elapsed seconds, and
seconds of CPU, which other load on the machine does not change; the best of several runs. Then
queues are filled, and updates of their contents are timed, beside a merge of the same changes by
deltalake (without the work of finding them out), and a rebuild.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from streaming.broker.commands import Command
from streaming.broker.events import Actor, Events
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.batch_detail import BatchRow
from streaming.ledger.read.body_reader import BodyReader
from streaming.ledger.schema.schemas import MESSAGES, TABLES
from streaming.ledger.write.arrow_columns import Column, Constant, build_table
from streaming.ledger.write.batch_row import totals
from streaming.ledger.write.data_file import (
    DataFile,
    DataFileName,
    source_of_partition,
    source_of_shard,
    write_data_file,
)
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.rows.dead_letters import dead_letter_tables
from streaming.pipeline.rows.events import event_table
from streaming.pipeline.rows.messages import body_file_number
from streaming.pipeline.rows.stored import STORED
from streaming.queries.as_of.contents import collect_moves, progress
from streaming.queries.duckdb_tables import Tables
from streaming.storage.location import Location
from tests.bench import workload
from tests.bench.core import Broker
from tests.bench.output import say
from tests.bench.workload import Depths

QUERY = "bench"
BATCH = 20_000
COMMANDS = (
    ("balance",),
    ("dead-letters", "list"),
    ("dead-letters", "list", "--queue", "w1", "--where", "routing_key LIKE '%eu%'"),
    ("dead-letters", "show", "1/0/7"),
    ("queues", "list"),
    ("queues", "peek", "w1"),
    ("tables", "info"),
)


class Writer:
    """A ledger that a broker's batches are written to."""

    def __init__(self, root: Path) -> None:
        self.place = Location(str(root))
        self.broker = Broker()
        self.events = 0
        self._batch_id = -1
        self._ledger = Ledger(self.place)

    def command(self, *orders: Command, actor: Actor = workload.OPERATOR) -> None:
        """A batch of commands."""
        shard = self.broker.shard()
        for order in orders:
            shard.command(self.broker.log.now_ms, order, actor)
        self._batch_id += 1
        self._commit([], shard.finish().events)

    def records(self, records: list[workload.Record]) -> None:
        """A batch of records."""
        self._batch_id += 1
        messages = [message for _at_ms, message, _publication, _command in records if message]
        for row, message in enumerate(messages):
            message.body_file = body_file_number(
                self._batch_id, message.offset - messages[0].offset - row
            )
            message.body_row = row
        self._commit(records, self.broker.fold(records))

    def _commit(self, records: list[workload.Record], events: Events) -> None:
        files = [*self._messages(records), *self._rows(events)]
        self.events += len(events)
        row = BatchRow(QUERY, self._batch_id, self.broker.log.now_ms, totals(files))
        self._ledger.commit(files, row)

    def _messages(self, records: list[workload.Record]) -> Iterator[DataFile]:
        sent = [(message, publication) for _, message, publication, _ in records if message]
        rows = len(sent)
        if not rows:
            return
        offsets = np.array([message.offset for message, _publication in sent])
        columns: dict[str, Column] = {
            "query_id": Constant(QUERY),
            "batch_id": Constant(self._batch_id),
            "vhost": Constant("/"),
            "lane": Constant(0),
            "topic_number": Constant(1),
            "partition": Constant(0),
            "offset": offsets,
            "origin.topic": Constant("dlx.publishes"),
            "origin.offset": offsets,
            "exchange": [one.exchange if one else None for _message, one in sent],
            "routing_key": [one.routing_key if one else None for _message, one in sent],
            "body_bytes": np.full(rows, workload.BODY_BYTES),
            "body": [os.urandom(workload.BODY_BYTES) for _ in range(rows)],
        }
        yield self._file("messages", int(offsets[0]), build_table(MESSAGES, columns, rows))

    def _rows(self, events: Events) -> Iterator[DataFile]:
        yield self._file(
            "events", events.first_seq, event_table(events, QUERY, self._batch_id, "/", 0)
        )
        if events.death_rows:
            with closing(BodyReader(self.place, STORED)) as bodies:
                where = (QUERY, self._batch_id, "/", 0)
                for first, dead in dead_letter_tables(events, *where, bodies, 16_384):
                    yield self._file("dead_letters", first, dead)

    def _file(self, name: str, first: int, table: pa.Table | None) -> DataFile:
        storage = (self.place / name).storage()
        source = source_of_partition(1, 0) if name == "messages" else source_of_shard(1)
        name_of = DataFileName(QUERY, self._batch_id, name, source, first)
        assert table is not None
        file = write_data_file(storage, TABLES[name], name_of, table)
        assert file is not None
        return file


def time_commands(root: Path, runs: int) -> None:
    for command in COMMANDS:
        best = (float("inf"), float("inf"))
        for _ in range(runs):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            started = time.perf_counter()
            arguments = [sys.executable, "-m", "streaming.cli", *command, "--tables", str(root)]
            subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
            elapsed = time.perf_counter() - started
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            best = (min(best[0], elapsed), min(best[1], cpu))
        say(f"  {' '.join(command):72} {best[0]:6.2f} s {best[1]:6.2f} s CPU")


def timed(what: str, work: Callable[[], object]) -> None:
    started, cpu = time.perf_counter(), time.process_time()
    work()
    elapsed, used = time.perf_counter() - started, time.process_time() - cpu
    say(f"  {what:72} {elapsed:6.2f} s {used:6.2f} s CPU")


def merge_by_deltalake(root: Path, copy: Path) -> Callable[[], object]:
    """The changes since the copy was made, ready to be merged into it."""
    tables = Tables(str(copy.parent))
    collect_moves(tables, progress(tables))
    gone = tables.connection.sql("SELECT vhost, lane, copy_id, true AS left FROM gone")
    new = Tables(str(root))
    new.view("queue_contents")
    new.connection.register("touched", _touched(tables))
    rows = new.connection.sql(
        "SELECT *, false AS left FROM queue_contents SEMI JOIN touched USING (vhost, lane, copy_id)"
    )
    source = pa.concat_tables(
        [rows.to_arrow_table(), gone.to_arrow_table()], promote_options="default"
    )
    columns = {name: f"s.{name}" for name in TABLES["queue_contents"].schema.names}
    return lambda: (
        DeltaTable(str(copy))
        .merge(
            source,
            "t.vhost = s.vhost AND t.lane = s.lane AND t.copy_id = s.copy_id",
            source_alias="s",
            target_alias="t",
        )
        .when_matched_delete("s.left")
        .when_matched_update(columns)
        .when_not_matched_insert(columns, predicate="NOT s.left")
        .execute()
    )


def _touched(tables: Tables) -> pa.Table:
    return tables.connection.sql(
        "SELECT vhost, lane, copy_id FROM born UNION SELECT vhost, lane, copy_id FROM changed"
    ).to_arrow_table()


def measure_queries(root: Path, messages: int, runs: int) -> None:
    writer = Writer(root)
    writer.command(*workload.declarations(Depths()))
    writer.command(*workload.consumers(Depths()), actor=workload.WORKER)
    rounds = BATCH // workload.ROUND
    for _ in range(messages // (rounds * workload.ROUND)):
        writer.records(writer.broker.log.batch(rounds))
    ContentsUpdater(writer.place).update()
    say(f"queries on {writer.events:,} events:")
    time_commands(root, runs)


def measure_contents(root: Path, resident: int, update: int) -> None:
    writer = Writer(root)
    writer.command(*workload.declarations(Depths.holding(resident)))
    for size in [BATCH] * (resident // BATCH):
        writer.records(list(writer.broker.log.publishes(size)))
    updater = ContentsUpdater(writer.place)
    say(f"queue_contents with {resident:,} rows:")
    timed("the first update", updater.update)
    copy = root.parent / "merged" / "queue_contents"
    for round_number in range(3):
        writer.records(list(writer.broker.log.publishes(update)))
        shutil.copytree(root, root.parent / f"copy {round_number}")
        copy = root.parent / f"copy {round_number}" / "queue_contents"
        timed(f"an update after {update:,} publishes", updater.update)
        timed("a merge of the same by deltalake", merge_by_deltalake(root, copy))
    timed("a rebuild", updater.rebuild)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=240_000)
    parser.add_argument("--resident", type=int, default=1_000_000)
    parser.add_argument("--update", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.messages:
            measure_queries(Path(folder) / "queries" / "tables", options.messages, options.runs)
        if options.resident:
            measure_contents(Path(folder) / "contents" / "tables", options.resident, options.update)


if __name__ == "__main__":
    main()
