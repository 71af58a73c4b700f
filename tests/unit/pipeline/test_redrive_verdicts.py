"""What lanes agree on about a redrive, in the real stages: written once, after a restart too."""

import json
import logging
from typing import Any

import msgspec
import pytest

from streaming.broker.redrives.agreement import LaneNote
from streaming.config import JobConfig
from streaming.config.inputs import InputSettings, TopicMapping
from streaming.config.job import JobSettings
from streaming.config.vhosts import UserSettings
from streaming.ledger.batch_detail import BatchDetail, read_detail
from streaming.pipeline.redrive_verdicts import RedriveVerdicts
from streaming.pipeline.reports import ShardReport
from streaming.pipeline.task import TopicTask
from streaming.protocol import record_headers as wire
from streaming.record_sender import BatchSender, SendError
from tests.unit.pipeline.test_lane_stages import LANES, NOW_MS, Lanes, command, publish

USERS = {
    "guest": UserSettings(),
    "ann": UserSettings(),
    "root": UserSettings(administrator=True),
}
FIRST = 3  # the declarations are events 1 and 2 on each lane


def config_of(*inputs: InputSettings) -> JobConfig:
    return JobConfig(inputs=inputs, users=USERS)


class Log:
    """Keeps the records that the driver writes; flushes may fail."""

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes, dict[str, Any]]] = []
        self.failures = 0
        self.senders = 0

    def __call__(self, _properties: Any) -> Any:
        self.senders += 1
        return self

    def send(self, topic: str, value: bytes, **record: Any) -> None:
        self.records.append((topic, value, record))

    def flush(self, _timeout_s: float) -> None:
        if self.failures:
            self.failures -= 1
            raise SendError("timed out")

    def discard(self) -> None:
        self.records.clear()

    def take(self) -> list[tuple[int, bytes, list[tuple[str, bytes]]]]:
        taken, self.records = self.records, []
        return [(0, value, record["headers"]) for _topic, value, record in taken]


