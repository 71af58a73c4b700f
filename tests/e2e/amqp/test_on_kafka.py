"""`dlx amqp` on a real Kafka: confirms, restarts, a standby, a front that sleeps; the tables."""

import json
import os
import signal
from collections import Counter
from contextlib import closing
from pathlib import Path

import pika
import pika.exceptions
import pytest

from streaming.broker.commands import ImportDefinitions
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.job_locations import tables_place
from streaming.protocol.log_records import LogKind, read_command, read_header
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from streaming.sequencer.log_reader import LogReader, RawRecord, records_between
from tests.bench.kafka_log import KafkaLog
from tests.fixtures.fronts import Fronts
from tests.fixtures.waiting import wait_until

DOCKER = Path(__file__).resolve().parents[3] / "docker"
WORK = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def ready(channel, queue: str) -> int:
    """How many messages of a queue are ready."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def fill(channel, count: int, prefix: str = "m") -> None:
    """Publish messages, each confirmed."""
    for number in range(count):
        channel.basic_publish("", "work", f"{prefix}{number}".encode(), mandatory=True)


def records(reader: LogReader) -> list[RawRecord]:
    """The next records of a log, once there are any."""
    found: list[RawRecord] = []

    def are_there() -> bool:
        found.extend(reader.read(0.5))
        return bool(found)

    wait_until(are_there)
    return found


def declare(channel) -> None:
    """Declare a queue with dead letters."""
    channel.confirm_delivery()
    channel.queue_declare("work", durable=True, arguments=WORK)
    channel.queue_declare("dead", durable=True)


def test_what_was_confirmed_and_settled_survives_a_stop_and_a_kill(fronts):
    first = fronts.start()
    channel = fronts.connect(first).channel()
    declare(channel)
    fill(channel, 30)
    taken = [channel.basic_get("work") for _ in range(12)]
    for method, _properties, _body in taken[:5]:
        channel.basic_ack(method.delivery_tag)
    for method, _properties, _body in taken[5:9]:
        channel.basic_reject(method.delivery_tag, requeue=False)
    assert (ready(channel, "work"), ready(channel, "dead")) == (18, 4)
    first.stop()

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as ended:
        channel.basic_get("work")
    assert ended.value.reply_code == 320

    second = fronts.start()
    channel = fronts.connect(second).channel()
    channel.confirm_delivery()
    assert (ready(channel, "work"), ready(channel, "dead")) == (21, 4)
    method, _properties, body = channel.basic_get("work", auto_ack=True)
    assert (method.redelivered, body) == (True, b"m9")
    _method, properties, body = channel.basic_get("dead", auto_ack=True)
    assert (properties.headers["x-death"][0]["reason"], body) == ("rejected", b"m5")
    fill(channel, 20, "n")
    second.kill()

    channel = fronts.connect(fronts.start()).channel()
    assert (ready(channel, "work"), ready(channel, "dead")) == (40, 3)


def test_the_definitions_of_docker_compose_let_its_user_in(fronts):
    document = json.loads((DOCKER / "amqp.json").read_text("utf-8"))
    file = DOCKER / "amqp.json"

    for front in (fronts.start("--definitions", str(file)) for _ in range(2)):
        channel = fronts.connect(front).channel()
        declare(channel)
        fill(channel, 2)
        front.stop()

    front = fronts.start("--definitions", str(file))
    assert ready(fronts.connect(front).channel(), "work") == 4
    topic = fronts.config.log_topics()["/"]
    with closing(LogReader({"bootstrap.servers": fronts.servers}, topic)) as reader:
        commands = [
            read_command(record.value or b"")
            for portion in records_between(reader, 0, reader.ends()[1])
            for record in portion
            if read_header(record.header).kind == LogKind.COMMAND
        ]
    imported = next(each.definitions for each in commands if isinstance(each, ImportDefinitions))
    assert imported["permissions"] == document["permissions"]
    assert "users" not in imported, "any program may read the log"


def test_a_takeover_does_not_bring_back_what_was_deleted_since_the_start(fronts):
    queues = [{"name": name, "vhost": "/", "durable": True} for name in ("work", "spare")]
    file = fronts.root / "definitions.json"
    file.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": queues}))
    first = fronts.start("--definitions", str(file))
    fronts.connect(first).channel().queue_delete("spare")
    standby = fronts.start("--standby", "--definitions", str(file))
    wait_until(lambda: standby.log.exists() and "following" in standby.log.read_text())

    first.stop()
    channel = fronts.connect(standby).channel()
    assert ready(channel, "work") == 0
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as gone:
        ready(channel, "spare")
    assert gone.value.reply_code == 404
    standby.stop()

    started = fronts.start("--definitions", str(file))
    assert ready(fronts.connect(started).channel(), "spare") == 0


def test_a_standby_replaces_a_leader_that_sleeps_and_that_confirms_nothing_more(fronts):
    leader = fronts.start()
    asleep = fronts.connect(leader).channel()
    declare(asleep)
    fill(asleep, 10)
    standby = fronts.start("--standby")
    wait_until(lambda: standby.log.exists() and "following" in standby.log.read_text())
    assert leader.pid is not None

    os.kill(leader.pid, signal.SIGSTOP)
    channel = fronts.connect(standby).channel()
    channel.confirm_delivery()
    fill(channel, 5, "n")
    os.kill(leader.pid, signal.SIGCONT)

    with pytest.raises(pika.exceptions.AMQPError):
        fill(asleep, 1, "lost")
    assert ready(channel, "work") == 15
    bodies = [channel.basic_get("work", auto_ack=True)[2] for _ in range(15)]
    assert b"lost0" not in bodies


def test_a_standby_that_slept_does_not_replace_a_healthy_leader(fronts):
    leader = fronts.start()
    channel = fronts.connect(leader).channel()
    declare(channel)
    standby = fronts.start("--standby")
    wait_until(lambda: standby.log.exists() and "records of" in standby.log.read_text())
    assert standby.pid is not None

    os.kill(standby.pid, signal.SIGSTOP)
    for number in range(50):  # for longer than a takeover takes
        fill(channel, 1, f"asleep {number} ")
        channel.connection.sleep(0.1)
    os.kill(standby.pid, signal.SIGCONT)
    for number in range(50):
        fill(channel, 1, f"awake {number} ")
        channel.connection.sleep(0.1)

    assert ready(channel, "work") == 100
    assert "leads since" not in standby.log.read_text()


def test_a_backlog_larger_than_the_memory_for_bodies_is_delivered_in_order(fronts):
    connection = fronts.connect(fronts.start())
    channel = connection.channel()
    declare(channel)
    bodies = [f"{number:04}".encode() * 2_500 for number in range(600)]  # 6 MB
    for body in bodies:
        channel.basic_publish("", "work", body)
    channel.basic_qos(prefetch_count=200)

    found: list[bytes] = []
    for method, _properties, body in channel.consume("work", inactivity_timeout=60):
        assert method is not None, f"{len(found)} of {len(bodies)} messages came"
        found.append(body)
        if len(found) == len(bodies):
            break
        if len(found) > 100:
            channel.basic_ack(method.delivery_tag)
        elif len(found) == 100:
            channel.basic_nack(method.delivery_tag, multiple=True, requeue=False)

    assert found == bodies
    assert ready(channel, "dead") == 100
    first = channel.basic_get("dead", auto_ack=True)
    assert first[2] == bodies[0]


def test_a_message_that_the_log_cannot_take_closes_its_channel_only(fronts):
    connection = fronts.connect(fronts.start())
    channel = connection.channel()
    declare(channel)

    for body, headers in ((b"x" * 3_000_000, {}), (b"x", {"h": "x" * 20_000})):
        large = connection.channel()
        large.confirm_delivery()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            large.basic_publish("", "work", body, pika.BasicProperties(headers=headers))
        assert refused.value.reply_code == 406
    fill(channel, 1)

    assert ready(channel, "work") == 1


def test_publishers_wait_while_kafka_sleeps_and_nobody_takes_over(tmp_path):
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        fronts = Fronts(tmp_path, kafka.bootstrap_servers)
        try:
            assert kafka.pid is not None
            _sleep_of_kafka(fronts, kafka.pid)
        finally:
            fronts.end()


def _sleep_of_kafka(fronts: Fronts, kafka_pid: int) -> None:
    connection = fronts.connect(fronts.start())
    channel = connection.channel()
    declare(channel)
    fill(channel, 10)
    unconfirmed = connection.channel()
    standby = fronts.start("--standby")
    wait_until(lambda: standby.log.exists() and "following" in standby.log.read_text())
    heard: list[str] = []
    connection.add_on_connection_blocked_callback(lambda *_: heard.append("blocked"))
    connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))

    def hears(word: str) -> bool:
        connection.process_data_events(0.1)
        return word in heard

    os.kill(kafka_pid, signal.SIGSTOP)
    try:
        for number in range(20):
            unconfirmed.basic_publish("", "work", f"n{number}".encode())
        wait_until(lambda: hears("blocked"))
        connection.process_data_events(2 * fronts.config.amqp.takeover_ms / 1000)
        assert heard == ["blocked"]
    finally:
        os.kill(kafka_pid, signal.SIGCONT)

    wait_until(lambda: hears("unblocked"))
    connection.process_data_events(2 * fronts.config.amqp.takeover_ms / 1000)
    assert ready(channel, "work") == 30
    assert "listening" not in standby.log.read_text()


def test_a_closed_reader_of_a_log_is_given_nothing_until_it_goes_on(fronts):
    channel = fronts.connect(fronts.start()).channel()
    declare(channel)
    fill(channel, 1)
    topic = fronts.config.log_topics()["/"]
    with closing(LogReader({"bootstrap.servers": fronts.servers}, topic)) as reader:
        end = reader.ends()[1]
        reader.seek(end - 1)
        assert [record.value for record in records(reader)] == [b"m0"]

        reader.close()
        fill(channel, 1, "n")

        assert reader.read(1.0) == []
        reader.seek(end)
        assert [record.value for record in records(reader)] == [b"n0"]


@pytest.mark.timeout(900)  # Spark starts, on a machine that may be busy
def test_the_job_keeps_the_tables_of_what_the_front_has_answered(fronts):
    place = tables_place(fronts.config, os.environ)

    def count_in(name: str) -> int:
        job.check()
        with closing(Tables(place.url, place.options)) as tables:
            if not tables.has(name):
                return 0
            tables.view(name)
            return int(tables.values(f"SELECT count(*) FROM {name}")[0][0])

    front = fronts.start()
    connection = fronts.connect(front)
    channel = connection.channel()
    declare(channel)
    channel.queue_declare("short", arguments={"x-message-ttl": 1, **WORK})
    properties = pika.BasicProperties(
        message_id="order-17", headers={"tenant": "a", "retries": 3}, correlation_id="c"
    )
    channel.basic_publish("", "short", b"late", properties)
    fill(channel, 40)
    job = fronts.start_job()
    log = KafkaLog(fronts.servers)
    wait_until(
        lambda: count_in("messages") > 0, job.log_end, 600.0, 1.0
    )  # the job has made its topics
    log.send(fronts.config.topics_of("publishes")[0], b"no", [("dlx-routing-key", b"work")])
    log.flush()
    taken = [channel.basic_get("work") for _ in range(20)]
    for method, _properties, _body in taken[:10]:
        channel.basic_ack(method.delivery_tag)
    for method, _properties, _body in taken[10:15]:
        channel.basic_reject(method.delivery_tag, requeue=False)
    left = ready(channel, "work")
    connection.close()  # five deliveries return
    front.stop()
    front = fronts.start()
    channel = fronts.connect(front).channel()
    assert ready(channel, "work") == left + 5
    channel.confirm_delivery()
    fill(channel, 3, "n")

    wait_until(lambda: count_in("messages") == 44, job.log_end, 600.0, 1.0)
    wait_until(lambda: count_in("quarantine") == 1, job.log_end, 600.0, 1.0)
    job.stop()

    with closing(fronts.tables()) as tables:
        assert balance(tables, whole=True).findings == []
        for name in ("events", "dead_letters", "messages", "quarantine"):
            tables.view(name)
        refused = tables.values("SELECT cause, record_value FROM quarantine")
        deaths = tables.values("SELECT queue, reason, count(*) FROM dead_letters GROUP BY ALL")
        kinds = Counter(dict(tables.values("SELECT kind, count(*) FROM events GROUP BY ALL")))
        [(headers, message_id, correlation)] = tables.values(
            "SELECT headers, properties.message_id, properties.correlation_id "
            "FROM messages WHERE routing_key = 'short'"
        )
    assert sorted(deaths) == [("short", "expired", 1), ("work", "rejected", 5)]
    assert kinds["acked"] == 10
    assert kinds["requeued"] == 5
    assert kinds["void"] == 0
    assert [(cause, bytes(value)) for cause, value in refused] == [("sequenced_vhost", b"no")]
    assert (message_id, correlation) == ("order-17", "c")
    assert json.loads(headers) == {"tenant": "a", "retries": 3}
