"""Mapped topics that do not exist: refused with a remedy, or created in a Kafka of one's own."""

import logging
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.cimpl import NewTopic

from streaming.config import parse_config
from streaming.pipeline.topics.admin import KafkaTopics, KafkaUnreachableError
from streaming.pipeline.topics.record_limits import TopicLimitError

TEXT = """
    [kafka]
    bootstrap_servers = ["127.0.0.1:1"]
    connect_timeout_ms = 100
    [[inputs]]
    topic = "dlx.publishes"
    partitions = 2
    [[inputs]]
    topic = "dlx.commands"
    source = "commands"
    [[inputs]]
    topic = "shop.orders"
    mapping = { exchange = "", routing_key = "orders" }
"""
CONFIG = parse_config(TEXT)
PATCHED = "streaming.pipeline.topics.admin.{}"


class FakeAdmin:
    """Knows topics and their partitions, creates and deletes some."""

    def __init__(self, *topics: str) -> None:
        self.topics = dict.fromkeys(topics, 3)
        self.refusals: list[int] = []

    def list_topics(self, **_options: Any) -> Any:
        return SimpleNamespace(topics=dict(self.topics), cluster_id="c", brokers={})

    def create_topics(self, topics: list[NewTopic], **_options: Any) -> dict[str, Future[Any]]:
        self.topics |= {each.topic: each.num_partitions for each in topics}
        return {each.topic: done() for each in topics}

    def delete_topics(self, topics: list[str], **_options: Any) -> dict[str, Future[Any]]:
        for name in topics:
            del self.topics[name]
        return {name: done() for name in topics}

    def describe_topics(self, asked: TopicCollection, **_options: Any) -> dict[str, Future[Any]]:
        return {
            name: done(SimpleNamespace(topic_id=name, partitions=[0] * self.topics[name]))
            for name in asked.topic_names
        }

    def list_offsets(self, asked: dict[Any, Any], **_options: Any) -> dict[Any, Future[Any]]:
        answer: dict[Any, Future[Any]] = {}
        for place in asked:
            answer[place] = done(SimpleNamespace(offset=7))
            if self.refusals:
                answer[place] = Future()
                answer[place].set_exception(KafkaException(KafkaError(self.refusals.pop())))
        return answer


def done(value: Any = None) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


@pytest.fixture
def kafka(monkeypatch):
    """A function that makes a Kafka with these topics."""
    monkeypatch.setattr(PATCHED.format("outbound_record_bytes"), lambda *_: 1)

    def make(*topics: str) -> FakeAdmin:
        admin = FakeAdmin(*topics)
        monkeypatch.setattr(PATCHED.format("AdminClient"), lambda _properties: admin)
        return admin

    return make


def test_a_missing_mapped_topic_is_refused_with_the_command_that_creates_it(kafka):
    admin = kafka("dlx.publishes")

    with pytest.raises(KafkaUnreachableError) as refused:
        KafkaTopics(CONFIG, {}).prepare()

    command = "kafka-topics --create --topic shop.orders --bootstrap-server 127.0.0.1:1"
    assert str(refused.value).startswith("inputs: ")
    assert command in str(refused.value)
    assert list(admin.topics) == ["dlx.publishes"]


def test_a_kafka_of_ones_own_gets_the_missing_mapped_topic_with_one_partition(kafka, caplog):
    caplog.set_level(logging.INFO)
    admin = kafka()
    topics = KafkaTopics(CONFIG, {}, creates_mapped=True)

    assert topics.known_topics() == set()
    topics.prepare()

    assert (admin.topics["shop.orders"], admin.topics["dlx.publishes"]) == (1, 2)
    assert topics.partitions["shop.orders"] == 1
    [record] = caplog.records
    assert "shop.orders" in record.getMessage()


def test_a_mapped_topic_that_exists_stays_as_it_is(kafka, caplog):
    caplog.set_level(logging.INFO)
    admin = kafka("shop.orders")

    KafkaTopics(CONFIG, {}, creates_mapped=True).prepare()

    assert admin.topics["shop.orders"] == 3
    assert caplog.records == []


def test_a_start_that_is_refused_deletes_the_mapped_topic_again(kafka, monkeypatch):
    def refuse(*_arguments):
        raise TopicLimitError("too small")

    admin = kafka()
    monkeypatch.setattr(PATCHED.format("outbound_record_bytes"), refuse)

    with pytest.raises(TopicLimitError):
        KafkaTopics(CONFIG, {}, creates_mapped=True).prepare()

    assert admin.topics == {}


def test_the_offsets_of_a_new_topic_are_asked_for_until_it_has_a_leader(kafka):
    admin = kafka("dlx.publishes", "dlx.commands", "shop.orders")
    topics = KafkaTopics(parse_config(TEXT.replace("100", "60_000")), {})
    topics.prepare()
    admin.refusals = [
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
    ]

    found = topics.bounds(["dlx.commands"])

    assert found == {("dlx.commands", number): (7, 7) for number in range(3)}
    admin.refusals = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaUnreachableError, match="offsets of the inputs"):
        topics.bounds(["dlx.commands"])
