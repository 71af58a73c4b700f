"""A refused command or publish closes its channel, and has no other effect."""

from streaming.broker import commands
from streaming.broker.events import Kind
from tests.builders import Broker
from tests.event_sentences import error_of
from topology.refusals import Refusal

NO_EXCHANGE = Refusal(404, "NOT_FOUND - no exchange 'none' in vhost '/'")
NO_QUEUE = Refusal(404, "NOT_FOUND - no queue 'none' in vhost '/'")


def with_delivery_on(channel: str) -> Broker:
    broker = Broker()
    broker.queue("work")
    broker.publish("", "work", "m1")
    broker.get("work", "g", channel=channel)
    broker.story()
    return broker


def test_a_refused_publish_closes_its_channel_and_requeues_its_unacked_deliveries():
    """R-ROUTE-10."""
    broker = with_delivery_on("c0")

    out = broker.publish("none", "work", "m2", channel="c0")

    assert error_of(out) == NO_EXCHANGE
    assert broker.story() == ["m2 publish_error", "m1 requeued in work"]
    assert broker.of_kind(Kind.CHANNEL) == [
        ("", {"what": "channel_closed", "name": "c0", "user": None, "cause": "channel_error"})
    ]


def test_a_refused_publish_does_not_affect_other_channels_and_users():
    broker = with_delivery_on("c0")

    broker.publish("none", "work", "m2", channel="pub")
    broker.publish("none", "work", "m3", channel="c0", user="bob")

    assert broker.story() == ["m2 publish_error", "m3 publish_error"]
    assert broker.of_kind(Kind.CHANNEL) == []


def test_a_refused_command_closes_its_channel():
    broker = with_delivery_on("c0")

    refusal = broker.refusal(commands.Get(queue="none", channel="c0"))

    assert refusal == NO_QUEUE
    assert broker.story() == ["m1 requeued in work"]
    assert broker.of_kind(Kind.COMMAND_ERROR) == [
        ("", {"op": "get", "code": 404, "text": NO_QUEUE.text})
    ]


def test_a_refused_command_on_a_channel_that_is_not_open_closes_no_channel():
    broker = with_delivery_on("c0")

    broker.do(commands.Depth(queue="none"))

    assert broker.story() == []
