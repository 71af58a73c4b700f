"""The stages of a vhost of several lanes: which lane has what, and the answers of the driver."""

import json
from typing import Any, NamedTuple

import msgspec
import pytest

from streaming.broker.config import ShardConfig
from streaming.broker.lanes import lane_of_key
from streaming.pipeline.lane_answers import LaneAnswers
from streaming.pipeline.outbound import producer
from streaming.pipeline.reports import ShardReport, read_reports
from streaming.pipeline.task import OutboundTask, TaskSettings, TopicTask
from streaming.protocol import record_headers as wire
from streaming.record_sender import BatchSender
from streaming.storage.location import Location
from tests.stages import Record, Stages

LANES = 4
NOW_MS = 1_700_000_000_000


class Sent(NamedTuple):
    """An outbound record: its headers by name, and its JSON object, empty for a message."""

    headers: dict[str, bytes]
    document: dict[str, Any]


class Sender:
    """Keeps what is sent to Kafka."""

    def __init__(self, *_properties: Any) -> None:
        self.sent: list[Sent] = []

    def send(self, _topic: str, value: bytes, *, headers: Any, **_more: Any) -> None:
        named = dict(headers)
        is_message = named[wire.KIND] in {b"delivery", b"return"}
        self.sent.append(Sent(named, {} if is_message else json.loads(value)))

    def send_all(self, records: Any) -> int:
        for topic, value, _key, headers in records:
            self.send(topic, value, headers=headers)
        return len(self.sent)

    def flush(self, _timeout_s: float) -> None: ...

    def of_batches(self) -> BatchSender:
        def make(_properties: Any) -> Any:
            return self

        return BatchSender({}, make)


class Lanes(Stages):
    """A vhost of four lanes in the real stages, without Spark and Kafka."""

    def __init__(self, root: Any, monkeypatch: pytest.MonkeyPatch, lane_by: str = "") -> None:
        self.sender = Sender()
        self.answers = Sender()
        settings = TaskSettings(
            tables=Location(str(root)),
            topics={"log": TopicTask(1, "guest")},
            vhosts={"/": tuple(range(1, LANES + 1))},
            shards={lane + 1: ShardConfig(lane=lane, lanes=LANES) for lane in range(LANES)},
            outbound=OutboundTask({("/", "guest"): "out"}, record_bytes=20_000),
            max_body_bytes=1_000,
            max_header_bytes=16_384,
            lane_by={"/": lane_by} if lane_by else {},
        )
        super().__init__(settings, NOW_MS)
        self.offset = 0
        monkeypatch.setattr(producer, "sender_of", lambda _properties: self.sender.of_batches())
        self.driver = LaneAnswers(self.settings.outbound, self.answers.of_batches())

    def run(self, *records: tuple[int, bytes, list[tuple[str, bytes]]]) -> dict[int, ShardReport]:
        """Run a batch with (partition, value, headers) of each record; the reports by lane."""
        rows = self.intake(
            "log",
            [
                Record(self.offset + number, NOW_MS + number, value, headers, partition)
                for number, (partition, value, headers) in enumerate(records)
            ],
        )
        reports = read_reports(self.fold(rows)).shards
        self.driver.send(reports)
        self.offset += len(records)
        self.batch_id += 1
        return {report.lane: report for report in reports}


@pytest.fixture
def lanes(tmp_path, monkeypatch):
    return Lanes(tmp_path, monkeypatch)


def command(**members: Any) -> tuple[int, bytes, list[tuple[str, bytes]]]:
    value = {"channel": "c0", "reply_id": members["op"], **members}
    return 0, json.dumps(value).encode(), [(wire.OP, members["op"].encode())]


def publish(
    partition: int, key: str, user_id: str | None = None, **headers: str
) -> tuple[int, bytes, list[tuple[str, bytes]]]:
    named = [(wire.ROUTING_KEY, key.encode()), (wire.FLAGS, b"confirm")]
    if user_id is not None:
        named.append((wire.PROPERTIES, json.dumps({"user_id": user_id}).encode()))
    if headers:
        named.append((wire.HEADERS, json.dumps(headers).encode()))
    return partition, b"body", named


DECLARE = command(op="declare_queue", queue={"name": "q"})
DECLARE_SINGLE = command(
    op="declare_queue", queue={"name": "s", "arguments": {"x-single-lane": True}}
)


def test_each_publish_is_counted_once_though_the_home_lane_sees_all(lanes):
    reports = lanes.run(DECLARE, DECLARE_SINGLE, *(publish(lane, "q") for lane in range(LANES)))
    more = lanes.run(*(publish(lane, "s") for lane in range(LANES)))

    assert [reports[lane].publishes for lane in range(LANES)] == [1, 1, 1, 1]
    assert [reports[lane].resident_messages for lane in range(LANES)] == [1, 1, 1, 1]
    assert [more[lane].resident_messages for lane in range(LANES)] == [5, 1, 1, 1]
    received = [more[lane].traffic.counts["received"] for lane in range(LANES)]
    assert received == [1, 1, 1, 1]


