"""The log of a sequenced vhost in the stages of the job, without Spark and Kafka.

What the tables get is what the fold of the front came to, however the log is cut into batches.
"""

from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from streaming.amqp.tables import read_table
from streaming.broker import commands
from streaming.broker.message import CONFIRM, NEVER
from streaming.broker.outbound import ConfirmOut
from streaming.broker.sequence.log_fold import FoldsDifferError, OtherTermsError, Terms
from streaming.config.inputs import TopicMapping
from streaming.config.selectors import JsonValue
from streaming.contents.search_index import SearchIndexer
from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.rebuild.from_log import state_of
from streaming.pipeline.reports import Reports, ShardStats, read_reports
from streaming.pipeline.sequenced_fold import copied_out
from streaming.pipeline.shard_block import FILES_KEY
from streaming.pipeline.task import OutboundTask, TaskSettings, TopicTask
from streaming.protocol import record_headers as wire
from streaming.protocol.command_codec import encode_command
from streaming.protocol.copied_records import copied_command
from streaming.protocol.log_records import (
    CONTENT,
    LOG,
    LOG_VERSION,
    LogHeader,
    LogKind,
    NewerLogError,
    encode,
)
from streaming.protocol.record_headers import MAX_TIME_MS
from streaming.queries.duckdb_tables import Tables
from streaming.queries.search_index import messages_with
from streaming.sequencer.log_reader import RawRecord
from streaming.sequencer.verify import RangeFold
from streaming.storage.location import Location
from tests.builders import a_queue
from tests.played_front import LogRecord, PlayedFront
from tests.stages import MapState, Record, Stages
from topology.declarations import Binding, Exchange, Queue
from topology.values import Timestamp, table_from_json

TOPIC, NUMBER, KEY = "dlx.log.shop", 3, 1
COMMANDS, ORDERS = 5, 6
VERSION = b"amq.dlx.version." + b"a" * 64
MAPPING = TopicMapping(exchange="", routing_key=JsonValue(name="$.queue"), vhost="shop")