class Case:
    """A vhost of four lanes with one letter on each, and the driver's verdicts."""

    def __init__(self, root: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lanes = Lanes(root, monkeypatch)
        self.log = Log()
        self.restart(JobConfig())
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        self.run(
            command(op="declare_queue", queue={"name": "work", "arguments": dead}),
            command(op="declare_queue", queue={"name": "dead"}),
            *(publish(lane, "dead") for lane in range(LANES)),
        )

    def restart(self, config: JobConfig, known: dict[int, list[LaneNote]] | None = None) -> None:
        sender = BatchSender({}, self.log)
        self.verdicts = RedriveVerdicts(config, self.lanes.settings, sender, known or {})

    def run(self, *records: Any) -> list[ShardReport]:
        reports = list(self.lanes.run(*records).values())
        self.verdicts.batch_done(reports)
        return reports

    def redrive(self, *, partition: int = 0, **options: Any) -> list[ShardReport]:
        return self.run(self.opening("r", partition, **options))

    @staticmethod
    def opening(name: str, partition: int = 0, **options: Any) -> Any:
        letters = [[lane, FIRST, "dead", ["work", "", ["work"]]] for lane in range(LANES)]
        sealed = {"id": name, "reason": "x", "seal": "s", "total": LANES, "letters": letters}
        _partition, *record = command(op="redrive", **sealed, options=options)
        return partition, *record

    def status(self) -> dict[str, Any]:
        self.run(command(op="control_redrive", id="r", action="status", reason=""))
        found: dict[str, Any] = self.lanes.answers.sent[-1].document["result"]
        return found

    def settle_canary(self, op: str = "ack") -> list[ShardReport]:
        self.run(command(op="get", queue="work", **{"as": "g"}))
        return self.run(command(op=op, refs=["g/0"]))


@pytest.fixture
def case(tmp_path, monkeypatch):
    return Case(tmp_path, monkeypatch)


def test_the_canary_of_all_lanes_is_trusted_by_a_record_in_the_log(case):
    case.redrive(canary=1)
    assert (case.log.records, case.status()["moved"]) == ([], 1)

    case.settle_canary()
    [(topic, value, record)] = case.log.records
    case.run(*case.log.take())
    case.run(*case.log.take())

    assert (topic, json.loads(value)["verdict"]) == ("dlx.commands", "trust")
    assert dict(record["headers"]) == {wire.OP: b"redrive_verdict", wire.VHOST: b"/"}
    assert "timestamp" not in record
    assert case.status() == {
        "status": "finished",
        "total": LANES,
        "moved": LANES,
        "skipped": 0,
        "parked": 0,
    }
    assert case.verdicts.noted() == {}
    assert (case.log.records, case.log.senders) == ([], 1)


def test_a_verdict_is_written_once_while_it_is_on_its_way(case):
    case.redrive(canary=1)
    case.settle_canary()
    assert len(case.log.records) == 1

    case.status()

    assert len(case.log.records) == 1


def test_a_job_that_starts_again_knows_the_notes_of_idle_lanes(case):
    case.redrive(canary=1)
    row = msgspec.json.encode(BatchDetail(redrives=case.verdicts.noted())).decode()
    case.run(command(op="get", queue="work", **{"as": "g"}))
    reports = case.lanes.run(command(op="ack", refs=["g/0"]))
    case.restart(JobConfig(), read_detail(row).redrives)

    case.verdicts.batch_done([reports[0]])

    assert [json.loads(value)["verdict"] for _, value, _ in case.log.records] == ["trust"]


def test_a_verdict_without_an_event_is_in_the_notes_that_a_restart_needs(case):
    case.redrive(canary=1, rate=1)
    case.settle_canary()

    reports = case.run(*case.log.take())

    assert (len(reports), sum(report.events for report in reports)) == (LANES, 0)
    assert {note.round for report in reports for note in report.redrives} == {1}
    assert case.verdicts.is_changed
    case.status()
    assert not case.verdicts.is_changed


def test_a_verdict_that_comes_twice_changes_nothing(case):
    case.redrive(canary=1)
    case.settle_canary("reject")
    [stop] = case.log.take()
    case.run(stop)
    assert case.status()["status"] == "stopped"
    case.run(command(op="control_redrive", id="r", action="resume", reason="fixed"))

    case.run(stop)

    case.run(*case.log.take())
    assert case.status()["status"] == "finished"


def test_a_batch_fails_if_its_verdict_was_not_written_and_writes_it_again(case):
    case.redrive(canary=1)
    case.run(command(op="get", queue="work", **{"as": "g"}))
    reports = list(case.lanes.run(command(op="ack", refs=["g/0"])).values())
    case.log.failures = 1

    with pytest.raises(SendError):
        case.verdicts.batch_done(reports)
    assert case.log.records == []
    case.verdicts.batch_done(reports)

    assert (len(case.log.records), case.log.senders) == (1, 2)


def test_with_clock_event_a_verdict_does_not_move_time(case):
    case.restart(JobConfig(job=JobSettings(clock="event")))
    reports = case.redrive()

    [(_topic, _value, record)] = case.log.records

    assert record["timestamp"] == max(report.now_ms for report in reports) >= NOW_MS


def inputs_of(*inputs: Any) -> JobConfig:
    return config_of(
        *(InputSettings(topic=name, source=source, user=user) for name, source, user in inputs)
    )


def test_the_verdict_follows_the_record_that_opened_the_redrive_in_its_partition(case):
    theirs, own = ("p", "publishes", "ann"), ("log", "transactions", "guest")
    case.restart(inputs_of(theirs, ("a", "commands", "guest"), own))

    case.redrive(partition=5)

    assert [(topic, record["partition"]) for topic, _value, record in case.log.records] == [
        ("log", 5)
    ]


@pytest.mark.parametrize(
    "inputs",
    [
        [("log", "commands", "ann"), ("b", "commands", "guest")],
        [("b", "commands", "guest")],
    ],
)
def test_the_verdict_is_in_any_partition_of_another_topic(case, inputs):
    case.restart(inputs_of(("z", "publishes", "ann"), *inputs))

    case.redrive(partition=5)

    assert [(topic, "partition" in record) for topic, _value, record in case.log.records] == [
        ("b", False)
    ]


def test_the_partition_of_a_topic_that_was_made_again_is_not_named(case):
    case.restart(inputs_of(("p", "publishes", "ann"), ("log", "commands", "guest")))
    reports = case.lanes.run(case.opening("r", 5))
    topics = {"log": TopicTask(2, "guest")}
    case.lanes.settings = msgspec.structs.replace(case.lanes.settings, topics=topics)
    case.restart(inputs_of(("p", "publishes", "ann"), ("log", "commands", "guest")))

    case.verdicts.batch_done(list(reports.values()))

    assert [(topic, "partition" in record) for topic, _value, record in case.log.records] == [
        ("log", False)
    ]


def test_verdicts_are_in_the_order_in_which_redrives_were_opened(case):
    case.run(case.opening("r9"), case.opening("r10"))

    written = [json.loads(value)["id"] for _topic, value, _record in case.log.records]

    assert written == ["r9", "r10"]


@pytest.mark.parametrize(
    ("inputs", "topic"),
    [
        ([("a", "commands", "ann"), ("b", "commands", "guest")], "b"),
        ([("a", "commands", "ann"), ("b", "transactions", "guest")], "b"),
        ([("a", "transactions", "guest"), ("b", "commands", "guest")], "b"),
        ([("a", "publishes", "guest"), ("b", "commands", "root")], "b"),
        ([("a", "commands", "ann"), ("b", "publishes", "guest")], "b"),
    ],
)
def test_the_verdict_is_in_the_name_of_the_user_or_of_an_administrator(case, inputs, topic):
    case.restart(inputs_of(("z", "publishes", "ann"), *inputs))

    case.redrive()

    assert [record[0] for record in case.log.records] == [topic]


def test_a_redrive_whose_user_has_no_topic_any_more_waits_and_the_log_says_so(case, caplog):
    mapped = InputSettings(topic="m", source="publishes", mapping=TopicMapping(exchange="x"))
    case.restart(config_of(mapped, InputSettings(topic="a", source="commands", user="ann")))

    with caplog.at_level(logging.WARNING):
        case.redrive()
        case.status()

    assert case.log.records == []
    [warning] = caplog.messages
    assert "redrive 'r' of vhost '/' waits: no input topic" in warning
    assert "user 'guest'" in warning
