"""Tasks decide nothing: however Spark gives records and shards to tasks, the same is written (D18).

Spark may run a batch again with its tasks in another order, merge them, run one on another executor
or twice. It reads one Kafka partition with one task, so none is split (`query.read_source`).
"""

import copy
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from streaming.broker.config import ShardConfig
from streaming.broker.message import NO_FILE, Message
from streaming.ledger.batch_detail import BatchRow
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.write.batch_row import totals, write_batch_row
from streaming.ledger.write.data_file import (
    DataFileName,
    source_of_partition,
    source_of_shard,
)
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline import fold, task
from streaming.pipeline.intake import stage
from streaming.pipeline.reports import Reports, read_reports
from streaming.pipeline.rows.bounds import MAX_FILE_OFFSETS
from streaming.pipeline.rows.messages import BodyFile, body_file, body_file_number, body_places
from streaming.pipeline.shard_block import FILES_KEY, unpack
from streaming.pipeline.task import NOW_MS, OutboundTask, TaskSettings, TopicTask
from streaming.storage.location import Location
from tests.builders import START_MS
from tests.property.pipeline.records import HEADER, headers_of
from tests.stages import MapState

QUERY = "tasks"
TOPICS = {"publishes": 1, "commands": 2}
BATCHES = count()
DECLARE = [
    b'{"op": "declare_queue", "queue": {"name": "dead"}}',
    b'{"op": "declare_queue", "queue": {"name": "work", "arguments": {"x-max-length": 3, '
    b'"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}}}',
]


class Record(NamedTuple):
    """A record: its topic, partition and offset, its instant, and what `headers_of` reads."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    row: dict[str, Any]


DECLARES = [
    Record("commands", 0, number, START_MS - 1, {"value": value, "dlx-op": b"declare_queue"})
    for number, value in enumerate(DECLARE)
]


def publish(number: int) -> dict[str, Any]:
    return {"value": b"body %d" % number, "dlx-routing-key": b"work", "dlx-properties": b"{}"}


KINDS: tuple[dict[str, Any] | None, ...] = (
    None,  # a publish
    None,
    {"value": b"x" * 40, "dlx-routing-key": b"nowhere", "dlx-flags": b"mandatory"},
    {"value": None},
    {"value": b"body", "dlx-flags": b"unknown"},
    {"value": b"{", "dlx-op": b"get"},
    {"value": b'{"channel": "c", "queue": "work", "auto_ack": true}', "dlx-op": b"get"},
    {"value": b'{"queue": "dead"}', "dlx-op": b"purge"},
)

logs = st.dictionaries(
    st.tuples(st.sampled_from(sorted(TOPICS)), st.integers(0, 7)),
    st.lists(st.sampled_from(range(len(KINDS))), min_size=1, max_size=9),
    min_size=1,
    max_size=8,
)


def records_of(log: dict[tuple[str, int], list[int]]) -> list[list[Record]]:
    """The records of each partition; offsets have gaps, as transactions leave them."""
    return [
        [
            Record(
                topic,
                partition,
                100 + 3 * place // 2,
                START_MS + 10 * place,
                KINDS[kind] or publish(place),
            )
            for place, kind in enumerate(kinds)
        ]
        for (topic, partition), kinds in log.items()
    ]


def arrow(records: list[Record]) -> pa.RecordBatch:
    headers = [headers_of(one.row) for one in records]
    columns = {
        "topic": pa.array([one.topic for one in records], pa.string()),
        "partition": pa.array([one.partition for one in records], pa.int32()),
        "offset": pa.array([one.offset for one in records], pa.int64()),
        "at_ms": pa.array([one.at_ms for one in records], pa.int64()),
        "key": pa.array([b"%d" % one.partition for one in records], pa.binary()),
        "value": pa.array([one.row["value"] for one in records], pa.binary()),
        "headers": pa.array(
            [one and [{"key": key, "value": value} for key, value in one] for one in headers],
            pa.list_(HEADER),
        ),
    }
    return pa.record_batch(columns)


class Cluster:
    """Runs the tasks of a batch as Spark may."""

    def __init__(self, root: Path, lanes: int) -> None:
        self.root = root
        self.settings = TaskSettings(
            tables=Location(str(root)),
            topics={name: TopicTask(number, "guest") for name, number in TOPICS.items()},
            vhosts={"/": tuple(range(1, lanes + 1))},
            shards={
                lane + 1: ShardConfig(lane=lane, lanes=lanes, clock="event")
                for lane in range(lanes)
            },
            outbound=OutboundTask({}),
            max_body_bytes=1_000,
            max_header_bytes=16_384,
        )
        self.batch_id = next(BATCHES)

    @contextmanager
    def as_task(self, number: int) -> Iterator[None]:
        """Be the task that Spark gives this number."""
        properties = {
            "sql.streaming.queryId": QUERY,
            "streaming.sql.batchId": str(self.batch_id),
            NOW_MS: str(START_MS),
        }
        context = SimpleNamespace(
            getLocalProperty=properties.__getitem__, partitionId=lambda: number
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(task, "TaskContext", SimpleNamespace(get=lambda: context))
            yield

    def intake(self, tasks: Iterable[list[pa.RecordBatch]]) -> list[Any]:
        """Run the first stage with these tasks, in this order; its rows."""
        rows: list[Any] = []
        for number, batches in enumerate(tasks):
            with self.as_task(number):
                for out in stage.run_intake(self.settings, iter(batches)):
                    rows += [SimpleNamespace(**row) for row in out.to_pylist()]
        return rows

    def fold(self, rows: list[Any], states: dict[int, MapState], chances: random.Random) -> Reports:
        """Run the second stage on the rows of the first, with shards in any order."""
        keys = sorted({row.shard for row in rows})
        chances.shuffle(keys)
        done: list[Any] = []
        for number, key in enumerate(keys):
            broker = fold.BrokerProcessor(self.settings)
            broker._state = states.setdefault(key, MapState())  # type: ignore[assignment]  # noqa: SLF001
            blobs = [{"blob": row.blob} for row in rows if row.shard == key]
            chances.shuffle(blobs)
            with self.as_task(number):
                done += broker.handleInputRows((key,), iter(blobs), None)  # type: ignore[arg-type]
        return read_reports(done)

    def written(self) -> dict[str, bytes]:
        """The content of every data file of the batch by name."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob(f"{QUERY}.{self.batch_id:012}.*.parquet")
        }


