"""`dlx kafka`: a broker that a user starts, stops and starts again."""

import signal
import socket

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streaming.embedded.kafka.ports import free_port, is_free
from tests.fixtures.dlx_process import DlxProcess

FOLDER = "café créé"


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that starts the command in a folder and returns its process and address.

    The folder has a name that Java, with the locale of the process, cannot spell.
    """
    monkeypatch.setenv("LC_ALL", "C")
    started: list[DlxProcess] = []

    def begin(*arguments):
        log = tmp_path / f"out-{len(started)}"
        folder, err = str(tmp_path / FOLDER), tmp_path / f"err-{len(started)}"
        process = DlxProcess("kafka", folder, *arguments, out=log, err=err)
        started.append(process)
        process.until_it_says("Ctrl-C stops it")
        first, *_ = process.output().splitlines()
        assert first.startswith("Kafka listens on 127.0.0.1:")
        return process, first.split()[-1]

    yield begin
    for process in started:
        process.kill()


def test_topics_stay_between_two_starts_and_a_signal_ends_it_cleanly(start, tmp_path):
    port = free_port()
    process, address = start("--port", str(port))
    assert address == f"127.0.0.1:{port}"
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic("letters", 1)])["letters"].result(60)
    del admin
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    producer.produce("letters", b"kept")
    assert producer.flush(60) == 0
    del producer
    process.signal(signal.SIGINT, group=True)
    assert process.wait() == 0
    assert is_free(port)

    process, again = start()

    assert again == address
    consumer = Consumer({"bootstrap.servers": again, "log_level": 0, "group.id": "test"})
    consumer.assign([TopicPartition("letters", 0, 0)])
    record = consumer.poll(60)
    assert record is not None
    consumer.close()
    assert (record.error(), record.value()) == (None, b"kept")
    assert (tmp_path / FOLDER / "logs" / "kafka.log").is_file()
    process.signal(signal.SIGTERM)
    assert process.wait() == 0


def test_without_a_port_it_listens_where_the_configuration_says(start, tmp_path):
    port = free_port()
    config = tmp_path / "dlx.toml"
    config.write_text(f'kafka.bootstrap_servers = ["localhost:{port}"]')

    process, address = start("--config", str(config))

    assert address == f"127.0.0.1:{port}"
    assert f"port {port}: " in process.err.read_text()
    process.signal(signal.SIGTERM)
    assert process.wait() == 0


def test_a_port_in_use_is_refused_in_one_line_before_any_process_starts(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        out, err = tmp_path / "out", tmp_path / "err"
        process = DlxProcess("kafka", str(tmp_path / "k"), "--port", str(port), out=out, err=err)
        assert process.wait() == 2

    assert out.read_text() == ""
    [line] = err.read_text().splitlines()
    assert f"port {port} on 127.0.0.1 is in use" in line
    assert not (tmp_path / "k" / "logs" / "kafka.out").exists()
