"""A check answers what would be refused, in RabbitMQ's words and order, without effect."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.commands import Ack, Check, CheckedPublish, Nack, Reject
from streaming.broker.events import Kind
from streaming.broker.outbound import AnswerOut
from tests.builders import Broker
from tests.event_sentences import error_of
from topology.refusals import Refusal

NO_EXCHANGE = Refusal(404, "NOT_FOUND - no exchange 'none' in vhost '/'")


def unknown(ref: str) -> Refusal:
    return Refusal(406, f"PRECONDITION_FAILED - unknown delivery tag {ref}")


def a_broker(*, cut: bool = False, **config: Any) -> Broker:
    """`work` holds m0 to m3; channel c0 has m0 to m2 unacked as g/0 to g/2."""
    broker = Broker(cut=cut, **config)
    broker.queue("work")
    broker.exchange("x")
    broker.exchange("inside", internal=True)
    for number in range(4):
        broker.publish("", "work", f"m{number}")
    broker.get("work", "g", count=3)
    broker.story()
    return broker


def checked(broker: Broker, *steps: Any, user: str | None = None) -> Refusal | None:
    return broker.refusal(Check(steps=steps), user=user)


@pytest.mark.parametrize("compat", ["4.0", "3.10"])
@pytest.mark.parametrize(
    ("exchange", "expiration", "headers", "refused"),
    [
        ("none", None, {}, True),
        ("inside", None, {}, True),
        ("x", "tomorrow", {}, True),
        ("x", "5", {"CC": "no list"}, True),
        ("x", "5", {"BCC": 1}, True),
        ("none", "tomorrow", {"CC": 1}, True),
        ("x", "5", {"CC": ["k"]}, False),
        ("", None, {}, False),
    ],
)
def test_a_check_refuses_a_publish_as_publishing_it_would(
    exchange, expiration, headers, refused, compat
):
    broker = a_broker(compat=compat)
    step = CheckedPublish(exchange=exchange, expiration=expiration, headers=headers)
    properties = {} if expiration is None else {"expiration": expiration}

    refusal = checked(broker, step)

    assert refusal == error_of(broker.publish(exchange, "k", "m", headers=headers, **properties))
    assert (refusal is not None) == refused


def test_a_check_uses_the_permissions_of_the_user_who_asks():
    broker = a_broker(enforce_permissions=True, administrators=("root",))
    broker.do(commands.SetPermissions(user="ann", configure="", write="^x$", read=""))

    assert checked(broker, CheckedPublish(exchange="x"), user="ann") is None
    assert checked(broker, CheckedPublish(exchange=""), user="ann") == Refusal(
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for "
        "user 'ann'",
    )
    assert checked(broker, CheckedPublish(exchange="none"), user="root") == NO_EXCHANGE


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(
    ("steps", "refused"),
    [
        ([Ack(refs=("g/0", "g/2", "1.0.1"))], None),
        ([Reject(refs=("g/0",)), Nack(refs=("g/1",)), Ack(refs=("g/2",), channel="c0")], None),
        ([Ack(refs=("g/1",), multiple=True), Nack(refs=("g/2",), multiple=True)], None),
        ([Ack(refs=())], None),
        ([Ack(refs=("g/3",))], "g/3"),
        ([Ack(refs=("g/0",), channel="other")], "g/0"),
        ([Ack(refs=("nonsense",), multiple=True)], "nonsense"),
        ([Ack(refs=("g/0", "g/0"))], "g/0"),
        ([Ack(refs=("g/0",)), Reject(refs=("1.0.0",))], "1.0.0"),
        ([Nack(refs=("g/1",), multiple=True), Ack(refs=("g/0",))], "g/0"),
        ([Ack(refs=("g/1",), multiple=True), Ack(refs=("g/1",), multiple=True)], "g/1"),
    ],
)
def test_a_check_refuses_a_settlement_of_a_delivery_that_is_no_longer_unacked(steps, refused, cut):
    broker = a_broker(cut=cut)

    assert checked(broker, *steps) == (None if refused is None else unknown(refused))


def test_a_label_settled_on_the_newest_channel_means_an_older_channel():
    broker = a_broker()
    broker.get("work", "g", channel="c1")

    assert checked(broker, Ack(refs=("g/0", "g/0"))) is None
    assert checked(broker, Ack(refs=("g/0", "g/0", "g/0"))) == unknown("g/0")


def test_a_check_refuses_to_settle_deliveries_of_another_user():
    assert checked(a_broker(), Ack(refs=("g/0",)), user="bob") == unknown("g/0")


def test_the_first_refusal_in_order_of_the_steps_is_answered():
    broker = a_broker()
    publish, settlement = CheckedPublish(exchange="none"), Ack(refs=("gone/0",))

    assert checked(broker, publish, settlement) == NO_EXCHANGE
    assert checked(broker, settlement, publish) == unknown("gone/0")


def test_a_check_changes_no_state_and_closes_no_channel():
    broker = a_broker()
    steps = (CheckedPublish(), Ack(refs=("g/2",), multiple=True))

    assert broker.answer(Check(steps=steps, channel="c0")) == {}
    assert broker.answer(Check(steps=(*steps, *steps), channel="c0")) == unknown("g/2")

    assert broker.story() == []
    assert broker.of_kind(Kind.CHANNEL) == []
    [(_queue, detail)] = broker.of_kind(Kind.COMMAND_ERROR)
    assert detail == {"op": "check", "code": 406, "text": unknown("g/2").text}
    assert broker.answer(Ack(refs=("g/2",), multiple=True)) == {}


@pytest.mark.parametrize("lane", [0, 3])
def test_every_lane_answers_its_own_checks(lane):
    broker = Broker(lanes=4, lane=lane)

    [answer] = broker.do(Check(steps=(CheckedPublish(exchange="none"),)))

    assert isinstance(answer, AnswerOut)
    assert answer.refusal == NO_EXCHANGE
