"""Records that Kafka deleted before they were read: refused, watched for, accepted (D3)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streaming.config import FlowSettings, InputSettings, TopicMapping
from streaming.config.flow import Absolute
from streaming.pipeline.topics.offset_gaps import LostRecordsError
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import wait_until

ROWS = 'partition, "offset", end_offset, cause, detail'


class Foreign:
    """A job on a foreign topic, and methods that damage that topic."""

    def __init__(self, root: Path, servers: str, topic: str, **settings: Any) -> None:
        mapping = TopicMapping(exchange="", routing_key="work")
        inputs = [InputSettings(topic=topic, mapping=mapping)]
        self.topic = topic
        self.pipeline = Pipeline(root, servers, inputs=inputs, **settings)
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def start(self, spark: Any) -> None:
        self.pipeline.start(spark)
        self.pipeline.command(op="declare_queue", queue={"name": "work"})
        self.pipeline.until(lambda: any(batch.events for batch in self.pipeline.batches))

    def write(self, *bodies: bytes) -> None:
        for body in bodies:
            self.pipeline.producer.produce(self.topic, body, partition=0)
        assert self.pipeline.producer.flush(30) == 0

    def delete_below(self, offset: int) -> None:
        place = TopicPartition(self.topic, 0, offset)
        self._admin.delete_records([place])[place].result()

    def recreate(self) -> None:
        self._admin.delete_topics([self.topic])[self.topic].result()
        again = NewTopic(self.topic, num_partitions=1, replication_factor=1)

        def is_made() -> bool:
            try:
                self._admin.create_topics([again])[self.topic].result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False  # the old topic is not deleted completely yet
            return True

        wait_until(is_made)


@pytest.fixture
def foreign(
    tmp_path: Path, embedded_kafka: Any, new_topic: Callable[..., str]
) -> Iterator[Foreign]:
    foreign = Foreign(tmp_path, embedded_kafka.bootstrap_servers, new_topic())
    yield foreign
    foreign.pipeline.stop()


def test_a_gap_is_refused_by_range_and_accepted_on_request(foreign, spark):
    pipeline = foreign.pipeline
    foreign.start(spark)
    foreign.write(b"read 0", b"read 1")
    pipeline.until(lambda: pipeline.resident() == 2)
    pipeline.stop()
    foreign.write(*(f"lost {number}".encode() for number in range(2, 5)), b"there 5")
    foreign.delete_below(5)

    with pytest.raises(LostRecordsError, match=r"partition 0: offsets 2 to 4 \(3 records\)"):
        pipeline.start(spark)
    pipeline.stop()
    pipeline.start(spark, accept_loss=True)
    pipeline.until(lambda: pipeline.resident() == 3)
    pipeline.until(lambda: pipeline.query("quarantine", "1", "1"))
    pipeline.stop()
    foreign.write(b"there 6")
    pipeline.start(spark)  # the acceptance is not repeated
    pipeline.until(lambda: pipeline.resident() == 4)

    detail = f"lost in Kafka, accepted with --accept-loss: topic {foreign.topic!r}, partition 0: "
    assert pipeline.query("quarantine", ROWS, "1") == [
        (0, 2, 5, "lost_in_kafka", f"{detail}offsets 2 to 4 (3 records)")
    ]
    bodies = [body for (body,) in pipeline.query("messages", "body", '"offset"')]
    assert bodies == [b"read 0", b"read 1", b"there 5", b"there 6"]


def test_a_recreated_topic_is_refused_and_then_read_from_its_beginning(foreign, spark):
    pipeline = foreign.pipeline
    foreign.start(spark)
    foreign.write(b"old 0", b"old 1")
    pipeline.until(lambda: pipeline.resident() == 2)
    pipeline.stop()
    foreign.recreate()
    foreign.write(b"new 0", b"new 1", b"new 2")

    with pytest.raises(LostRecordsError, match="from offset 2 on"):
        pipeline.start(spark)
    pipeline.stop()
    pipeline.start(spark, accept_loss=True)
    pipeline.until(lambda: pipeline.resident() == 5)
    pipeline.until(lambda: pipeline.query("quarantine", "1", "1"))

    assert [row[:4] for row in pipeline.query("quarantine", ROWS, "1")] == [
        (0, 2, None, "lost_topic")
    ]
    found = pipeline.query("messages", 'topic_number, "offset", body', "1, 2")
    assert [(offset, body) for _number, offset, body in found] == [
        (0, b"old 0"),
        (1, b"old 1"),
        (0, b"new 0"),
        (1, b"new 1"),
        (2, b"new 2"),
    ]
    assert len({number for number, _offset, _body in found}) == 2


def test_a_recreated_topic_stops_the_job_that_reads_it(foreign, spark):
    pipeline = foreign.pipeline
    foreign.start(spark)
    foreign.write(b"old 0", b"old 1")
    pipeline.until(lambda: pipeline.resident() == 2)

    foreign.recreate()
    foreign.write(*[b"new"] * 5)

    with pytest.raises(LostRecordsError, match="from offset 2 on"):
        pipeline.until(lambda: False)
    assert pipeline.query("messages", "body", '"offset"') == [(b"old 0",), (b"old 1",)]


def test_a_gap_before_a_closed_gate_stops_the_job(tmp_path, embedded_kafka, new_topic, spark):
    servers = embedded_kafka.bootstrap_servers
    flow = FlowSettings(vm_memory_high_watermark=Absolute(100))
    foreign = Foreign(tmp_path, servers, new_topic(), flow=flow)
    pipeline = foreign.pipeline
    try:
        foreign.start(spark)
        foreign.write(b"x" * 200)
        pipeline.until(lambda: pipeline.job is not None and not pipeline.job.gate_state.open)
        foreign.write(b"lost", b"there")
        foreign.delete_below(2)

        with pytest.raises(LostRecordsError, match=r"offsets 1 to 1 \(1 records\)"):
            pipeline.until(lambda: False)
    finally:
        pipeline.stop()
