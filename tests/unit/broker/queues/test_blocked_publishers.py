"""Quorum queues with `reject-publish`: which publishers are refused (R-LEN-15, R-LEN-18).

The answers are those of RabbitMQ 4.0.5 and 3.10.8 to the same steps.
"""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.channels import publishers
from streaming.broker.outbound import ConfirmOut
from tests.builders import Broker

COMPAT = pytest.mark.parametrize("compat", ["3.10", "4.0"])
CUT = pytest.mark.parametrize("cut", [False, True])
THREE = {"max-length": 3, "overflow": "reject-publish"}


def publish(broker: Broker, *channels: str) -> str:
    """Publish once on each channel; `a` for each confirm that is an ack, `n` for a nack."""
    answers = []
    for channel in channels:
        [confirm] = broker.publish("", "q", "m", confirm=True, channel=channel)
        assert isinstance(confirm, ConfirmOut)
        answers.append("a" if confirm.ack else "n")
    return "".join(answers)


def policy(broker: Broker, **definition: object) -> None:
    named = {key.replace("_", "-"): value for key, value in definition.items()}
    assert broker.policy("p", "^q$", named) is None


def a_full_queue(**config: Any) -> Broker:
    """A queue of at most 3 messages that has 4, and refused two publishes on channel `old`."""
    broker = Broker(**config)
    broker.quorum("q")
    policy(broker, max_length=3, overflow="reject-publish")
    assert publish(broker, *["old"] * 6) == "aaaann"
    return broker


@COMPAT
@CUT
def test_r_len_18_a_policy_that_drops_heads_leaves_a_refused_channel_blocked(cut, compat):
    broker = a_full_queue(cut=cut, compat=compat)
    refused = publish(broker, "late")

    policy(broker, max_length=3, overflow="drop-head")

    assert refused == "n"
    assert publish(broker, "old", "late", "new") == "nna"
    assert broker.drain("q") == ["m", "m", "m"]
    assert publish(broker, "old", "late") == "nn"


@COMPAT
@CUT
def test_r_len_18_a_channel_that_was_closed_is_new(cut, compat):
    broker = a_full_queue(cut=cut, compat=compat)
    policy(broker, max_length=3, overflow="drop-head")

    broker.close_channel("old")

    assert publish(broker, "old") == "a"


@CUT
def test_r_len_18_a_channel_that_an_error_or_its_lease_closed_is_new(cut):
    broker = a_full_queue(cut=cut)
    assert publish(broker, "leased") == "n"
    broker.do(commands.OpenChannel(channel="leased", lease_ms=1_000))
    policy(broker, max_length=3, overflow="drop-head")

    broker.publish("no such exchange", "q", "m", channel="old")
    broker.at(1_000)

    assert publish(broker, "old", "leased") == "aa"


@COMPAT
@CUT
def test_r_len_18_a_queue_that_drained_while_it_dropped_heads_does_not_unblock(cut, compat):
    broker = a_full_queue(cut=cut, compat=compat)
    policy(broker, max_length=3, overflow="drop-head")
    broker.drain("q")

    policy(broker, **THREE)

    assert publish(broker, "old") == "n"
    assert publish(broker, *["new"] * 6, "old") == "aaaannn"
    broker.drain("q")
    assert publish(broker, "old", "new") == "aa"


@COMPAT
@CUT
def test_r_len_18_between_the_soft_limit_and_the_limit_only_new_channels_are_accepted(cut, compat):
    broker = Broker(cut=cut, compat=compat)
    broker.quorum("q", max_length=10, overflow="reject-publish")
    assert publish(broker, "silent", *["old"] * 12) == "aaaaaaaaaaann"
    broker.get("q", count=2, auto_ack=True)

    assert publish(broker, "silent", "old", "new", "two", "three", "new") == "nnaann"
    broker.get("q", count=2, auto_ack=True)
    assert publish(broker, "three", "four") == "na"


