"""An outage of Kafka makes a batch wait; it does not end the job."""

import logging
import threading
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from streaming.config import InputSettings, JobConfig, TopicMapping
from streaming.pipeline.topics import offset_gaps
from streaming.pipeline.topics.admin import KafkaUnreachableError, MissingTopicError
from streaming.pipeline.topics.offset_gaps import GapWatch

MAPPED = InputSettings(topic="orders", mapping=TopicMapping(exchange="x"))
CONFIG = attrs.evolve(JobConfig(), inputs=(*JobConfig().inputs, MAPPED))


class Topics:
    """Kafka's answers, one for each question; the last one is repeated."""

    def __init__(self, *answers: Exception | None) -> None:
        self.identities = {"orders": "cluster/orders"}
        self.answers = list(answers)
        self.asked = threading.Event()

    def refresh(self) -> None:
        self.asked.set()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer


@pytest.fixture
def watch_of(monkeypatch):
    monkeypatch.setattr(offset_gaps, "RETRY_S", 0.001)
    monkeypatch.setattr(offset_gaps, "LONGEST_RETRY_S", 0.002)
    watches = []

    def make(topics: Topics) -> GapWatch:
        logs = SimpleNamespace(last_planned=lambda: None, last_committed=lambda: None)
        manifest = SimpleNamespace(topics={"cluster/orders": 1})
        checkpoint: Any = SimpleNamespace(logs=logs, manifest=manifest)
        kafka: Any = topics
        watches.append(GapWatch(CONFIG, kafka, checkpoint))
        return watches[-1]

    yield make
    for watch in watches:
        watch.stop()


def test_a_batch_waits_until_kafka_answers_and_says_so_once(watch_of, caplog):
    caplog.set_level(logging.WARNING)
    timeout = KafkaUnreachableError("no answer")
    watch = watch_of(Topics(timeout, timeout, timeout, timeout, None))

    watch.check_mapped_topics()

    assert [record.getMessage() for record in caplog.records] == [
        "the batch waits until Kafka answers: no answer",
        "Kafka answers again; the batch continues",
    ]


def test_a_missing_topic_is_not_waited_for(watch_of):
    watch = watch_of(Topics(MissingTopicError("gone")))

    with pytest.raises(MissingTopicError):
        watch.check_mapped_topics()


def test_a_job_that_stops_does_not_wait_for_kafka(watch_of):
    topics = Topics(KafkaUnreachableError("no answer"))
    watch = watch_of(topics)
    failures = []

    def check() -> None:
        try:
            watch.check_mapped_topics()
        except KafkaUnreachableError as error:
            failures.append(str(error))

    batch = threading.Thread(target=check)
    batch.start()
    assert topics.asked.wait(60)
    watch.give_up()
    batch.join(60)

    assert failures == ["no answer"]
