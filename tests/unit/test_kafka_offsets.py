"""Offsets of partitions: an answer that never comes is an error of Kafka like any other."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaException

from streaming.kafka_offsets import ends_of, first_offsets, next_offsets

PLACE = ("dlx.publishes", 0)


class SilentAdmin:
    """Gives up on every question."""

    def list_offsets(self, asked: Any, **_: Any) -> dict[Any, Future[Any]]:
        """Return an answer for each partition that is too late."""
        answers: dict[Any, Future[Any]] = {}
        for partition in asked:
            answers[partition] = Future()
            answers[partition].set_exception(TimeoutError())
        return answers


@pytest.mark.parametrize("ask", [first_offsets, next_offsets])
def test_an_answer_that_does_not_come_is_an_error_of_kafka(ask):
    found = ask(SilentAdmin(), [PLACE], 0.1)

    assert found[PLACE].args[0].name() == "_TIMED_OUT"


def test_whoever_needs_all_offsets_is_told_so():
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        ends_of(SilentAdmin(), [PLACE], 0.1)
