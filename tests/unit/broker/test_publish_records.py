"""What a publish tells: each record names its event, its channel and its message."""

import pytest

from streaming.broker.events import Kind
from streaming.broker.outbound import ConfirmOut, DeliveryOut, PublishErrorOut
from tests.builders import Broker
from tests.event_sentences import confirms, returns


def test_r_route_10_an_error_names_its_event_channel_and_message():
    broker = Broker()
    broker.publish("", "nobody", "first")
    actor = broker.actor("clerk", "c7")

    (error,) = broker.publish("none", "k", "second", user="clerk", channel="c7", confirm=True)

    assert isinstance(error, PublishErrorOut)
    event = list(broker.shard.events.rows())[error.row]
    message, envelope = broker.shard.events.messages[error.row]
    assert (event.kind, event.user, event.channel) == (Kind.PUBLISH_ERROR, "clerk", "c7")
    assert event.detail == {"code": error.refusal.code, "text": error.refusal.text}
    assert envelope is not None
    assert (envelope.exchange, envelope.routing_keys) == ("none", ("k",))
    assert (error.actor, error.message, broker.bodies[message.offset]) == (actor, message, "second")


def test_a_confirm_names_the_first_event_of_its_publish_the_channel_and_the_message():
    broker = Broker()
    for name in ("a", "b"):
        broker.queue(name)
        broker.bind("amq.fanout", name)
    broker.publish("amq.fanout", "", "first")
    actor = broker.actor("clerk", "c7")

    (confirm,) = broker.publish(
        "amq.fanout", "", "second", user="clerk", channel="c7", confirm=True
    )

    assert isinstance(confirm, ConfirmOut)
    event = list(broker.shard.events.rows())[confirm.row]
    assert event.copy is not None
    assert (event.kind, event.queue) == (Kind.ENQUEUED, "a")
    assert (confirm.actor, confirm.message) == (actor, event.copy.message)
    assert broker.body(confirm) == "second"


@pytest.mark.parametrize("confirm", [False, True])
def test_r_len_8_the_event_of_a_refused_publish_has_the_message_and_where_it_was_published(confirm):
    broker = Broker()
    broker.queue("full", max_length=0, overflow="reject-publish")

    broker.publish("", "full", "m1", confirm=confirm)

    ((message, envelope),) = broker.shard.events.messages.values()
    assert envelope is not None
    assert (broker.bodies[message.offset], envelope.routing_keys) == ("m1", ("full",))


def test_r_len_12_the_event_of_a_refused_dead_letter_has_the_envelope_of_the_dead_letter():
    broker = Broker()
    broker.queue("full", max_length=0, overflow="reject-publish")
    broker.queue("work", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="full")

    broker.publish("", "work", "m1")

    ((message, envelope),) = broker.shard.events.messages.values()
    assert envelope is not None
    assert (broker.bodies[message.offset], envelope.routing_keys) == ("m1", ("full",))
    assert [death.queue for death in envelope.deaths] == ["work"]


def test_an_accepted_immediate_publish_without_confirm_has_no_confirm():
    broker = Broker()
    broker.queue("q")
    broker.consume("q", "c")

    out = broker.publish("", "q", "m1", immediate=True)

    assert [type(one) for one in out] == [DeliveryOut]
    assert (confirms(out), returns(out)) == ([], [])


def test_immediate_warns_about_every_exchange_on_its_way():
    broker = Broker()
    broker.exchange("outer", "fanout", arguments={"alternate-exchange": "spare"})
    broker.exchange("inner", "fanout", arguments={"alternate-exchange": "gone"})
    broker.exchange("spare", "fanout")
    broker.bind("outer", "inner", destination_type="exchange")
    for exchange, queue in (("inner", "busy"), ("spare", "free")):
        broker.queue(queue)
        broker.bind(exchange, queue)
    broker.consume("free", "c")

    broker.publish("outer", "", "m1", immediate=True)

    warning = {"exchange": "inner", "missing_alternate_exchange": "gone"}
    assert broker.deliveries() == ["c/0 m1"]
    assert broker.of_kind(Kind.WARNING) == [("", warning)]


def test_immediate_follows_the_alternate_exchange_of_an_exchange_reached_by_a_header():
    broker = Broker()
    broker.exchange("outer", "headers")
    broker.exchange("inner", "fanout", arguments={"alternate-exchange": "spare"})
    broker.exchange("spare", "fanout")
    broker.bind("outer", "inner", destination_type="exchange", arguments={"colour": "red"})
    for exchange, queue in (("inner", "busy"), ("spare", "free")):
        broker.queue(queue)
        broker.bind(exchange, queue)
    broker.consume("free", "c")

    assert (
        returns(broker.publish("outer", "", "m1", immediate=True, headers={"colour": "red"})) == []
    )
    assert broker.deliveries() == ["c/0 m1"]
