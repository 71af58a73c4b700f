"""A running job explains that Kafka no longer answers, and continues."""

import pytest

from streaming.config import JobConfig, KafkaSettings
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.topics.admin import KafkaTopics, KafkaUnreachableError
from streaming.pipeline.topics.offset_gaps import GapWatch

NOBODY = "127.0.0.1:1"


@pytest.fixture
def config(monkeypatch):
    monkeypatch.setattr("streaming.pipeline.topics.admin.REQUEST_TIMEOUT_S", 0.3)
    return JobConfig(kafka=KafkaSettings(bootstrap_servers=(NOBODY,), connect_timeout_ms=300))


@pytest.fixture
def topics(config):
    return KafkaTopics(config, {"bootstrap.servers": NOBODY})


def test_each_request_fails_with_an_explanation(topics):
    topics.partitions["dlx.publishes"] = 1
    no_answer = (
        rf"kafka\.bootstrap_servers: no answer from {NOBODY} within 0\.3 s .*is Kafka running"
    )

    with pytest.raises(KafkaUnreachableError, match=no_answer):
        topics.refresh()
    with pytest.raises(KafkaUnreachableError, match=no_answer):
        topics.prepare()
    with pytest.raises(KafkaUnreachableError, match="did not return the offsets of the inputs"):
        topics.bounds(["dlx.publishes"])


def test_the_watch_finds_no_gap_while_kafka_is_unreachable(config, topics, tmp_path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(
        'v1\n{"batchTimestampMs":0}\n0:{"dlx.publishes":{"0":5}}'
    )
    watch = GapWatch(config, topics, Checkpoint(tmp_path))
    try:
        assert watch.find(planned=True) is None
    finally:
        watch.stop()
