"""The broker's properties, files and ports."""

import os
import socket
from pathlib import Path

import pytest

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.kafka.broker import BrokerLog
from streaming.embedded.kafka.broker_properties import (
    BrokerLimits,
    broker_properties,
)
from streaming.embedded.kafka.data_folder import cluster_id_of, new_cluster_id, take_directory
from streaming.embedded.kafka.ports import LOOPBACK, RANGE, Ports, choose_ports, free_port, is_free


def listener(port: int = 0) -> socket.socket:
    server = socket.socket()
    server.bind((LOOPBACK, port))
    server.listen(1)
    return server


def test_limits_and_own_properties_reach_the_broker():
    limits = BrokerLimits(
        max_message_bytes=60_000_000,
        retention_ms=1000,
        segment_bytes=2000,
        properties={"num.io.threads": "9", "log.flush.interval.messages": "1"},
    )
    properties = broker_properties(limits, Ports(1, 2), Path("/d"))

    wanted = {
        "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        "log.dirs": "/d",
        "message.max.bytes": "60000000",
        "fetch.max.bytes": "60000000",
        "socket.request.max.bytes": "120000000",
        "log.retention.ms": "1000",
        "log.segment.bytes": "2000",
        "auto.create.topics.enable": "false",
        "transaction.state.log.replication.factor": "1",
        "num.io.threads": "9",
        "log.flush.interval.messages": "1",
    }
    assert {name: properties[name] for name in wanted} == wanted


def test_a_restarted_broker_reuses_its_ports(tmp_path):
    first = choose_ports(tmp_path / "ports.json", None)
    second = choose_ports(tmp_path / "ports.json", None)

    assert first == second
    assert first.port != first.controller_port
    assert {first.port, first.controller_port} <= set(RANGE)


def test_a_port_that_is_now_in_use_is_replaced(tmp_path):
    first = choose_ports(tmp_path / "ports.json", None)
    with listener(first.port):
        second = choose_ports(tmp_path / "ports.json", None)

    assert second == Ports(second.port, first.controller_port)
    assert second.port != first.port


def test_a_damaged_file_of_ports_is_ignored(tmp_path):
    (tmp_path / "ports.json").write_text("{")

    assert choose_ports(tmp_path / "ports.json", None).port in RANGE


def test_a_requested_port_is_used_or_refused(tmp_path):
    port = free_port()
    ports = choose_ports(tmp_path / "ports.json", port)
    with listener() as server:
        taken = server.getsockname()[1]
        with pytest.raises(EmbeddedError) as refused:
            choose_ports(tmp_path / "ports.json", taken)

    assert (ports.port, is_free(port)) == (port, True)
    assert f"port {taken} on 127.0.0.1 is in use" in str(refused.value)


def test_a_directory_is_locked_by_one_broker(tmp_path):
    lock = take_directory(tmp_path / "k", tmp_path / "logs", timeout_s=0)

    with pytest.raises(EmbeddedError, match=f"another Kafka .*{tmp_path}/k"):
        take_directory(tmp_path / "k", tmp_path / "logs", timeout_s=0)

    os.close(lock)
    os.close(take_directory(tmp_path / "k", tmp_path / "logs", timeout_s=0))


def test_an_unusable_directory_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(EmbeddedError, match=rf"File exists \({tmp_path}/file\)"):
        take_directory(tmp_path / "file", tmp_path, timeout_s=0)
    with pytest.raises(EmbeddedError, match="comma"):
        take_directory(tmp_path / "a,b", tmp_path, timeout_s=0)


def test_data_belongs_to_its_cluster_id(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("#\nnode.id=1\ncluster.id=abc\n")

    assert cluster_id_of(tmp_path / "data") == "abc"
    assert cluster_id_of(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("content", "what"),
    [(None, "No such file"), (b"node.id=1\n", "names no cluster"), (b"\xff\x00", "decode")],
)
def test_damaged_data_is_refused_with_a_remedy(tmp_path, content, what):
    (tmp_path / "data").mkdir()
    if content is not None:
        (tmp_path / "data" / "meta.properties").write_bytes(content)

    with pytest.raises(EmbeddedError) as refused:
        cluster_id_of(tmp_path / "data")

    assert what in str(refused.value)
    assert "Move it away" in str(refused.value)


def test_a_cluster_id_has_kafkas_form_and_never_looks_like_an_option():
    ids = {new_cluster_id() for _ in range(1000)}

    assert len(ids) == 1000
    assert {len(identifier) for identifier in ids} == {22}
    assert not any(identifier.startswith("-") for identifier in ids)


def a_log(directory: Path, before: str, after: str, printed: str) -> BrokerLog:
    log = BrokerLog(directory)
    log.file.write_text(before)
    log.begin()
    log.file.write_text(before + after)
    log.output.write_text(printed)
    return log


def test_only_log_lines_of_the_current_start_explain_a_failure(tmp_path):
    log = a_log(tmp_path, "t ERROR Address already in use\n", "t INFO fine\n", "")

    assert not log.says_port_taken()
    assert log.since_begin() == "t INFO fine\n"


def test_a_rolled_log_is_read_from_its_beginning(tmp_path):
    log = a_log(tmp_path, "old " * 100, "", "")
    log.file.write_text("new")

    assert log.since_begin() == "new"


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("Caused by: Address already in use", "Its port is in use by another program"),
        ("Exception in thread: java.lang.OutOfMemoryError", "It has too little memory"),
        ("t ERROR No space left on device", "disk of /k is full"),
        ("t ERROR CorruptRecordException", "move the directory away to start with an empty Kafka"),
    ],
)
def test_an_unexpected_end_is_explained_with_a_remedy(tmp_path, said, remedy):
    log = a_log(tmp_path, "", "t INFO starting\n", said + "\n")

    explained = log.explain_end(1, Path("/k"))

    assert "(exit status 1)" in explained.splitlines()[0]
    assert explained.splitlines()[1] == f"  {said}"
    assert all(part in explained for part in (remedy, str(log.file), str(log.output)))