@COMPAT
@pytest.mark.parametrize(
    ("definition", "answers"),
    [
        ({"max_length": 100, "overflow": "reject-publish"}, {"3.10": "aa", "4.0": "aa"}),
        ({"max_length": 5, "overflow": "reject-publish"}, {"3.10": "aa", "4.0": "aa"}),
        ({"max_length": 4, "overflow": "reject-publish"}, {"3.10": "na", "4.0": "na"}),
        ({"max_length": 100}, {"3.10": "na", "4.0": "na"}),
        ({"overflow": "drop-head"}, {"3.10": "na", "4.0": "aa"}),
        ({"overflow": "reject-publish"}, {"3.10": "na", "4.0": "aa"}),
    ],
)
@CUT
def test_r_len_18_a_higher_limit_unblocks_and_so_does_no_limit_on_4_0(
    cut, definition, answers, compat
):
    broker = a_full_queue(cut=cut, compat=compat)

    policy(broker, **definition)

    assert publish(broker, "old", "new") == answers[compat]


@CUT
def test_r_len_18_on_3_10_a_new_limit_unblocks_those_who_were_blocked_without_one(cut):
    broker = a_full_queue(cut=cut, compat="3.10")
    broker.do(commands.ClearPolicy(name="p"))
    without = publish(broker, "old")

    policy(broker, max_length=10, overflow="reject-publish")

    assert (without, publish(broker, "old")) == ("n", "a")


@COMPAT
@CUT
def test_r_len_18_a_limit_that_a_queue_exceeds_refuses_all(cut, compat):
    broker = Broker(cut=cut, compat=compat)
    broker.quorum("q")
    assert publish(broker, *["old"] * 6) == "aaaaaa"

    policy(broker, **THREE)

    assert publish(broker, "old", "new") == "nn"


@CUT
def test_a_queue_that_is_deleted_and_declared_again_has_no_blocked_publishers(cut):
    broker = a_full_queue(cut=cut)
    broker.do(commands.DeleteQueue(queue="q"))

    broker.quorum("q")

    assert publish(broker, *["old"] * 5) == "aaaan"


def test_a_queue_remembers_a_bounded_number_of_publishers(monkeypatch):
    monkeypatch.setattr(publishers, "MAX_PUBLISHERS", 2)
    broker = a_full_queue(cut=True)
    assert publish(broker, "two", "three") == "nn"

    policy(broker, max_length=3, overflow="drop-head")

    assert publish(broker, "two", "three", "old") == "nna"


@COMPAT
@CUT
def test_r_len_18_a_channel_that_published_before_the_queue_refused_anyone_is_blocked(cut, compat):
    """It stays so although it was silent while the queue was full."""
    broker = Broker(cut=cut, compat=compat)
    broker.quorum("q", max_length=6)
    assert publish(broker, "silent", *["old"] * 4) == "aaaaa"
    policy(broker, max_length=3, overflow="reject-publish")
    broker.get("q", count=2, auto_ack=True)

    assert publish(broker, "silent", "old", "new") == "nna"


def test_nothing_is_stored_of_publishers_to_queues_without_a_limit():
    broker = a_full_queue(cut=True)
    stored = broker.store.read("publishers")

    broker.do(commands.DeleteQueue(queue="q"))
    broker.quorum("other", overflow="reject-publish")
    broker.publish("", "other", "m")

    assert stored is not None
    assert broker.store.read("publishers") is None


@CUT
def test_r_len_18_a_source_of_dead_letters_is_a_publisher_of_its_own(cut):
    """Its worker is blocked with the channels, and is new once its strategy was changed."""
    at_least_once = {
        "dead-letter-exchange": "",
        "dead-letter-routing-key": "q",
        "dead-letter-strategy": "at-least-once",
        "overflow": "reject-publish",
    }

    def reject(body: str) -> list[str]:
        broker.publish("", "work", body)
        broker.get("work", "g")
        broker.reject("g/0")
        return broker.story()[2:]

    broker = Broker(cut=cut)
    broker.quorum("work")
    broker.policy("work", "^work$", at_least_once)
    broker.quorum("q", max_length=3, overflow="reject-publish")
    assert reject("first") == ["first died in work, rejected, to q", "first enqueued in q"]
    assert publish(broker, *["old"] * 4) == "aaan"
    broker.get("q", count=1, auto_ack=True)
    broker.story()

    assert reject("second") == ["second held in work"]
    broker.do(commands.ClearPolicy(name="work"))
    broker.policy("work", "^work$", at_least_once)
    broker.story()
    assert reject("third") == ["third died in work, rejected, to q", "third enqueued in q"]
