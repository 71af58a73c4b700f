"""A batch from the rows of the stages to the commit, without Spark and Kafka."""

import dataclasses
import json
import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from streaming.broker.config import CORE_VERSION, ShardConfig
from streaming.broker.redrive_letters import RedriveOptions
from streaming.broker.redrives.agreement import LaneNote
from streaming.config import JobConfig
from streaming.contents.pending_nets import PendingNets
from streaming.contents.replacement import replace_rows
from streaming.ledger.batch_detail import BatchDetail, TrafficSums
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.checkpoint.table_match import TableBatches
from streaming.pipeline.clock.job_clock import JobClock
from streaming.pipeline.clock.trigger import Trigger
from streaming.pipeline.flow.control import FlowControl
from streaming.pipeline.flow.memory import MemoryMarks
from streaming.pipeline.lane_answers import LaneAnswers
from streaming.pipeline.micro_batch import MicroBatch
from streaming.pipeline.observe.batch_warnings import BrokerWarnings, FaultWarnings
from streaming.pipeline.redrive_verdicts import RedriveVerdicts
from streaming.pipeline.reports import BatchDone, ShardStats, read_reports
from streaming.pipeline.shard_block import FILES_KEY
from streaming.pipeline.task import OutboundTask, TaskSettings, TopicTask
from streaming.pipeline.topics.accepted_loss import AcceptedLoss
from streaming.pipeline.traffic import Clients, TrafficTotals
from streaming.protocol import record_headers as wire
from streaming.record_sender import BatchSender
from streaming.storage.location import Location
from tests.stages import Record, Stages

QUERY, SHARD = "one-query", 1
MARKS = MemoryMarks(1_000_000, 800_000, ())


class OneShard(Stages):
    """The stages of a job with one shard; time does not pass."""

    def __init__(self, root: Path) -> None:
        settings = TaskSettings(
            tables=Location(str(root)),
            topics={"log": TopicTask(1, "guest")},
            vhosts={"/": (SHARD,)},
            shards={SHARD: ShardConfig()},
            outbound=OutboundTask({}),
            max_body_bytes=1_000,
            max_header_bytes=16_384,
        )
        self.now_ms = time.time_ns() // 1_000_000
        super().__init__(settings, self.now_ms, QUERY)

    def run(self, batch_id: int, *records: tuple[bytes, list[tuple[str, bytes]]]) -> Any:
        """A data frame whose `collect` runs the stages on (value, headers) of each record."""

        def collect() -> list[Any]:
            self.batch_id = batch_id
            first = 10 * batch_id
            done = self.fold(
                self.intake(
                    "log",
                    [
                        Record(first + number, self.now_ms, value, headers)
                        for number, (value, headers) in enumerate(records)
                    ],
                )
            )
            assert {row["shard"] for row in done} <= {FILES_KEY, SHARD}
            return done

        return SimpleNamespace(collect=collect, sparkSession=None)


def test_records_from_beyond_the_dates_that_there_are_go_to_quarantine(tmp_path):
    stages = OneShard(tmp_path)
    declare = b'{"queue": {"name": "q"}}', [(wire.OP, b"declare_queue")]
    publish, purge = (b"m", [(wire.ROUTING_KEY, b"q")]), (b'{"queue": "q"}', [(wire.OP, b"purge")])
    at_ms = stages.now_ms
    far_ms = (253_370_764_800_001, 1_700_000_000_000_000, 9_223_372_036_854_775)

    records = [(at_ms, declare), *((one, publish) for one in far_ms), (far_ms[0], purge)]
    rows = [
        Record(offset, when, value, headers)
        for offset, (when, (value, headers)) in enumerate([*records, (at_ms, publish)])
    ]
    reports = read_reports(stages.fold(stages.intake("log", rows)))

    [report] = reports.shards
    assert (report.publishes, report.resident_messages) == (1, 1)
    assert [(one.cause, one.count) for one in reports.faults()] == [("bad_timestamp", 4)]


