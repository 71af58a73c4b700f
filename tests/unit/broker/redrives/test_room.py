"""A letter waits for room in its target, unless there can never be room for it."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.broker.redrive_letters import Letter, Target
from tests.builders import Broker
from tests.unit.broker.redrives.builders import CUT, WORK, letters, redrive, skipped


def a_broker(*sizes: int, cut: bool = False, **limits) -> Broker:
    """A broker with letters of these sizes in `dead`, and a limited queue `work`."""
    broker = Broker(cut=cut)
    broker.queue("work", **limits)
    broker.queue("dead")
    for number, size in enumerate(sizes):
        broker.publish("", "dead", f"m{number}", size=size)
    return broker


@CUT
@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_letter_larger_than_its_target_is_skipped_and_the_others_go(cut, overflow):
    broker = a_broker(2_000, 10, 1_001, 1_000, cut=cut, max_length_bytes=1_000, overflow=overflow)
    sealed = letters(broker)

    answer = redrive(broker, sealed)

    assert (answer["status"], answer["moved"], answer["skipped"]) == ("running", 1, 2)
    assert skipped(broker) == [(sealed[0].copy_id, "too_large"), (sealed[2].copy_id, "too_large")]
    assert broker.drain("work") == ["m1"]
    broker.at(2_000)
    assert broker.drain("work") == ["m3"]
    assert broker.drain("dead") == ["m0", "m2"]


def test_a_target_that_may_hold_nothing_skips_all():
    broker = a_broker(1, 1, max_length=0, overflow="reject-publish")

    answer = redrive(broker, letters(broker))

    assert (answer["status"], answer["skipped"]) == ("finished", 2)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_a_target_that_takes_any_size_gets_the_letter(kind, overflow):
    if (kind, overflow) == ("classic", "reject-publish"):
        limits: dict[str, Any] = {"max_length": 1}
    else:
        limits = {"max_length_bytes": 10}
    broker = a_broker(2_000, queue_type=kind, overflow=overflow, **limits)

    assert redrive(broker, letters(broker))["moved"] == 1


def test_a_letter_for_several_queues_needs_room_in_each():
    broker = a_broker(2_000, 10, max_length_bytes=1_000, overflow="reject-publish")
    broker.queue("other")
    broker.exchange("x", "fanout")
    for queue in ("work", "other"):
        broker.bind("x", queue)
    sealed = letters(broker, Target(None, "x", ("",)))

    redrive(broker, sealed)

    assert skipped(broker) == [(sealed[0].copy_id, "too_large")]
    assert (broker.drain("work"), broker.drain("other")) == (["m1"], ["m1"])


@CUT
def test_letters_in_later_parts_go_on_while_a_target_is_full(cut):
    broker = a_broker(*[1] * 40, cut=cut, max_length=1, overflow="reject-publish")
    for number in range(20):
        broker.queue(f"q{number}")
    sealed = []
    for number, letter in enumerate(letters(broker)):
        free = Target(f"q{number // 2}", "", ("k",))
        sealed.append(Letter(0, letter.copy_id, "dead", WORK if number % 2 else free))
    answers = [
        redrive(broker, tuple(sealed[first : first + 5]), total=40, first=first)
        for first in range(0, 40, 5)
    ]

    assert (answers[-1]["status"], answers[-1]["moved"]) == ("running", 21)
    assert [broker.depth(f"q{number}") for number in range(20)] == [1] * 20
    for number in range(20):
        assert broker.drain("work") == [f"m{2 * number + 1}"]
        broker.at(2_000 * number + 2_000)
    assert broker.depth("dead") == 0