class Job(Stages):
    """The stages of a job that reads the log of one vhost."""

    def __init__(self, root: Any, front: PlayedFront) -> None:
        self.root = root
        settings = TaskSettings(
            tables=Location(str(root)),
            topics={
                TOPIC: TopicTask(NUMBER, "", log_of="shop"),
                "dlx.publishes": TopicTask(NUMBER + 1, "guest"),
                "dlx.commands": TopicTask(COMMANDS, "guest", copied=True),
                "orders": TopicTask(ORDERS, "guest", MAPPING, copied=True),
            },
            vhosts={"shop": (KEY,)},
            shards={KEY: front.config},
            outbound=OutboundTask({}),
            max_body_bytes=1_000,
            max_header_bytes=16_384,
            terms={KEY: front.terms},
        )
        super().__init__(settings)
        self.position = 0

    def read(self, records: list[LogRecord], topic: str = TOPIC) -> list[Any]:
        """Run the first stage; its rows."""
        return self.intake(
            topic, [Record(one.offset, one.at_ms, one.value, one.headers) for one in records]
        )

    def run(self, records: list[LogRecord]) -> Reports:
        """Run a batch."""
        done = self.fold(self.read(records))
        self.batch_id += 1
        return read_reports(done)

    def follow(self, front: PlayedFront, cuts: tuple[int, ...] = ()) -> list[Reports]:
        """Run batches that end before these offsets, and one with the rest."""
        found = []
        for end in (*cuts, len(front.records)):
            found.append(self.run(front.records[self.position : end]))
            self.position = end
        return found

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of the data files of a table, by offset or number."""
        files = sorted((self.root / table).glob("*.parquet"))
        rows = [row for file in files for row in pa.parquet.read_table(file).to_pylist()]
        rows = [row for row in rows if row.get("seq", 0) is not None]  # not those of batches
        return sorted(rows, key=lambda row: row["seq"] if "seq" in row else row["offset"])


def play(front: PlayedFront) -> None:
    """Everything that a front writes: two epochs, late records of the first, a digest."""
    first = front.begin("one")
    front.open("c1")
    front.ask("c1", commands.DeclareQueue(queue=a_queue("dead")))
    for name in ("work", "brief"):
        queue = a_queue(name, dead_letter_exchange="", dead_letter_routing_key="dead")
        front.ask("c1", commands.DeclareQueue(queue=queue))
    front.consume("c1", "work")
    for number in range(6):
        front.publish("c1", "", "work", b"body %d" % number, flags=CONFIRM, message_id=f"m{number}")
    tags = front.tags("c1")
    front.settle(*(("c1", tag, "ack") for tag in tags[:2]), ("c1", tags[2], "reject"))
    front.publish("c1", "", "brief", b"short", expiration="50", headers={"n": 1})
    front.tick(60)
    front.begin("two")
    front.publish("c1", "", "work", b"late", epoch=first)
    front.settle(("c1", tags[3], "ack"), epoch=first)
    front.open("c1")
    front.publish("c1", "missing", "", b"error")
    front.publish("c1", "", "work", b"behind it")
    front.open("c2")
    front.publish("c2", "", "work", b"last", headers={"CC": ["dead"]}, user_id="ann")


@pytest.fixture
def front(monkeypatch):
    monkeypatch.setattr("streaming.broker.sequence.digest.SEGMENT", 10)
    return PlayedFront()


@pytest.fixture
def job(tmp_path, monkeypatch, front):
    for name in LEDGER:
        (tmp_path / name).mkdir()
    return Job(tmp_path, front)


@pytest.mark.parametrize("cuts", [(), (1, 5, 9, 10, 11, 14, 17, 20)])
def test_the_tables_have_what_the_front_came_to(job, front, cuts):
    play(front)
    front.digest()

    reports = job.follow(front, cuts)

    rows = job.rows("events")
    assert [
        (row["seq"], row["kind"], row["queue"] or "", row["channel"] or "") for row in rows
    ] == [(row.seq, row.kind.name.lower(), row.queue, row.channel) for row in front.rows]
    assert [row["kind"] for row in rows].count("void") == 2
    bodies = [one.value for one in front.records if dict(one.headers).get(CONTENT) is not None]
    assert [row["body"] for row in job.rows("messages")] == bodies
    assert [row["body"] for row in job.rows("dead_letters")] == [b"body 2", b"short"]
    assert sum(report.shards[0].publishes for report in reports) == len(bodies)
    assert all(report.shards[0].outbound == 0 for report in reports)
    assert all(report.shards[0].next_deadline_ms == NEVER for report in reports)
    assert reports[-1].commands() == (0, 0)


def test_a_publish_of_a_transaction_reaches_the_queues_that_it_was_for(job, front):
    front.begin("one")
    front.open("c1")
    for name in ("a", "b"):
        front.ask("c1", commands.DeclareQueue(queue=a_queue(name)))
    numbers = front.fold.shard.vhost.queue_numbers
    routed = tuple((name, numbers[name]) for name in ("a", "b"))
    front.ask("c1", commands.DeleteQueue(queue="b"))
    front.ask("c1", commands.DeclareQueue(queue=a_queue("b")))
    front.publish("c1", "gone", "k", flags=CONFIRM, routed=routed)
    front.publish("c1", "gone", "k", flags=CONFIRM, routed=routed[1:], headers={"CC": ["a"]})
    front.digest()

    job.follow(front, (6,))

    rows = [row for row in job.rows("events") if row["kind"] in {"enqueued", "unroutable"}]
    assert [(row["kind"], row["queue"]) for row in rows] == [
        ("enqueued", "a"),
        ("unroutable", None),
    ]
    assert [out.ack for out in front.told if isinstance(out, ConfirmOut)] == [False, False]


def test_a_publish_keeps_its_properties_headers_and_user(job, front):
    headers = {
        "text": "ü",
        "count": 7,
        "ratio": 1.5,
        "is": True,
        "void": None,
        "bytes": b"\x00\xff",
        "when": Timestamp(9),
        "price": Decimal("1.50"),
        "list": [1, "a", {"b": 2}],
        "table": {"x": {"y": 1}},
    }
    front.begin("one")
    front.open("c1")
    front.publish(
        "c1",
        "",
        "q",
        b"",
        content_type="text/plain",
        priority=3,
        timestamp=2**64 - 1,
        type="caf\udce9",
        delivery_mode=2,
        headers=headers,
    )
    job.follow(front)

    [row] = job.rows("messages")
    assert {key: value for key, value in row["properties"].items() if value is not None} == {
        "content_type": "text/plain",
        "priority": 3,
        "timestamp": 2**63 - 1,
        "type": "caf\ufffd",
        "delivery_mode": 2,
    }
    assert table_from_json(msgspec.json.decode(row["headers"])) == headers
    assert (row["user"], row["channel"], row["routing_key"]) == ("ann", "c1", "q")
    assert (row["topic_number"], row["partition"], row["offset"]) == (NUMBER, 0, 2)
    assert row["body"] == b""
    assert row["kafka_headers"] is None


def test_values_of_a_sequenced_vhost_are_indexed_as_those_of_others(job, front):
    front.begin("one")
    front.open("c1")
    front.publish("c1", "", "q", b'{"order": 17}', headers={"tenant": "acme", "n": 5})
    front.publish("c1", "", "q", b"no JSON", message_id="m1")
    [report] = job.follow(front)
    place = Location(str(job.root))
    with Ledger(place) as ledger:
        ledger.commit(report.files, BatchRow("q", 0, 1, BatchDetail()))

    SearchIndexer(place, ("body:$.order", "header:n", "property:message_id")).update("q")

    with Tables(place.url) as tables:
        found = {
            value: [(one.message_id, one.path) for one in messages_with(tables, value, 9)]
            for value in ("17", "5", "m1", "acme")
        }
    assert found == {
        "17": [((NUMBER, 0, 2), "body:$.order")],
        "5": [((NUMBER, 0, 2), "header:n")],
        "m1": [((NUMBER, 0, 3), "property:message_id")],
        "acme": [],
    }


STRANGE = {
    "text that is not UTF-8": b"S\0\0\0\2\xff\xfe",
    "nan": b"d\x7f\xf8\0\0\0\0\0\0",
    "infinity": b"f\xff\x80\0\0",
    "a time beyond 64 bits": b"T" + b"\xff" * 8,
    "a decimal": b"D\xff\0\0\0\1",
    "a special name": b"F\0\0\0\x08\6$bytesV",
    "a name that is not UTF-8": b"F\0\0\0\3\1\xffV",
    "nested": b"A\0\0\0\5A\0\0\0\0",
    "zero": b"S\0\0\0\1\0",
    "large": b"x\0\2\0\0" + bytes(1 << 17),
}
LOOKED_AT = (
    *("x-message-ttl", "x-max-length", "x-max-priority", "x-overflow", "x-queue-type", "x-match"),
    *("x-dead-letter-exchange", "x-dead-letter-strategy", "alternate-exchange", "x-priority"),
    *("x-single-active-consumer", "x-expires", "x-delivery-limit", "x-unknown"),
)


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
def test_arguments_of_every_client_reach_the_tables(job, front, value):
    front.begin("one")
    for name in LOOKED_AT:
        entry = bytes((len(name),)) + name.encode() + value
        table, _end = read_table(len(entry).to_bytes(4) + entry)
        for number, command in enumerate(
            (
                commands.DeclareExchange(
                    exchange=Exchange(f"e-{name}", "headers", arguments=table)
                ),
                commands.DeclareQueue(queue=Queue(f"q-{name}", arguments=table)),
                commands.DeclareQueue(queue=Queue(f"q-{name}")),
                commands.Bind(binding=Binding("amq.headers", "q", "queue", "", table)),
                commands.Consume(queue="q", label=name, arguments=table),
                commands.Unbind(binding=Binding("amq.headers", "q", "queue", "", table)),
            )
        ):
            channel = f"{name} {number}"
            front.open(channel)
            if "q" not in front.fold.shard.vhost.queues:
                front.ask(channel, commands.DeclareQueue(queue=a_queue("q")))
            front.ask(channel, command)
    front.digest()

    job.follow(front, (9, 30, 60))

    rows = job.rows("events")
    assert [(row["seq"], row["kind"]) for row in rows] == [
        (row.seq, row.kind.name.lower()) for row in front.rows
    ]
    assert not job.rows("quarantine")
    for row in rows:
        msgspec.json.decode(row["detail"] or "{}")


PUBLISH = encode(LogHeader(LOG_VERSION, 0, LogKind.PUBLISH, "ann", "c1", "", "q"))
OF_FLAGS = encode(LogHeader(LOG_VERSION, 99, LogKind.PUBLISH, "ann", "c1", "", "q", 300))
COMMAND = encode(LogHeader(LOG_VERSION, 0, LogKind.COMMAND, "ann", "c1"))
BAD_DECIMAL = encode_command(
    commands.DeclareQueue(queue=Queue("q", arguments={"x": Decimal("1.5")}))
).replace(b"1.5", b"x.y")


@pytest.mark.parametrize(
    ("headers", "value", "words"),
    [
        ([], b"x", "no header dlx-log: another program wrote it"),
        ([("dlx-exchange", b"e")], b"x", "no header dlx-log"),
        ([(LOG, b"\xc1")], b"x", "the header dlx-log cannot be read"),
        ([(LOG, encode(LogHeader(LOG_VERSION, 0, 99)))], b"x", "version 2 and kind 99"),
        ([(LOG, encode(LogHeader(LOG_VERSION, 0, LogKind.PUBLISH)))], b"x", "has no user"),
        ([(LOG, PUBLISH)], b"x", "a publish has no header dlx-content"),
        ([(LOG, PUBLISH), (CONTENT, b"")], b"x", "the properties cannot be read"),
        ([(LOG, PUBLISH), (CONTENT, b"\x80\x00\x05a")], b"x", "the properties cannot be read"),
        ([(LOG, PUBLISH), (CONTENT, b"\0\0")], None, "a publish has no value"),
        ([(LOG, OF_FLAGS), (CONTENT, b"\0\0")], b"x", "no publish has the flags 300"),
        ([(LOG, COMMAND)], BAD_DECIMAL, "the command cannot be read"),
        *(
            ([(LOG, encode(LogHeader(LOG_VERSION, 0, kind, "ann", "c1")))], b"\xc1", words)
            for kind, words in (
                (LogKind.COMMAND, "the command cannot be read"),
                (LogKind.SETTLE, "the value of the record cannot be read"),
                (LogKind.EPOCH, "the value of the record cannot be read"),
                (LogKind.DIGEST, "the value of the record cannot be read"),
            )
        ),
        ([(LOG, encode(LogHeader(LOG_VERSION, 0, LogKind.COMMAND)))], None, "cannot be read"),
    ],
)
def test_a_record_that_is_none_of_the_log_changes_nothing(job, front, headers, value, words):
    front.begin("one")
    front.open("c1")
    front.foreign(headers, value)
    front.ask("c1", commands.DeclareQueue(queue=a_queue("q")))
    front.publish("c1", "", "q")

    job.follow(front, (2,))

    [row] = job.rows("quarantine")
    assert (row["offset"], row["cause"], row["record_value"]) == (2, "not_of_the_log", value)
    assert words in row["detail"]
    assert len(job.rows("events")) == len(front.rows)
    assert len(job.rows("messages")) == 1


def test_a_batch_of_strangers_alone_reaches_no_shard(job, front):
    front.foreign([], b"x")

    [reports] = job.follow(front)

    assert reports.shards == []
    assert len(job.rows("quarantine")) == 1


@pytest.mark.parametrize("at_ms", [-1, 8_000_000_000_000_000, (1 << 63) - 1])
def test_a_stranger_from_beyond_the_dates_that_there_are_has_the_last_one(job, front, at_ms):
    front.begin("one")
    stranger = LogRecord(len(front.records), at_ms, [], b"x")

    job.run([*front.records, stranger])

    [row] = job.rows("quarantine")
    assert (row["offset"], row["cause"]) == (stranger.offset, "not_of_the_log")
    assert row["origin"]["timestamp"].timestamp() == min(at_ms / 1000, MAX_TIME_MS / 1000)


def test_clients_of_the_wire_format_are_refused_in_a_sequenced_vhost(job):
    vhost = (wire.VHOST, b"shop")
    records = [
        LogRecord(0, 1, [vhost, (wire.ROUTING_KEY, b"q")], b"body"),
        LogRecord(1, 1, [vhost, (wire.OP, b"purge")], b'{"queue": "q"}'),
        LogRecord(2, 1, [vhost, (wire.OP, b"tick")], b'{"op": "tick", "lane": 0}'),
        LogRecord(3, 1, [(wire.VHOST, b"none")], b"body"),
        LogRecord(4, 1, [vhost, (wire.ROUTING_KEY, VERSION)], b"body"),
    ]

    assert {row.shard for row in job.read(records, "dlx.publishes")} == {FILES_KEY}

    found = [(row["offset"], row["cause"]) for row in job.rows("quarantine")]
    assert found == [
        *((0, "sequenced_vhost"), (1, "sequenced_vhost")),
        *((3, "unlisted_vhost"), (4, "sequenced_vhost")),
    ]
    assert job.rows("quarantine")[0]["detail"].startswith(
        "the vhost 'shop' is served by the AMQP front (sequenced = true)"
    )


def test_what_a_front_copies_is_not_quarantined_and_reaches_no_shard(job):
    vhost = (wire.VHOST, b"shop")
    sent = [
        LogRecord(0, 1, [vhost, (wire.OP, b"purge")], b'{"queue": "q"}'),
        LogRecord(1, 1, [vhost, (wire.OP, b"get")], b'{"queue": "q"}'),
        LogRecord(2, 1, [vhost, (wire.ROUTING_KEY, b"q")], b"body"),
        LogRecord(3, 1, [vhost, (wire.ROUTING_KEY, VERSION)], b"body"),
        LogRecord(4, 1, [vhost, (wire.OP, b"purge"), ("x\ufffd", b"1")], b'{"queue": "q"}'),
        LogRecord(5, 1, [("x\ufffd", b"1"), vhost, (wire.ROUTING_KEY, VERSION)], b"body"),
    ]
    mapped = [
        LogRecord(0, 1, [], b'{"queue": "q"}'),
        LogRecord(1, 1, [], b"{}"),
        LogRecord(2, 1, [], b'{"queue": "q", "more": "%s"}' % (b"x" * 1_000)),
        LogRecord(3, 1, [("ok", b"1"), ("\ufffd", b"1")], b'{"queue": "q"}'),
        LogRecord(4, 1, [("ok", b"1")], b'{"queue": "q"}'),
        LogRecord(5, 1_700_000_000_000_000, [], b'{"queue": "q"}'),
    ]

    assert {row.shard for row in job.read(sent, "dlx.commands")} == {FILES_KEY}
    assert {row.shard for row in job.read(mapped, "orders")} == {FILES_KEY}

    found = {(row["topic_number"], row["offset"], row["cause"]) for row in job.rows("quarantine")}
    assert found == {
        (COMMANDS, 1, "sequenced_vhost"),
        (COMMANDS, 2, "sequenced_vhost"),
        (COMMANDS, 4, "not_utf8"),
        (COMMANDS, 5, "not_utf8"),
        (ORDERS, 1, "unmapped"),
        (ORDERS, 2, "body_too_large"),
        (ORDERS, 3, "not_utf8"),
        (ORDERS, 5, "bad_timestamp"),
    }
    assert job.rows("messages") == []


def test_the_job_answers_those_whose_commands_were_copied(job, front):
    front.begin("one")
    front.open("c1")
    front.ask("kafka:c7", copied_command(commands.DeclareQueue(queue=a_queue("q"), channel="c7")))
    front.ask("kafka:c7", copied_command(commands.Depth(queue="none", channel="c7")))
    front.ask("c1", commands.Depth(queue="q", channel="c1"))
    front.publish("kafka:pub", "missing", "", b"body")
    front.publish("kafka:pub", "", "q", b"body", flags=CONFIRM)

    [first, *_rest] = front.told
    batch = front.fold.finish()._replace(outbound=front.told, first_outbound=5)
    found = copied_out(batch)

    assert first.actor.channel == "c1"
    assert found.first_outbound == 5
    assert [(out.actor.channel, type(out).__name__) for out in found.outbound] == [
        ("c7", "AnswerOut"),
        ("c7", "AnswerOut"),
        ("pub", "PublishErrorOut"),
        ("pub", "ConfirmOut"),
    ]


def test_a_record_of_a_newer_version_stops_the_job(job, front):
    header = encode(LogHeader(LOG_VERSION + 1, 0, LogKind.TICK))
    front.foreign([(LOG, header)], None)

    with pytest.raises(NewerLogError, match="has version 3, and this program knows 2: upgrade it"):
        job.follow(front)


@pytest.mark.parametrize(("snapshot", "end"), [(5, 9), (12, 12), (14, 17)])
def test_a_job_goes_on_from_what_a_fold_of_the_front_came_to(job, front, snapshot, end):
    play(front)
    front.digest()
    raws = [
        RawRecord(each.offset, each.at_ms, headers.get(LOG), headers.get(CONTENT), each.value)
        for each in front.records
        for headers in [dict(each.headers)]
    ]
    report = job.run(front.records[:end])
    with Ledger(Location(str(job.root))) as ledger:
        ledger.commit(report.files, BatchRow("q", 0, 1, BatchDetail()))

    before = RangeFold(front.config, no_fetch, terms=front.terms)
    for raw in raws[:snapshot]:
        before.take(raw)
    before.rest()
    before.fold.finish()
    fold = RangeFold(front.config, no_fetch, before.entries, terms=front.terms)
    for raw in raws[snapshot:end]:
        fold.take(raw)
    fold.rest()
    state = state_of(fold, snapshot, NUMBER)
    assert (state.begin, state.end) == (snapshot, end)
    job.states[KEY] = MapState()
    for key, value in state.entries.items():
        job.states[KEY].updateValue((key,), (value,))
    job.run(front.records[end:])

    rows = job.rows("events")
    assert [(row["seq"], row["kind"]) for row in rows] == [
        (row.seq, row.kind.name.lower()) for row in front.rows
    ]
    assert {row["message_id"]["topic_number"] for row in rows if row["message_id"]} == {NUMBER}
    assert [row["body"] for row in job.rows("dead_letters")] == [b"body 2", b"short"]


def no_fetch(_offset):
    raise AssertionError("no message is asked for")


def test_the_last_range_whose_digests_are_equal_is_told_and_remembered(job, front):
    play(front)
    front.digest()
    front.publish("c1", "", "work", b"more")
    stats = ShardStats(BatchDetail())

    for reports in job.follow(front, (5, len(front.records) - 1)):
        stats.update(reports.shards)

    boundary, _digest = front.fold.last_digest
    assert stats.compared == {"shop": (boundary - 10, boundary)}
    assert ShardStats(BatchDetail(compared=stats.compared)).compared == stats.compared


def test_a_wrong_digest_fails_the_batch(job, front):
    play(front)
    front.digest(wrong=b"wrong")

    with pytest.raises(FoldsDifferError, match=r"between offset 10 and 20: .* here, 77726f6e67 in"):
        job.follow(front)
    assert job.rows("events") == []


def test_the_log_of_another_core_is_not_folded(job, front):
    front.begin("one")
    front.terms = Terms(front.terms.core_version + 1, front.terms.rules)
    front.fold.terms = None
    front.begin("newer")

    with pytest.raises(OtherTermsError, match=r"broker core \d+; this program has \d+\. Upgrade"):
        job.follow(front)