class Job:
    """The parts of a job around its batches."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("streaming.pipeline.micro_batch.set_batch_time", lambda *_: None)
        self.stages = OneShard(root / "tables")
        self.checkpoint = Checkpoint(root / "checkpoint")
        self.folder = root / "checkpoint"
        self.folder.mkdir()
        self.checkpoint.open(1, "hash", {}, TableBatches())
        (self.folder / "metadata").write_text(json.dumps({"id": QUERY}))
        (self.folder / "offsets").mkdir()
        self.ledger = Ledger(Location(str(root / "tables")))
        self.done: list[BatchDone] = []
        stats = ShardStats(BatchDetail())
        self.nets = PendingNets()
        nothing: Any = SimpleNamespace(
            check_mapped_topics=lambda: None,
            batch_began=lambda: None,
            batch_done=lambda *_args, **_options: None,
            lowest_detail=dict,
            nets=self.nets,
        )
        self.batch = MicroBatch(
            checkpoint=self.checkpoint,
            ledger=self.ledger,
            clock=JobClock(self.checkpoint, 0, is_wall=True),
            trigger=Trigger(0),
            watch=nothing,
            loss=AcceptedLoss(self.checkpoint),
            stats=stats,
            traffic=TrafficTotals(TrafficSums(), None),
            flow=FlowControl(JobConfig(), MARKS, BatchDetail(), stats),
            ticks=nothing,
            lane_answers=LaneAnswers(OutboundTask({}), BatchSender({})),
            verdicts=RedriveVerdicts(JobConfig(), self.stages.settings, BatchSender({}), {}),
            housekeeping=nothing,
            warnings=BrokerWarnings(),
            faults=FaultWarnings(),
            on_batch=self.done.append,
        )

    def run(self, batch_id: int, *records: tuple[bytes, list[tuple[str, bytes]]]) -> None:
        """Run a batch, once Spark has logged its plan."""
        metadata = json.dumps({"batchTimestampMs": self.stages.now_ms})
        ends = json.dumps({"log": {"0": 10 * batch_id + len(records)}})
        plan = self.folder / "offsets" / str(batch_id)
        plan.write_text(f"v2\n{metadata}\npublishes:{ends}")
        self.batch.run(self.stages.run(batch_id, *records), batch_id)


@pytest.fixture
def job(tmp_path, monkeypatch):
    job = Job(tmp_path, monkeypatch)
    yield job
    job.ledger.close()


def command(**members):
    return json.dumps(members).encode(), [("dlx-op", members["op"].encode())]


def publish(body, **headers):
    return body, [(f"dlx-{name.replace('_', '-')}", value) for name, value in headers.items()]


DECLARE = command(op="declare_queue", queue={"name": "work"})


def test_a_batch_is_committed_with_its_figures(job):
    job.run(0, DECLARE, publish(b"body", routing_key=b"work"), (b"{", [("dlx-op", b"get")]))

    [done] = job.done
    row = job.ledger.last_batch(QUERY)
    assert (done.records, done.reports[0].publishes, done.reports[0].resident_messages) == (2, 1, 1)
    assert {"stages", "commit", "fold", "rows"} <= done.seconds.keys()
    assert row.detail.resident == {1: (1, 68)}
    assert row.detail.core_version == CORE_VERSION
    assert row.detail.gate == job.batch.flow.state
    assert row.detail.gate.resident_bytes == 68
    assert row.detail.offsets == {"log": {"0": 3}}
    assert job.checkpoint.written.last.keys() == {"messages", "quarantine", "events"}


def test_the_next_batch_waits_as_long_as_flow_control_says(job, monkeypatch):
    waits = []
    monkeypatch.setattr(job.batch.trigger, "wait", lambda *limits: waits.append(limits))
    job.batch.flow.interval_s, job.batch.flow.longest_s = 1.5, 10.0

    job.run(0, DECLARE)

    assert waits == [(1.5, 10.0, job.batch.flow.may_wait)]


def test_tasks_report_the_net_changes_of_queues(job):
    get = command(op="get", queue="work", channel="c", auto_ack=True)
    job.run(0, DECLARE, publish(b"passes", routing_key=b"work"), get)
    job.run(1, publish(b"stays", routing_key=b"work"), publish(b"too", routing_key=b"work"), get)
    job.run(2)

    last, nets = job.nets.after(QUERY, -1)

    [row] = nets["/", 0].born.to_pylist()
    assert (last, row["batch_id"], row["queue"], row["body_bytes"]) == (1, 1, "work", 3)
    assert job.nets.after(QUERY, 1) is None


@pytest.mark.parametrize("number", ["00000", "00001"])
def test_files_with_task_numbers_that_nobody_committed_are_in_nobodys_way(job, number):
    left_over = [
        Path(job.ledger.root.url, table, f"{QUERY}.000000000000.{stage}.{number}.{0:020}.parquet")
        for table, stage in (
            *((name, name) for name in ("messages", "quarantine", "dead_letters", "events")),
            ("events", "batch"),
        )
    ]
    for path in left_over:
        path.write_bytes(b"of the first attempt")

    job.run(0, DECLARE, publish(b"body", routing_key=b"work"), (b"{", [("dlx-op", b"get")]))

    assert job.ledger.last_batches(QUERY) == {"messages": 0, "quarantine": 0, "events": 0}
    assert {path.read_bytes() for path in left_over} == {b"of the first attempt"}


def test_a_repeated_batch_changes_nothing(job):
    records = (DECLARE, publish(b"body", routing_key=b"work"))
    state = dict(job.stages.states[SHARD].values)
    job.run(0, *records)
    files = sorted(Path(job.ledger.root.url).rglob("*.parquet"))

    job.stages.states[SHARD].values = state
    job.run(0, *records)

    assert sorted(Path(job.ledger.root.url).rglob("*.parquet")) == files
    assert [writer.last_batch(QUERY) for writer in job.ledger.writers.values()].count(0) == 2
    assert job.batch.stats.resident_messages == 1


def test_letters_that_left_the_table_before_the_batch_ran_again_are_put_back(job):
    """The first attempt restored them, wrote its files, and ended before its commit."""
    job.run(0, DECLARE, publish(b"body", routing_key=b"work"), command(op="purge", queue="work"))
    stored = [[1, 0, 1], 4, 0, None, []]
    letter = [0, 2, "work", ["work", "", ["work"]], 0, stored]
    sealed = {"id": "r", "reason": "x", "seal": "s", "total": 1, "letters": [letter]}
    restore = command(op="redrive", **sealed, options={"action": "restore"})
    state = dict(job.stages.states[SHARD].values)
    job.stages.run(1, restore).collect()
    job.stages.states[SHARD].values = state
    messages = job.ledger.root / "messages"
    paths = ActiveFiles(load_table(messages)).paths
    replace_rows(messages, TABLES["messages"], paths, TABLES["messages"].schema.empty_table())
    job.ledger.writers["messages"].table()

    job.run(1, restore)
    job.run(2, command(op="get", queue="work", channel="c", auto_ack=True))

    assert [done.reports[0].resident_messages for done in job.done] == [0, 1, 0]
    files = ActiveFiles(load_table(messages)).paths
    assert [pq.read_table(Path(messages.url, path))["body"].to_pylist() for path in files] == [
        [b"body"]
    ]


def test_a_batch_that_changes_only_the_notes_of_redrives_writes_its_row(job):
    options = RedriveOptions()
    note = LaneNote("r", "guest", options, 0, "running", False, 0, 1, 0, 0, 0, 0, 0, 0)
    settings = job.stages.settings
    verdicts = RedriveVerdicts(JobConfig(), settings, BatchSender({}), {SHARD: [note]})
    job.run(0, DECLARE)
    job.batch = dataclasses.replace(job.batch, verdicts=verdicts)

    for batch_id in (1, 2):
        job.run(batch_id, command(op="tick"))

    row = job.ledger.last_batch(QUERY)
    assert (row.batch_id, row.detail.redrives) == (1, {})


def test_a_missing_alternate_exchange_is_logged(job, caplog):
    caplog.set_level(logging.WARNING)
    orders = {"name": "orders", "arguments": {"alternate-exchange": "unrouted"}}

    job.run(0, command(op="declare_exchange", exchange=orders))
    for batch_id in (1, 2):
        job.run(batch_id, publish(b"body", exchange=b"orders", routing_key=b"nowhere"))

    found = [message for message in caplog.messages if message.startswith("vhost")]
    assert found == ["vhost '/': alternate exchange 'unrouted' of exchange 'orders' does not exist"]


FAULTS = (
    (b"{", [("dlx-op", b"get")]),
    publish(b"lost", routing_key=b"nowhere"),
    publish(b"back", routing_key=b"nowhere", flags=b"mandatory"),
    publish(b"back", routing_key=b"nowhere", flags=b"mandatory"),
    publish(b"refused", exchange=b"nosuch"),
)


def test_faults_are_counted_and_logged_when_they_begin(job, caplog):
    caplog.set_level(logging.WARNING)

    job.run(0, *FAULTS)
    first = caplog.messages
    job.run(1, *FAULTS)
    job.run(2, DECLARE)

    counts = {"quarantined": 1, "unroutable": 1, "returned": 2, "publish_errors": 1}
    assert [done.faults for done in job.done] == [counts, counts, dict.fromkeys(counts, 0)]
    detail = job.ledger.last_batch(QUERY).detail
    assert {kind: getattr(detail, kind) for kind in counts} == dict.fromkeys(counts, 0)
    assert len(first) == len(counts)
    assert first == caplog.messages
    assert ["topic log" in line and "(bad_json)" in line for line in first].count(True) == 1


def test_a_batch_counts_what_it_did_for_the_metrics(job):
    other = command(op="declare_queue", queue={"name": "other"})
    job.run(
        0,
        DECLARE,
        DECLARE,
        other,
        publish(b"body", routing_key=b"work", confirm=b"true"),
        publish(b"lost", routing_key=b"nowhere"),
        command(op="get", queue="work", channel="c", auto_ack=False),
        command(op="get", queue="work", channel="c", auto_ack=False),
    )
    job.run(1, command(op="close_channel", channel="c"), command(op="delete_queue", queue="other"))

    first, second = (done.reports[0].traffic for done in job.done)
    row = job.ledger.last_batch(QUERY)

    assert first.counts["received"] == 2
    assert first.counts["get_manual"] == 1
    assert first.counts["get_empty"] == 1
    assert first.counts["queues_declared"] == 3
    assert first.counts["queues_created"] == 2
    assert first.kinds["work"] == {"enqueued": 1, "delivered": 1, "published": 1}
    assert first.sizes[0] == 2
    assert {queue.name: queue.unacked for queue in first.queues} == {"work": 1, "other": 0}
    assert first.clients == Clients(1, ["guest"])
    assert second.deleted == ["other"]
    assert second.clients == Clients(0, [])
    totals = row.detail.traffic.vhosts["/"]
    assert totals["received"] == 2
    assert totals["channels_opened"] == totals["channels_closed"] == 1
    assert totals["unroutable"] == 1
    assert job.done[0].arrivals
