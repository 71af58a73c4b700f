"""Limits and times to live of quorum queues (docs/semantics.md sections 9 and 11)."""

import pytest

from streaming.broker import commands
from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])


@CUT
def test_r_ttl_12_messages_expire_and_consumers_are_served_before_limits_apply(cut):
    broker = Broker(cut=cut)
    broker.quorum("q", message_ttl=100, max_length=0)
    broker.consume("q", "c", prefetch=1)

    for body in ("m1", "m2"):
        broker.publish("", "q", body)

    assert broker.story() == [
        "m1 enqueued in q",
        "m1 delivered in q",
        "m2 enqueued in q",
        "m2 died in q, maxlen, to nowhere: no_exchange",
    ]


@CUT
def test_a_full_quorum_queue_accepts_at_most_once_dead_letters(cut):
    broker = Broker(cut=cut)
    broker.quorum("full", max_length=0, overflow="reject-publish")
    broker.queue("work", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="full")
    broker.publish("", "full", "m1")

    broker.publish("", "work", "m2")

    assert broker.depth("full") == 2


@CUT
def test_r_ttl_4_a_message_with_ttl_0_goes_to_a_waiting_consumer_or_expires(cut):
    broker = Broker(cut=cut)
    broker.quorum("q", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.consume("q", "k", prefetch=1)
    for body in ("a", "b"):
        broker.publish("", "q", body)

    assert broker.deliveries() == ["k/0 a"]
    assert broker.drain("dead") == ["b"]


@CUT
@pytest.mark.parametrize(
    ("overflow", "deaths"), [("drop-head", ["a maxlen"]), ("reject-publish", ["a expired"])]
)
def test_a_length_limit_applies_before_ttl_0(cut, overflow, deaths):
    broker = Broker(cut=cut)
    broker.quorum(
        "q",
        max_length=0,
        overflow=overflow,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    broker.queue("dead")
    broker.publish("", "q", "a", expiration="0")
    broker.publish("", "q", "b")

    got = [
        f"{broker.body(one)} {one.copy.envelope.deaths[0].reason}"
        for one in broker.get("dead", "d", count=2)
    ]
    assert got == deaths + ["b maxlen"] * (overflow == "drop-head")
    assert broker.depth("q") == (overflow == "reject-publish")


@CUT
def test_classic_queues_expire_before_quorum_queues_at_the_same_instant(cut):
    broker = Broker(cut=cut)
    limits = {"message_ttl": 5, "dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    broker.quorum("first", **limits)
    broker.queue("second", **limits)
    broker.queue("dead")
    broker.publish("", "first", "quorum's")
    broker.publish("", "second", "classic's")
    broker.at(5)

    assert broker.drain("dead") == ["classic's", "quorum's"]


@CUT
@pytest.mark.parametrize(("compat", "left"), [("4.0", ["a", "b", "d"]), ("3.10", ["a", "b"])])
def test_a_full_queue_whose_limits_are_removed_accepts_again_on_4_0_and_never_on_3_10(
    cut, compat, left
):
    broker = Broker(cut=cut, compat=compat)
    broker.quorum("q")
    broker.policy("p", "q", {"max-length": 1, "overflow": "reject-publish"})
    for body in ("a", "b", "c"):
        broker.publish("", "q", body)
    broker.do(commands.ClearPolicy(name="p"))
    broker.publish("", "q", "d")

    assert broker.drain("q") == left


@CUT
def test_heads_dropped_while_other_dead_letters_wait_do_not_affect_them(cut):
    """R-LEN-16: two copies die at once, and the first dead letter drops the head of its target."""
    broker = Broker(cut=cut)
    broker.queue("dead")
    broker.quorum("full", max_length=1, dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="full")
    broker.publish("", "full", "before")
    for body in ("m1", "m2"):
        broker.publish("", "work", body)
    broker.story()

    broker.policy("short", "work", {"max-length": 0})

    assert broker.story() == [
        "m1 died in work, maxlen, to full",
        "m2 died in work, maxlen, to full",
        "m1 enqueued in full",
        "before died in full, maxlen, to dead",
        "m2 enqueued in full",
        "m1 died in full, maxlen, to dead",
        "before enqueued in dead",
        "m1 enqueued in dead",
    ]


@CUT
def test_r_len_19_what_another_consumer_gets_at_once_does_not_count(cut):
    broker = Broker(cut=cut)
    broker.quorum("q", max_length=1)
    broker.consume("q", "first", channel="c1")
    for body in ("a", "b", "c"):
        broker.publish("", "q", body)
    broker.consume("q", "second", channel="c2")

    broker.close_channel("c1")

    assert broker.deliveries()[3:] == ["second/0 a", "second/1 b", "second/2 c"]
