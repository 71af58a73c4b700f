"""A channel forgets consumers that it held back and that have ended (R-QOS-3)."""

from streaming.broker import commands
from tests.builders import Broker


def hold_back(broker: Broker, numbers: range) -> None:
    for number in numbers:
        broker.queue(f"q{number}")
        broker.consume(f"q{number}", f"c{number}")
        broker.publish("", f"q{number}", f"m{number}")


def test_consumers_that_ended_while_they_were_held_back_are_not_served():
    broker = Broker()
    broker.do(commands.Qos(prefetch=1, is_global=True, channel="c0"))
    hold_back(broker, range(100))
    broker.do(commands.Settle(tag=1, channel="c0"))
    for number in range(2, 99):
        broker.do(commands.Cancel(label=f"c{number}"))
    hold_back(broker, range(100, 300))

    for tag in range(2, 5):
        broker.do(commands.Settle(tag=tag, channel="c0"))

    assert [one.split()[0] for one in broker.deliveries()] == [
        *("c0/0", "c1/0", "c99/0", "c100/0", "c101/0"),
    ]


def test_consumers_of_one_queue_go_back_together_and_are_met_once():
    broker = Broker()
    broker.do(commands.Qos(prefetch=1, is_global=True, channel="c0"))
    broker.queue("q")
    for label in ("a", "b", "c"):
        broker.consume("q", label)
    for number in range(4):
        broker.publish("", "q", f"m{number}")
    for tag in (1, 2):
        broker.do(commands.Settle(tag=tag, channel="c0"))
    broker.do(commands.Cancel(label="a"))
    broker.do(commands.Cancel(label="b"))
    broker.do(commands.Settle(tag=3, channel="c0"))
    broker.do(commands.Settle(tag=4, channel="c0"))

    assert [one.split()[0] for one in broker.deliveries()] == ["a/0", "b/0", "c/0", "c/1"]


def test_a_channel_that_goes_on_serves_each_queue_that_it_held_back():
    broker = Broker()
    hold_back(broker, range(2))
    broker.do(commands.Flow(active=False, channel="c0"))
    for number in range(2):
        broker.do(commands.Settle(tag=number + 1, channel="c0"))
        broker.publish("", f"q{number}", f"later {number}")

    before = len(broker.deliveries())
    broker.do(commands.Flow(active=True, channel="c0"))

    assert before == 2
    assert [one.split()[0] for one in broker.deliveries()[before:]] == ["c0/1", "c1/1"]
