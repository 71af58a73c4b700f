"""A command about channels acts on those of its own user, and on the one that it names."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from tests.builders import START_MS, Broker
from topology.declarations import Queue

CUT = pytest.mark.parametrize("cut", [False, True])


def what(broker: Broker) -> list[str]:
    """What happened to channels and consumers."""
    return [detail["what"] for _, detail in broker.of_kind(Kind.CHANNEL)]


def a_broker(*, cut: bool) -> Broker:
    """A queue with a message that user `ann` has on channel `c0`."""
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.publish("", "q", "m1")
    broker.get("q", "g", channel="c0", user="ann")
    return broker


@CUT
@pytest.mark.parametrize(("user", "requeued"), [("ann", 1), (None, 0), ("bob", 0)])
def test_recover_requeues_what_its_own_user_has(cut, user, requeued):
    broker = a_broker(cut=cut)

    answer = broker.answer(commands.Recover(channel="c0"), user=user)

    assert answer == {"requeued": requeued}
    assert broker.depth("q") == requeued


@CUT
@pytest.mark.parametrize(("user", "requeued"), [("ann", 1), (None, 0), ("bob", 0)])
def test_a_user_closes_channels_of_their_own_only(cut, user, requeued):
    broker = a_broker(cut=cut)

    broker.close_channel("c0", user=user)

    assert what(broker) == ["channel_closed"] * requeued
    assert broker.depth("q") == requeued


@CUT
def test_cancel_ends_the_consumer_of_its_user_on_the_channel_that_it_names(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    for user in ("ann", "bob"):
        for channel in ("c0", "c1"):
            broker.consume("q", "c", channel=channel, user=user)

    broker.do(commands.Cancel(label="c", channel="c0"), user="ann")

    cancelled = {"what": "consumer_cancelled", "consumer": "c", "name": "c0", "user": "ann"}
    assert broker.of_kind(Kind.CHANNEL)[4:] == [("q", cancelled)]


@CUT
def test_cancel_without_a_channel_ends_the_newest_consumer_of_its_user(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    for user, channel in (("ann", "c0"), ("ann", "c1"), ("bob", "c2")):
        broker.consume("q", "c", channel=channel, user=user)

    broker.do(commands.Cancel(label="c", channel=None), user="ann")

    (cancelled,) = broker.of_kind(Kind.CHANNEL)[3:]
    assert (cancelled[1]["name"], cancelled[1]["user"]) == ("c1", "ann")


@CUT
def test_an_opened_channel_is_an_event_with_its_lease(cut):
    broker = Broker(cut=cut)

    broker.do(commands.OpenChannel(channel="c0", lease_ms=1_000), user="ann")

    assert broker.of_kind(Kind.CHANNEL) == [("", {"what": "channel_opened", "lease_ms": 1_000})]


@CUT
@pytest.mark.parametrize("is_open", [False, True])
def test_declaring_an_exclusive_queue_opens_its_channel_once(cut, is_open):
    broker = Broker(cut=cut)
    if is_open:
        broker.do(commands.OpenChannel(channel="c0"), user="ann")

    for name in ("mine", "mine too"):
        declare: Any = commands.DeclareQueue(queue=Queue(name, exclusive=True), channel="c0")
        broker.do(declare, user="ann")

    assert what(broker) == ["channel_opened"]


@CUT
def test_the_consumer_timeout_comes_before_a_lease_that_ends_with_it(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=1_000)
    broker.queue("q")
    broker.publish("", "q", "m1")
    broker.get("q", "g", channel="c0", lease_ms=1_000)

    broker.at(1_000)

    causes = [detail["cause"] for _, detail in broker.of_kind(Kind.CHANNEL)]
    assert causes == ["consumer_timeout"]


@CUT
def test_the_consumer_timeout_counts_from_the_oldest_delivery_that_is_left(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=1_000)
    broker.queue("q")
    for body in ("m1", "m2"):
        broker.publish("", "q", body)
    broker.get("q", "g", channel="c0")
    broker.at(500).get("q", "h", channel="c0")
    broker.ack("g/0", channel="c0")

    broker.at(1_600)

    (closed,) = [event for event in broker.everything() if event.kind is Kind.CHANNEL]
    assert closed.at_ms == START_MS + 1_500
    assert closed.detail == {
        "what": "channel_closed",
        "name": "c0",
        "user": None,
        "cause": "consumer_timeout",
    }
    assert broker.depth("q") == 1


@CUT
def test_r_gone_3_the_event_of_an_auto_deleted_queue_says_why(cut):
    broker = Broker(cut=cut)
    broker.queue("q", auto_delete=True)
    broker.consume("q", "c")
    broker.do(commands.Cancel(label="c"))

    *_, (_, deleted) = broker.of_kind(Kind.TOPOLOGY)
    assert deleted == {"what": "queue_deleted", "name": "q", "cause": "auto_delete", "ready": 0}
