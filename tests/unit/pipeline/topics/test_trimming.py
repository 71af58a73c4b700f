"""The choice of inputs to trim, even if Kafka cannot describe them at first."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streaming.config import JobConfig
from streaming.config.amqp import AmqpSettings
from streaming.config.vhosts import VhostSettings
from streaming.pipeline.topics.trimming import Trimming
from streaming.sequencer.snapshots import LogIdentity, Snapshot, Snapshots
from streaming.storage.location import Location

LOWEST = {(1, 0): 7, (2, 0): 9}
LOG = LogIdentity("shop", "dlx.log.shop", "c", "i3")
COMMITTED = {"dlx.publishes": {"0": 100}, "dlx.commands": {"0": 100}}


class FakeAdmin:
    """Describes topics, possibly only after a failure, and records deletions."""

    def __init__(self, retentions: dict[str, str], failures: int) -> None:
        self.retentions = retentions
        self.failures = failures
        self.asked: list[str] = []
        self.deleted: list[tuple[str, int]] = []
        self.read: list[tuple[str, int, int]] | None = None
        self.young = -1

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

    def list_offsets(self, asked: dict[Any, Any], **_options: Any) -> dict[Any, Future[Any]]:
        [place] = asked
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(offset=self.young))
        return {place: future}

    def delete_records(self, due: list[Any], **_options: Any) -> dict[Any, Future[Any]]:
        done: dict[Any, Future[Any]] = {}
        for place in due:
            self.deleted.append((place.topic, place.offset))
            done[place] = Future()
            done[place].set_result(None)
        return done


def trimming_of(
    admin: FakeAdmin, config: JobConfig | None = None, folder: str = "none"
) -> Trimming:
    names = {"c/i1": "dlx.publishes", "c/i2": "dlx.commands", "c/i3": LOG.topic}
    numbers = {"dlx.publishes": 1, "dlx.commands": 2, LOG.topic: 3}
    return Trimming(config or JobConfig(), admin, names, numbers, Location(folder))


def test_a_topic_that_could_not_be_described_is_described_again():
    admin = FakeAdmin({"dlx.publishes": "-1", "dlx.commands": "-1"}, failures=1)
    one = trimming_of(admin)

    assert one.trim(LOWEST, COMMITTED) == 1
    assert one.trim(LOWEST, COMMITTED) == 1

    assert admin.deleted == [("dlx.commands", 9), ("dlx.publishes", 7)]
    assert admin.asked == ["dlx.publishes", "dlx.commands", "dlx.publishes"]


def test_a_topic_with_its_own_retention_is_not_trimmed():
    admin = FakeAdmin({"dlx.publishes": "86400000", "dlx.commands": "-1"}, failures=0)
    one = trimming_of(admin)

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
def test_what_a_front_has_still_to_copy_is_not_trimmed(read, deleted):
    retentions = {"dlx.publishes": "-1", "dlx.commands": "-1", LOG.topic: "-1"}
    admin = FakeAdmin(retentions, failures=0)
    admin.read = read
    config = JobConfig(vhosts={"shop": VhostSettings(sequenced=True)})
    one = trimming_of(admin, config)

    one.trim(LOWEST, COMMITTED)

    assert admin.deleted == deleted


@pytest.mark.parametrize(
    ("lowest", "committed", "needed", "young", "deleted"),
    [
        (40, 90, (50, 60), -1, 40),  # a message in a queue, as the job knows
        (70, 30, (50, 60), -1, 30),  # the job has not read the rest
        (70, 90, (50, 60), -1, 50),  # a start of the front from the older snapshot
        (70, 90, (50, 60), 20, 20),  # letters may be redriven from there
        (70, 90, (), -1, None),  # no front has left a snapshot
        (None, 90, (50, 60), -1, None),  # the job does not know what is in queues
        (70, 90, (0, 60), -1, None),  # the front does not
    ],
)
def test_the_log_of_a_vhost_is_trimmed_behind_what_no_fold_needs(
    tmp_path, lowest, committed, needed, young, deleted
):
    admin = FakeAdmin({LOG.topic: "-1", "dlx.publishes": "1", "dlx.commands": "1"}, failures=0)
    admin.young = young
    for number, offset in enumerate(needed):
        kept = Snapshots(Location(str(tmp_path)), LOG)
        kept.write(Snapshot(100 + number, {}, None, offset))
    config = JobConfig(vhosts={"shop": VhostSettings(sequenced=True)})
    one = trimming_of(admin, config, str(tmp_path))

    one.trim({} if lowest is None else {(3, 0): lowest}, {LOG.topic: {"0": committed}})

    assert admin.deleted == ([] if deleted is None else [(LOG.topic, deleted)])


@pytest.mark.parametrize("off", ["by setting", "another topic"])
def test_a_log_is_not_trimmed(tmp_path, off, caplog):
    admin = FakeAdmin({LOG.topic: "-1", "dlx.publishes": "1", "dlx.commands": "1"}, failures=0)
    log = LOG if off == "by setting" else LogIdentity("shop", LOG.topic, "c", "i9")
    Snapshots(Location(str(tmp_path)), log).write(Snapshot(100, {}, None, 50))
    config = JobConfig(
        vhosts={"shop": VhostSettings(sequenced=True)},
        amqp=AmqpSettings(trim_log=off != "by setting"),
    )

    trimming_of(admin, config, str(tmp_path)).trim({(3, 0): 70}, {LOG.topic: {"0": 90}})

    assert admin.deleted == []
    assert ("is not trimmed" in caplog.text) == (off == "another topic")
