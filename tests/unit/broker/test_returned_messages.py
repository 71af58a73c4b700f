"""A returned message names its event, its channel and its message."""

import pytest

from streaming.broker.events import Kind
from streaming.broker.outbound import ConfirmOut, ReturnOut
from tests.builders import Broker


@pytest.mark.parametrize(
    ("mandatory", "code", "text"), [(True, 312, "NO_ROUTE"), (False, 313, "NO_CONSUMERS")]
)
def test_a_return_and_its_confirm_name_the_same_event_channel_and_message(mandatory, code, text):
    broker = Broker()
    broker.publish("", "nobody", "first")
    actor = broker.actor("clerk", "c7")

    outs = broker.publish(
        "",
        "nobody",
        "second",
        user="clerk",
        channel="c7",
        confirm=True,
        mandatory=mandatory,
        immediate=not mandatory,
    )

    returned, confirmed = outs
    assert isinstance(returned, ReturnOut)
    assert isinstance(confirmed, ConfirmOut)
    rows = list(broker.shard.events.rows())
    assert rows[returned.row].kind is Kind.RETURNED
    assert rows[returned.row].number == code
    assert (returned.actor, broker.body(returned)) == (actor, "second")
    assert (returned.envelope.exchange, returned.envelope.routing_keys) == ("", ("nobody",))
    assert (returned.code, returned.text) == (code, text)
    assert (confirmed.row, confirmed.actor, confirmed.ack) == (returned.row, actor, True)
    assert confirmed.message is returned.message


def test_the_alternates_of_an_immediate_publish_see_its_keys_and_headers():
    broker = Broker()
    broker.exchange("first", arguments={"alternate-exchange": "by-key"})
    broker.exchange("by-key", "topic", arguments={"alternate-exchange": "by-header"})
    broker.exchange("by-header", "headers")
    for queue in ("first", "second", "third", "other"):
        broker.queue(queue)
    broker.bind("first", "first", "k")
    broker.bind("by-key", "second", "k")
    broker.bind("by-header", "third", arguments={"h": 1})
    broker.bind("by-header", "other", arguments={"h": 2})
    for queue in ("other", "third"):
        broker.consume(queue, queue)

    broker.publish("first", "k", "by header", immediate=True, headers={"h": 1})
    broker.consume("second", "second")
    broker.publish("first", "k", "by key", immediate=True, headers={"h": 1})

    assert broker.deliveries() == ["third/0 by header", "second/0 by key"]


def test_an_immediate_publish_stops_at_an_exchange_that_it_has_visited():
    broker = Broker()
    broker.exchange("first", arguments={"alternate-exchange": "second"})
    broker.exchange("second", arguments={"alternate-exchange": "first"})

    (returned,) = broker.publish("first", "k", "m", immediate=True)

    assert isinstance(returned, ReturnOut)
    assert returned.code == 313


def test_an_immediate_publish_to_the_default_exchange_has_no_alternate():
    broker = Broker()
    broker.queue("q")

    (returned,) = broker.publish("", "q", "m", immediate=True)

    assert isinstance(returned, ReturnOut)
    assert broker.depth("q") == 0