def test_the_driver_sends_one_answer_with_the_number_of_the_home_lane(lanes):
    lanes.run(DECLARE, *(publish(lane, "q") for lane in range(LANES)))

    lanes.run(command(op="depth", queue="q"), command(op="consume", queue="q", **{"as": "c"}))

    declared, depth = lanes.answers.sent
    assert declared.document["result"] == {"queue": "q", "ready": 0, "consumers": 0}
    assert depth.document["result"] == {"ready": 4}
    assert depth.document["reply_id"] == "depth"
    assert (depth.headers[wire.LANE], depth.headers[wire.CHANNEL]) == (b"-2", b"c0")
    numbers = [
        int(one.headers[wire.SEQ]) for one in lanes.sender.sent if one.headers[wire.LANE] == b"0"
    ]
    assert int(depth.headers[wire.SEQ]) not in numbers
    consumed = [one for one in lanes.sender.sent if one.document.get("op") == "consume"]
    assert len(consumed) == 1
    given = [one.headers for one in lanes.sender.sent if one.headers[wire.KIND] == b"delivery"]
    assert sorted(one[wire.DELIVERY_ID] for one in given) == [
        b"1.1.0",
        b"1.1.0@1",
        b"1.1.0@2",
        b"1.1.0@3",
    ]
    assert sorted(one[wire.REF] for one in given) == [b"c/0", b"c/0@1", b"c/0@2", b"c/0@3"]


def test_a_settlement_is_carried_out_on_the_lanes_it_names(lanes):
    lanes.run(DECLARE, *(publish(lane, "q") for lane in range(LANES)))
    lanes.run(command(op="consume", queue="q", **{"as": "c"}))

    reports = lanes.run(command(op="ack", refs=["1.1.0@1", "c/0@3", "1.1.5@2"]))

    assert [reports[lane].resident_messages for lane in range(LANES)] == [1, 0, 1, 0]
    assert lanes.answers.sent[-1].document["result"] == {"missing": ["1.1.5@2"]}


def test_a_get_and_a_check_reach_the_lanes(lanes):
    lanes.run(DECLARE, *(publish(lane, "q") for lane in range(LANES)))

    lanes.run(
        command(op="get", queue="q", lane=2, message="1/2/3", **{"as": "g"}),
        command(op="check", steps=[{"op": "ack", "refs": ["g/0@2"]}, {"op": "publish"}]),
    )
    lanes.run(command(op="check", steps=[{"op": "ack", "refs": ["g/9@2"]}]))

    got, checked, refused = lanes.answers.sent[-3:]
    assert got.document["result"] == {"delivered": 1, "lane": 2, "lanes": 4}
    assert checked.document["result"] == {}
    assert refused.document["error"]["code"] == 406


def test_a_confirm_of_two_lanes_is_sent_once(lanes):
    bind = [
        command(op="bind", binding={"source": "amq.fanout", "destination": name})
        for name in ("q", "s")
    ]
    lanes.run(DECLARE, DECLARE_SINGLE, *bind)

    partition, body, headers = publish(3, "")
    lanes.run((partition, body, [*headers, (wire.EXCHANGE, b"amq.fanout")]))

    confirm = lanes.answers.sent[-1]
    assert confirm.headers[wire.KIND] == b"confirm"
    assert confirm.document == {"ack": True, "topic_number": 1, "partition": 3, "offset": 4}
    assert not [one for one in lanes.sender.sent if one.headers[wire.KIND] == b"confirm"]


def test_a_tick_reaches_its_lane_alone(lanes):
    lanes.run(DECLARE)

    tick = [(wire.OP, b"tick")]
    assert lanes.run((3, b'{"op":"tick","lane":3}', tick)).keys() == {3}
    assert lanes.run((3, b'{"op":"tick"}', tick)).keys() == {0, 1, 2, 3}


def test_messages_with_one_routing_key_have_one_lane(tmp_path, monkeypatch):
    lanes = Lanes(tmp_path, monkeypatch, "routing_key")

    reports = lanes.run(DECLARE, *(publish(lane, "q") for lane in range(LANES)))

    residents = [reports[lane].resident_messages for lane in range(LANES)]
    assert residents == [4 * (lane == lane_of_key("q", LANES)) for lane in range(LANES)]


