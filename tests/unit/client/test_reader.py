"""Connecting while a partition is created or moved."""

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streaming.client._transport.reader import Reader


class Moving:
    """A consumer whose partition has no leader for some time."""

    def __init__(self, code: int, times: int) -> None:
        self.code = code
        self.times = times

    def get_watermark_offsets(self, _place: TopicPartition, timeout: float) -> tuple[int, int]:
        assert timeout > 0
        self.times -= 1
        if self.times >= 0:
            raise KafkaException(KafkaError(self.code))
        return 0, 7


def bounds_of(consumer: Moving, timeout_s: float) -> tuple[int, int]:
    reader: Any = object.__new__(Reader)
    reader._consumer = consumer  # noqa: SLF001 (without the thread and the connection)
    deadline_s = time.monotonic() + timeout_s
    bounds: tuple[int, int] = reader._bounds_of(TopicPartition("t", 0), deadline_s)  # noqa: SLF001
    return bounds


def test_a_partition_without_a_leader_is_retried():
    assert bounds_of(Moving(KafkaError.NOT_LEADER_FOR_PARTITION, 2), 60) == (0, 7)


def test_permanent_errors_are_raised_at_once_and_transient_ones_after_the_deadline():
    with pytest.raises(KafkaException):
        bounds_of(Moving(KafkaError.TOPIC_AUTHORIZATION_FAILED, 1), 60)
    with pytest.raises(KafkaException):
        bounds_of(Moving(KafkaError.NOT_LEADER_FOR_PARTITION, 1_000_000), 0.2)
