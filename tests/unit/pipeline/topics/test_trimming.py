"""The choice of inputs to trim, even if Kafka cannot describe them at first."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streaming.config import JobConfig
from streaming.config.vhosts import VhostSettings
from streaming.pipeline.topics import trimming

LOWEST = {(1, 0): 7, (2, 0): 9}
COMMITTED = {"dlx.publishes": {"0": 100}, "dlx.commands": {"0": 100}}


class FakeAdmin:
    """Describes topics, possibly only after a failure, and records deletions."""

    def __init__(self, retentions: dict[str, str], failures: int) -> None:
        self.retentions = retentions
        self.failures = failures
        self.asked: list[str] = []
        self.deleted: list[tuple[str, int]] = []
        self.read: list[tuple[str, int, int]] | None = None

    def describe_configs(self, resources: list[Any], **_options: Any) -> dict[Any, Future[Any]]:
        [resource] = resources
        self.asked.append(resource.name)
        future: Future[Any] = Future()
        if self.failures:
            self.failures -= 1
            future.set_exception(KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT)))
        else:
            retention = SimpleNamespace(value=self.retentions[resource.name])
            future.set_result({"retention.ms": retention})
        return {resource: future}

    def list_consumer_group_offsets(
        self, asked: list[Any], **_options: Any
    ) -> dict[str, Future[Any]]:
        [group] = asked
        future: Future[Any] = Future()
        if self.read is None:
            future.set_exception(KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT)))
        else:
            places = [TopicPartition(*each) for each in self.read]
            future.set_result(SimpleNamespace(topic_partitions=places))
        return {group.group_id: future}

    def delete_records(self, due: list[Any], **_options: Any) -> dict[Any, Future[Any]]:
        done: dict[Any, Future[Any]] = {}
        for place in due:
            self.deleted.append((place.topic, place.offset))
            done[place] = Future()
            done[place].set_result(None)
        return done


def a_trimming(monkeypatch: pytest.MonkeyPatch, admin: FakeAdmin) -> trimming.Trimming:
    monkeypatch.setattr(trimming, "AdminClient", lambda _properties: admin)
    return trimming.Trimming(JobConfig(), {}, {"dlx.publishes": 1, "dlx.commands": 2})


def test_a_topic_that_could_not_be_described_is_described_again(monkeypatch):
    admin = FakeAdmin({"dlx.publishes": "-1", "dlx.commands": "-1"}, failures=1)
    one = a_trimming(monkeypatch, admin)

    assert one.trim(LOWEST, COMMITTED) == 1
    assert one.trim(LOWEST, COMMITTED) == 1

    assert admin.deleted == [("dlx.commands", 9), ("dlx.publishes", 7)]
    assert admin.asked == ["dlx.publishes", "dlx.commands", "dlx.publishes"]


def test_a_topic_with_its_own_retention_is_not_trimmed(monkeypatch):
    admin = FakeAdmin({"dlx.publishes": "86400000", "dlx.commands": "-1"}, failures=0)
    one = a_trimming(monkeypatch, admin)

    for _ in range(2):
        one.trim(LOWEST, COMMITTED)

    assert admin.deleted == [("dlx.commands", 9)]
    assert admin.asked == ["dlx.publishes", "dlx.commands"]


@pytest.mark.parametrize(
    ("read", "deleted"),
    [
        ([("dlx.commands", 0, 8)], [("dlx.publishes", 7), ("dlx.commands", 8)]),
        ([("dlx.commands", 0, 20)], [("dlx.publishes", 7), ("dlx.commands", 9)]),
        ([("dlx.commands", 0, -1001)], [("dlx.publishes", 7)]),
        ([], [("dlx.publishes", 7)]),
        (None, [("dlx.publishes", 7)]),
    ],
)
def test_what_a_front_has_still_to_copy_is_not_trimmed(monkeypatch, read, deleted):
    admin = FakeAdmin({"dlx.publishes": "-1", "dlx.commands": "-1"}, failures=0)
    admin.read = read
    monkeypatch.setattr(trimming, "AdminClient", lambda _properties: admin)
    config = JobConfig(vhosts={"shop": VhostSettings(sequenced=True)})
    one = trimming.Trimming(config, {}, {"dlx.publishes": 1, "dlx.commands": 2})

    one.trim(LOWEST, COMMITTED)

    assert admin.deleted == deleted
