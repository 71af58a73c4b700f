"""Offsets of partitions: an answer that never comes is an error of Kafka like any other."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

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


class LeaderlessAdmin:
    """Its broker has just begun: the first answer is that no partition has a leader.

    Args:
        code: of that answer.
    """

    def __init__(self, code: int) -> None:
        self.answers = [KafkaException(KafkaError(code)), 17]

    def list_offsets(self, asked: Any, **_: Any) -> dict[Any, Future[Any]]:
        """Give the next answer for all partitions."""
        answer = self.answers.pop(0)
        answers: dict[Any, Future[Any]] = {partition: Future() for partition in asked}
        for future in answers.values():
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(SimpleNamespace(offset=answer))
        return answers

    def list_topics(self, **_: Any) -> None:
        """Find out who leads."""


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._NOENT,  # noqa: SLF001 - the library names it so
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError.OFFSET_NOT_AVAILABLE,
    ],
)
def test_partitions_without_a_leader_are_asked_about_again(code):
    assert next_offsets(LeaderlessAdmin(code), [PLACE], 5.0) == {PLACE: 17}
