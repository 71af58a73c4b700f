"""`dlx amqp` on a real Kafka: confirms, restarts, a standby, a front that sleeps; the tables."""

import json
import os
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pika
import pika.exceptions
import pytest

from streaming.config import JobConfig, show_config
from streaming.config.amqp import AmqpSettings
from streaming.config.inputs import InputSettings
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.outbound import OutboundSettings
from streaming.config.vhosts import VhostSettings
from streaming.job_locations import tables_place
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from tests.bench.kafka_log import KafkaLog
from tests.bench.processes import Process
from tests.fixtures.waiting import wait_until

WORK = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


class Fronts:
    """A vhost on a log, and the fronts that tests start for it."""

    def __init__(self, root: Path, servers: str) -> None:
        name = f"amqp-{uuid.uuid4().hex[:8]}"
        self.root = root
        self.servers = servers
        self.config = JobConfig(
            job=JobSettings(
                checkpoint_location=str(root / "checkpoints"),
                tables_location=str(root / "tables"),
                log_dir=str(root / "logs"),
                shuffle_partitions=2,
                driver_memory="1g",
            ),
            kafka=KafkaSettings(bootstrap_servers=(servers,)),
            vhosts={"/": VhostSettings(sequenced=True)},
            inputs=(
                InputSettings(topic=f"{name}.publishes"),
                InputSettings(topic=f"{name}.commands", source="commands"),
            ),
            outbound=OutboundSettings(topic=f"{name}.out.{{vhost}}.{{user}}"),
            amqp=AmqpSettings(log_topic=f"{name}.log.{{vhost}}", leaders_topic=f"{name}.leaders"),
        )
        self.file = root / "dlx.toml"
        self.file.write_text(show_config(self.config))
        self.processes: list[Process] = []
        self._connections: list[pika.BlockingConnection] = []

    def start(self, *options: str) -> Process:
        """Start a front on a free port."""
        name = f"front-{len(self.processes)}"
        command = ("streaming.cli", "amqp", "--config", str(self.file), "--port", "0", *options)
        return self._start(Process(self.root, name, *command))

    def start_job(self) -> Process:
        """Start the job."""
        return self._start(
            Process(self.root, "job", "streaming.cli", "run", "--config", str(self.file))
        )

    def _start(self, process: Process) -> Process:
        process.start()
        self.processes.append(process)
        return process

    def connect(self, front: Process) -> pika.BlockingConnection:
        """Connect to a front as soon as it listens."""
        prefix = "listening on "

        def url() -> str | None:
            front.check()
            lines = front.log.read_text().splitlines() if front.log.exists() else []
            return next((one.removeprefix(prefix) for one in lines if one.startswith(prefix)), None)

        wait_until(url, front.log_end)
        connection = pika.BlockingConnection(pika.URLParameters(f"{url()}/%2F"))
        self._connections.append(connection)
        return connection

    def end(self) -> None:
        """Close all connections, and kill what runs."""
        for connection in self._connections:
            with suppress(pika.exceptions.AMQPError):
                connection.close()
        for process in self.processes:
            process.kill()

    def tables(self) -> Tables:
        """The tables of the job."""
        place = tables_place(self.config, os.environ)
        return Tables(place.url, place.options)


@pytest.fixture
def fronts(tmp_path: Path, embedded_kafka) -> Iterator[Fronts]:
    """A vhost without a front."""
    fronts = Fronts(tmp_path, embedded_kafka.bootstrap_servers)
    yield fronts
    fronts.end()


def ready(channel, queue: str) -> int:
    """How many messages of a queue are ready."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def fill(channel, count: int, prefix: str = "m") -> None:
    """Publish messages, each confirmed."""
    for number in range(count):
        channel.basic_publish("", "work", f"{prefix}{number}".encode(), mandatory=True)


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