def test_messages_with_one_header_have_one_lane_and_others_go_by_partition(tmp_path, monkeypatch):
    lanes = Lanes(tmp_path, monkeypatch, "header:customer")

    reports = lanes.run(
        DECLARE,
        *(publish(lane, "q", customer="acme") for lane in range(LANES)),
        *(publish(lane, "q", other="x") for lane in range(LANES)),
        publish(1, "q"),
    )

    residents = [reports[lane].resident_messages for lane in range(LANES)]
    acme = lane_of_key("acme", LANES)
    assert residents == [1 + (lane == 1) + 4 * (lane == acme) for lane in range(LANES)]


def test_a_batch_that_runs_again_sends_the_same_records_and_settles_nothing_twice(lanes):
    lanes.run(DECLARE, DECLARE_SINGLE, command(op="consume", queue="q", prefetch=8, **{"as": "c"}))
    lanes.run(*(publish(number % LANES, "q") for number in range(40)))
    before = {key: dict(state.values) for key, state in lanes.states.items()}
    names = [[f"c/{number}@{lane}" for lane in range(1, LANES)] for number in range(2)]
    records = (
        command(op="ack", refs=["c/0", *names[0]]),
        command(op="nack", refs=names[1], requeue=True, multiple=True),
        command(op="get", queue="q", count=2, lane=1, **{"as": "g"}),
        *(publish(number % LANES, "s") for number in range(6)),
        command(op="recover"),
    )

    attempts = []
    for _ in range(2):
        for key, values in before.items():
            lanes.states[key].values = dict(values)
        lanes.sender.sent.clear()
        lanes.answers.sent.clear()
        reports = lanes.run(*records)
        residents = [reports[lane].resident_messages for lane in range(LANES)]
        states = {key: state.values for key, state in lanes.states.items()}
        attempts.append((lanes.sender.sent[:], lanes.answers.sent[:], residents, states))
        lanes.offset -= len(records)
        lanes.batch_id -= 1

    assert attempts[0] == attempts[1]
    assert attempts[0][2] == [15, 9, 9, 9]
    recovered = [one for one in attempts[0][1] if one.document["op"] == "recover"]
    assert len(recovered) == 1


def test_an_answer_that_no_record_can_hold_loses_its_lists(lanes):
    lanes.run(DECLARE)
    refs = [f"{'x' * 200}/{number}@{number % 3 + 1}" for number in range(100)]

    lanes.run(command(op="ack", refs=refs))

    answer = lanes.answers.sent[-1]
    assert answer.document["result"] == {"missing": []}
    assert json.loads(answer.headers[wire.LEFT_OUT]) == {"missing": 100}


def test_lanes_answer_a_settlement_without_reply_id_only_if_something_is_missing(lanes):
    lanes.run(DECLARE)
    before = len(lanes.answers.sent)

    lanes.run(command(op="ack", refs=[], reply_id=None))
    lanes.run(command(op="nack", refs=["g/0", "g/0@1"], reply_id=None))

    (answer,) = lanes.answers.sent[before:]
    assert answer.document["result"] == {"missing": ["g/0", "g/0@1"]}


def test_a_user_without_a_topic_gets_no_answer(lanes):
    lanes.driver = LaneAnswers(OutboundTask({}), lanes.answers.of_batches())

    lanes.run(DECLARE)

    assert lanes.answers.sent == []


def refusals(lanes: Lanes) -> list[Any]:
    sent = [one.document for one in lanes.sender.sent if one.headers[wire.KIND] == b"publish_error"]
    return [(one["error"]["code"], one["error"]["text"], one["offset"]) for one in sent]


def test_a_user_id_that_is_not_the_user_of_the_input_is_refused(lanes):
    lanes.run(DECLARE)
    reports = lanes.run(publish(0, "q", "guest"), publish(0, "q", "mallory"), publish(0, "q"))

    text = "user_id property set to 'mallory' but authenticated user was 'guest'"
    assert refusals(lanes) == [(406, f"PRECONDITION_FAILED - {text}", 2)]
    assert reports[0].resident_messages == 2


def test_messages_of_an_impersonator_may_name_another_user(lanes):
    shards = {
        key: msgspec.structs.replace(shard, impersonators=("guest",))
        for key, shard in lanes.settings.shards.items()
    }
    lanes.settings = msgspec.structs.replace(lanes.settings, shards=shards)
    lanes.run(DECLARE)
    reports = lanes.run(publish(0, "q", "mallory"), publish(1, "q", "mallory"))

    assert refusals(lanes) == []
    assert [reports[lane].resident_messages for lane in (0, 1)] == [1, 1]


def test_a_refused_user_id_is_told_once_though_two_lanes_see_it(lanes):
    lanes.run(DECLARE, DECLARE_SINGLE)

    lanes.run(publish(1, "s", "mallory"))

    assert [code for code, _text, _offset in refusals(lanes)] == [406]