def distributed(parts: list[list[Record]], chances: random.Random) -> list[list[pa.RecordBatch]]:
    """Give partitions to tasks in any order, some of them together, in batches of any size.

    Spark passes a partition's records in order; those of merged tasks follow each other.
    """
    order = chances.sample(parts, len(parts))
    tasks: list[list[Record]] = []
    for part in order:
        if tasks and chances.random() < 0.3:
            tasks[-1] += part
        else:
            tasks.append(list(part))
    found = []
    for rows in tasks:
        size = chances.randint(1, len(rows))
        found.append([arrow(rows[start : start + size]) for start in range(0, len(rows), size)])
    return found


def understood(rows: list[Any]) -> dict[int, list[dict[str, Any]]]:
    """What each shard is given, with the references of bodies."""
    found = {}
    for key in {row.shard for row in rows} - {FILES_KEY}:
        records = unpack([row.blob for row in rows if row.shard == key])
        columns = {name: _values(one) for name, one in records.columns.items()}
        each = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for row in each:
            row["actor"] = records.actors[row["actor"]]
            code = row["publication"]
            row["publication"] = (
                None if code < 0 else msgspec.to_builtins(records.publications[code])
            )
        found[key] = each
    return found


def _values(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()
    return values


def reported(reports: Reports) -> dict[str, Any]:
    """What the tasks report of a batch, apart from how long it took."""
    shards = [msgspec.to_builtins(report) for report in reports.shards]
    for shard in shards:
        shard.pop("seconds")
    return {
        "files": reports.files,
        "shards": shards,
        "faults": reports.faults(),
        "commands": reports.commands(),
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables")
    Ledger(Location(str(path))).close()
    return path


@contextmanager
def small_files() -> Iterator[None]:
    """Let a partition of few records have several files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streaming.pipeline.rows.bounds.MAX_FILE_BYTES", 300)
        patch.setattr("streaming.pipeline.rows.bounds.MAX_FILE_OFFSETS", 8)
        patch.setattr("streaming.pipeline.rows.messages._GAP_BITS", 3)
        patch.setattr("streaming.pipeline.rows.messages.MAX_FILE_OFFSETS", 8)
        yield


TWO_PARTITIONS = {("publishes", 0): [0, 4, 0, 5], ("publishes", 1): [0, 0, 0, 3, 2, 0, 0]}


@example(log=TWO_PARTITIONS, lanes=2, chances=random.Random(1))
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    log=logs,
    lanes=st.sampled_from([1, 2, 4]),
    chances=st.randoms(use_true_random=False),
)
def test_the_same_is_written_whatever_tasks_have_the_records_and_shards(root, log, lanes, chances):
    cluster = Cluster(root, lanes)
    states: dict[int, MapState] = {}
    cluster.fold(cluster.intake([[arrow(DECLARES)]]), states, chances)
    cluster.batch_id = next(BATCHES)
    parts = records_of(log)
    outcomes = []
    for _attempt in range(3):
        after = copy.deepcopy(states)
        with small_files():
            rows = cluster.intake(distributed(parts, chances))
            cluster.intake(chances.sample(distributed(parts, chances), 1))  # this task runs twice
            reports = cluster.fold(rows, after, chances)
        values = {key: state.values for key, state in after.items()}
        outcomes.append((cluster.written(), understood(rows), reported(reports), values))

    assert outcomes[1] == outcomes[0]
    assert outcomes[2] == outcomes[0]
    names = {DataFileName.parse(Path(name).name) for name in outcomes[0][0]}
    sources = {name.source for name in names if name is not None}
    shards = {source_of_shard(lane + 1) for lane in range(lanes)}
    assert sources <= shards | {source_of_partition(TOPICS[topic], one) for topic, one in log}


@given(
    numbers=st.lists(
        st.tuples(st.integers(0, 1 << 34), st.integers(0, 1 << 28), st.integers(0, 1 << 20)),
        max_size=20,
    )
)
def test_a_reference_gives_the_file_of_its_message(numbers):
    messages = [
        Message(1, row % 3, first + gap + row, int(body_file_number(batch, gap)), row, 0)
        for batch, (first, gap, row) in enumerate(
            (first, gap % MAX_FILE_OFFSETS, row) for first, gap, row in numbers
        )
    ]
    unknown = [Message(1, 0, 7, number, 0, 0) for number in (NO_FILE, 0, 5 << 28)]

    places = body_places([*messages, *unknown], QUERY)

    names = [places.files[code] for code in places.file_codes.tolist()]
    assert names == [
        *(
            BodyFile(batch, 1, row % 3, first).name(QUERY)
            for batch, (first, _gap, row) in enumerate(numbers)
        ),
        *["unknown"] * 3,
    ]
    files = [body_file(one) for one in messages + unknown]
    assert [file.name(QUERY) if file else "unknown" for file in files] == names


def whole(partitions: int) -> list[list[Record]]:
    """Records of every kind in each partition of both topics."""
    kinds = [*range(len(KINDS)), 0, 0, 0]
    found = records_of({(topic, one): kinds for topic in TOPICS for one in range(partitions)})
    return [DECLARES + part if part[0][:2] == ("commands", 0) else part for part in found]


def active(root: Path) -> dict[str, dict[str, int]]:
    """The files of each table, and their rows."""
    found = {}
    for name in LEDGER:
        files = ActiveFiles(load_table(Location(str(root)) / name))
        found[name] = dict(zip(files.paths, files.rows.tolist(), strict=True))
    return found


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
def test_a_batch_that_is_cut_short_at_each_step_leaves_the_same(tmp_path, partitions, lanes):
    chances = random.Random(partitions * lanes)
    parts = whole(partitions)
    left = []
    for is_disturbed in (False, True):
        root = tmp_path / str(is_disturbed)
        cluster = Cluster(root, lanes)
        cluster.batch_id = 0
        with Ledger(Location(str(root))) as ledger:
            if is_disturbed:
                cluster.intake(distributed(parts, chances)[:1])  # some messages written
                rows = cluster.intake(distributed(parts, chances))  # all of them
                some = [row for row in rows if row.shard in {FILES_KEY, 1}]
                cluster.fold(some, {}, chances)  # the events of a shard
                for stop in range(len(LEDGER) + 1):  # so many tables are committed
                    rows = cluster.intake(distributed(parts, chances))
                    files = cluster.fold(rows, {}, chances).files
                    for name in LEDGER[:stop]:
                        mine = [file for file in files if file.table == name]
                        if name == LEDGER[-1]:
                            mine.append(write_batch_row(ledger.writers[name].storage, a_row(files)))
                        ledger.writers[name].commit_batch(QUERY, 0, mine)
            files = cluster.fold(cluster.intake(distributed(parts, chances)), {}, chances).files
            ledger.commit(files, a_row(files))
        left.append(active(root))

    assert left[1] == left[0]
    assert {name: len(files) > 0 for name, files in left[0].items()} == dict.fromkeys(LEDGER, True)


def a_row(files: list[Any]) -> BatchRow:
    return BatchRow(QUERY, 0, START_MS, totals(files))
