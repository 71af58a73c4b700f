"""Deliveries of a channel that are stopped and resumed (R-QOS-7)."""

import pytest

from streaming.broker import commands
from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])


def flow(broker: Broker, *, active: bool) -> None:
    assert broker.refusal(commands.Flow(active=active, channel="c0")) is None


@CUT
@pytest.mark.parametrize("queue", ["queue", "quorum"])
@pytest.mark.parametrize("auto_ack", [False, True])
def test_r_qos_7_a_stopped_channel_gets_nothing_and_others_do(cut, queue, auto_ack):
    broker = Broker(cut=cut)
    getattr(broker, queue)("q")
    broker.consume("q", "a", auto_ack=auto_ack)
    broker.consume("q", "b", channel="c1", prefetch=1)
    flow(broker, active=False)
    broker.consume("q", "late")

    for number in range(3):
        broker.publish("", "q", f"m{number}")

    assert broker.deliveries() == ["b/0 m0"]
    assert broker.depth("q") == 2

    flow(broker, active=True)

    assert broker.deliveries()[1:] == ["a/0 m1", "late/0 m2"]


@CUT
def test_r_qos_7_a_stopped_channel_settles_and_gets(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.consume("q", "a", prefetch=1)
    for number in range(3):
        broker.publish("", "q", f"m{number}")
    flow(broker, active=False)

    broker.ack("a/0")
    (got,) = broker.get("q", "g")
    assert got.copy.message.offset == 1
    flow(broker, active=True)

    assert broker.deliveries()[-1] == "a/1 m2"


@CUT
def test_r_qos_7_a_common_limit_counts_on_while_a_channel_is_stopped(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.consume("q", "a")
    broker.do(commands.Qos(prefetch=1, is_global=True, channel="c0"))
    broker.publish("", "q", "m0")
    flow(broker, active=False)

    broker.ack("a/0")
    broker.publish("", "q", "m1")
    assert broker.deliveries() == ["a/0 m0"]
    flow(broker, active=True)
    broker.publish("", "q", "m2")

    assert broker.deliveries() == ["a/0 m0", "a/1 m1"]
