"""Dead letters with many targets: which of them accepted or refused is looked up in sets."""

import pytest

from tests.builders import Broker

COUNT = 200


class CountedName(str):
    """A name that counts its comparisons: a set hardly needs any, a search needs many."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.fixture
def targets() -> list[CountedName]:
    CountedName.comparisons = 0
    return [CountedName(f"t{number}") for number in range(COUNT)]


def test_a_retry_at_least_once_does_not_search_its_accepted_targets(targets):
    """All targets but `full` accept the dead letter at first; the retry excludes them."""
    broker = Broker(dead_letter_retry_ms=1_000)
    broker.exchange("dlx", "fanout")
    broker.quorum(
        "work",
        dead_letter_exchange="dlx",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    broker.queue("full", max_length=0, overflow="reject-publish")
    broker.bind("dlx", "full")
    for name in targets:
        broker.queue(name)
        broker.bind("dlx", name)
    broker.publish("", "work", "m")
    broker.get("work", "g")
    broker.reject("g/0")
    CountedName.comparisons = 0

    broker.at(1_000)

    assert CountedName.comparisons < 10 * COUNT
    assert {broker.depth(name) for name in targets} == {1}


def test_the_outcome_of_a_death_does_not_search_its_refused_targets(targets):
    broker = Broker()
    broker.exchange("dlx", "fanout")
    broker.queue("work", dead_letter_exchange="dlx")
    for name in targets:
        broker.queue(name, max_length=0, overflow="reject-publish")
        broker.bind("dlx", name)
    broker.publish("", "work", "m")
    broker.get("work", "g")
    CountedName.comparisons = 0

    broker.reject("g/0")

    assert CountedName.comparisons < 10 * COUNT
    [(_, _, _, planned, _, _)] = broker.shard.events.deaths()
    assert planned.refused == tuple(sorted(targets))
