"""Settling several deliveries with one command, and who gets room by that (R-SET-3)."""

import pytest

from streaming.broker import commands
from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])


@CUT
def test_a_multiple_ack_gives_room_to_every_consumer_it_touches(cut):
    broker = Broker(cut=cut)
    for queue in ("a", "z"):
        broker.queue(queue)
        for number in range(2):
            broker.publish("", queue, f"{queue}{number}")
    broker.consume("a", "ca", prefetch=1)
    broker.consume("z", "cz", prefetch=1)

    broker.ack("cz/0", multiple=True, channel="c0")

    assert broker.deliveries() == ["ca/0 a0", "cz/0 z0", "ca/1 a1", "cz/1 z1"]


@CUT
def test_multiple_covers_gets_and_consumers_of_the_channel_up_to_the_tag_in_order(cut):
    broker = Broker(cut=cut)
    for queue in ("a", "b"):
        broker.queue(queue, dead_letter_exchange="", dead_letter_routing_key="dead")
        for number in range(3):
            broker.publish("", queue, f"{queue}{number}")
    broker.queue("dead")
    broker.get("b", "g1")
    broker.get("a", "g2", count=2)
    broker.get("b", "g3", count=2)
    broker.get("a", "other", channel="c1")
    broker.story()

    broker.do(commands.Nack(refs=("g3/0",), multiple=True))

    assert [line for line in broker.story() if "died" in line] == [
        "a0 died in a, rejected, to dead",
        "a1 died in a, rejected, to dead",
        "b0 died in b, rejected, to dead",
        "b1 died in b, rejected, to dead",
    ]


@CUT
def test_multiple_requeue_gives_room_and_hands_out_again(cut):
    broker = Broker(cut=cut)
    broker.queue("a")
    for number in range(3):
        broker.publish("", "a", f"m{number}")
    broker.consume("a", "one", prefetch=1)
    broker.consume("a", "two", prefetch=1)

    broker.do(commands.Nack(refs=("two/0",), multiple=True, requeue=True))

    assert broker.deliveries() == ["one/0 m0", "two/0 m1", "one/1 m0", "two/1 m1"]


@CUT
def test_multiple_up_to_a_delivery_that_is_settled_is_missing(cut):
    broker = Broker(cut=cut)
    broker.queue("a")
    for number in range(2):
        broker.publish("", "a", f"m{number}")
    broker.get("a", "g", count=2)
    broker.ack("g/1")

    assert broker.answer(commands.Ack(refs=("g/1",), multiple=True)) == {"missing": ["g/1"]}
