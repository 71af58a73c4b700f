"""Delivery tags: how deliveries are numbered, and settled by their numbers."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.outbound import AnswerOut, DeliveryOut
from tests.builders import Broker
from topology.refusals import Refusal

CUT = pytest.mark.parametrize("cut", [False, True])


def a_broker(*, cut: bool = False, messages: int = 5, **config: Any) -> Broker:
    broker = Broker(cut=cut, **config)
    broker.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for number in range(messages):
        broker.publish("", "q", f"m{number + 1}")
    return broker


def settle(broker: Broker, tag: int, last: int = 0, **fields: Any) -> Refusal | None:
    """Settle by command."""
    return broker.refusal(commands.Settle(tag=tag, last=last, **fields))


def settle_fast(broker: Broker, tag: int, last: int = 0, **fields: Any) -> Refusal | None:
    """Settle without a command."""
    actor = broker.actor(None, "c0")
    refusal = broker.shard.settle(broker.time_ms, actor, tag, last, **fields)
    if broker.cut:
        broker.finish()
    return refusal


SETTLE = pytest.mark.parametrize("way", [settle, settle_fast])


def tags(broker: Broker) -> list[tuple[str, int, str]]:
    broker.finish()
    given = (out for out in broker.outbound if isinstance(out, DeliveryOut))
    return [(out.actor.channel, out.tag, broker.body(out)) for out in given]


@CUT
def test_r_set_10_tags_count_all_deliveries_of_a_channel(cut):
    broker = a_broker(cut=cut)

    broker.get("q", auto_ack=True)
    broker.get("q", "g")
    broker.consume("q", "a", prefetch=1, auto_ack=True)
    broker.publish("", "q", "m6")
    broker.queue("other")
    broker.consume("other", "b", channel="c1")
    broker.publish("", "other", "m7")

    assert tags(broker) == [
        *[("c0", number, f"m{number}") for number in range(1, 7)],
        ("c1", 1, "m7"),
    ]


@CUT
@SETTLE
def test_r_set_10_a_tag_is_settled(cut, way):
    broker = a_broker(cut=cut)
    broker.consume("q", "a", prefetch=3)
    broker.story()

    assert way(broker, 2) is None
    assert way(broker, 3, outcome="reject") is None
    assert way(broker, 1, outcome="requeue") is None

    assert broker.story() == [
        "m2 acked in q",
        "m4 delivered in q",
        "m3 died in q, rejected, to dead",
        "m5 delivered in q",
        "m3 enqueued in dead",
        "m1 requeued in q",
        "m1 delivered in q",
    ]


@CUT
@SETTLE
@pytest.mark.parametrize("outcome", ["ack", "requeue", "reject"])
def test_r_set_10_multiple_settles_all_tags_up_to_one_across_consumers(cut, way, outcome):
    broker = a_broker(cut=cut)
    broker.queue("r")
    broker.consume("q", "a", prefetch=2)
    broker.consume("r", "b")
    broker.publish("", "r", "m6")
    broker.get("q", "g")

    assert way(broker, 3, multiple=True, outcome=outcome) is None

    settled = {"ack": Kind.ACKED, "requeue": Kind.REQUEUED, "reject": Kind.DIED}[outcome]
    assert [queue for queue, _detail in broker.of_kind(settled)] == ["q", "q", "r"]
    assert way(broker, 4) is None


@CUT
@SETTLE
def test_r_set_10_multiple_with_tag_0_settles_all(cut, way):
    broker = a_broker(cut=cut)
    broker.consume("q", "a")

    assert way(broker, 0, multiple=True) is None
    assert way(broker, 0, multiple=True) is None  # nothing is left

    assert len(broker.of_kind(Kind.ACKED)) == 5


@CUT
@SETTLE
@pytest.mark.parametrize(
    ("tag", "fields"),
    [
        (0, {}),
        (6, {}),
        (6, {"multiple": True}),
        (2, {}),
        (2, {"multiple": True}),
        (2, {"outcome": "requeue"}),
        (2, {"outcome": "reject", "multiple": True}),
    ],
)
def test_r_set_10_an_unknown_tag_closes_the_channel(cut, way, tag, fields):
    broker = a_broker(cut=cut)
    broker.consume("q", "a")
    way(broker, 2)

    text = f"PRECONDITION_FAILED - unknown delivery tag {tag}"
    assert way(broker, tag, **fields) == Refusal(406, text)

    closed = {"what": "channel_closed", "name": "c0", "user": None, "cause": "channel_error"}
    assert ("", closed) in broker.of_kind(Kind.CHANNEL)
    assert [detail["code"] for _queue, detail in broker.of_kind(Kind.COMMAND_ERROR)] == [406]
    assert broker.drain("q") == ["m1", "m3", "m4", "m5"]


@SETTLE
def test_r_set_10_a_channel_that_is_not_open_knows_no_tag(way):
    broker = Broker()

    assert way(broker, 1) == Refusal(406, "PRECONDITION_FAILED - unknown delivery tag 1")


@CUT
@SETTLE
def test_r_set_10_a_range_is_settled_one_tag_after_the_other(cut, way):
    broker = a_broker(cut=cut, messages=8)
    broker.consume("q", "a", prefetch=2)
    broker.consume("q", "b", prefetch=2)
    broker.story()

    assert way(broker, 1, 4) is None
    assert way(broker, 5, 8) is None

    one_by_one = a_broker(cut=cut, messages=8)
    one_by_one.consume("q", "a", prefetch=2)
    one_by_one.consume("q", "b", prefetch=2)
    one_by_one.story()
    for tag in range(1, 9):
        settle(one_by_one, tag)
    assert broker.story() == one_by_one.story()


@CUT
@SETTLE
def test_r_set_10_a_range_ends_at_an_unknown_tag(cut, way):
    broker = a_broker(cut=cut)
    broker.consume("q", "a")
    way(broker, 3)
    broker.story()

    assert way(broker, 1, 5) == Refusal(406, "PRECONDITION_FAILED - unknown delivery tag 3")

    assert broker.story() == [
        "m1 acked in q",
        "m2 acked in q",
        "m4 requeued in q",
        "m5 requeued in q",
    ]


@CUT
@SETTLE
def test_a_range_may_reject(cut, way):
    broker = a_broker(cut=cut)
    broker.consume("q", "a")

    assert way(broker, 1, 5, outcome="reject", reason="bad") is None

    assert broker.drain("dead") == ["m1", "m2", "m3", "m4", "m5"]
    assert {detail["cause"] for _queue, detail in broker.of_kind(Kind.DIED)} == {"bad"}


@CUT
@SETTLE
def test_r_set_10_the_tag_of_a_delivery_whose_queue_was_deleted_is_known(cut, way):
    broker = a_broker(cut=cut, messages=3)
    broker.consume("q", "a")
    broker.do(commands.DeleteQueue(queue="q"))
    broker.story()

    assert way(broker, 1) is None
    assert way(broker, 3, multiple=True) is None
    assert way(broker, 3) == Refusal(406, "PRECONDITION_FAILED - unknown delivery tag 3")

    assert broker.story() == []


@CUT
@SETTLE
def test_tags_and_refs_name_the_same_deliveries(cut, way):
    broker = a_broker(cut=cut)
    broker.consume("q", "a")
    way(broker, 1)
    broker.ack("a/1")
    broker.ack("a/2", "a/3")

    assert way(broker, 5, multiple=True) is None
    assert way(broker, 4) == Refusal(406, "PRECONDITION_FAILED - unknown delivery tag 4")


@pytest.mark.parametrize("fields", [{"multiple": True}, {"last": 2}, {}])
def test_a_tag_that_was_settled_by_ref_is_unknown(fields):
    broker = a_broker()
    broker.consume("q", "a")
    settle_fast(broker, 1)
    broker.ack("a/1")

    unknown = Refusal(406, "PRECONDITION_FAILED - unknown delivery tag 2")
    assert settle_fast(broker, 2, **fields) == unknown


@pytest.mark.parametrize("fields", [{"multiple": True}, {"last": 2}, {}])
def test_a_tag_whose_consumer_is_gone_is_unknown(fields):
    broker = a_broker(messages=2)
    broker.consume("q", "a")
    settle_fast(broker, 1)
    broker.ack("a/1")
    broker.do(commands.Cancel(label="a"))
    channel = broker.shard.state.channels.get(None, "c0")
    assert channel is not None
    channel.drop_settled()

    unknown = Refusal(406, "PRECONDITION_FAILED - unknown delivery tag 2")
    assert settle_fast(broker, 2, **fields) == unknown


def test_recover_forgets_the_tags():
    broker = a_broker(messages=2)
    broker.consume("q", "a")
    settle_fast(broker, 1)

    broker.do(commands.Recover())

    assert settle_fast(broker, 2) == Refusal(406, "PRECONDITION_FAILED - unknown delivery tag 2")


def test_settling_by_tag_renews_the_lease():
    broker = a_broker()
    broker.do(commands.OpenChannel(channel="c0", lease_ms=1000))
    broker.consume("q", "a")

    broker.at(900)
    settle_fast(broker, 1)
    broker.at(1800)

    assert settle_fast(broker, 2) is None


def test_the_answer_to_a_settlement_is_only_sent_if_it_is_asked_for():
    broker = a_broker()
    broker.consume("q", "a")

    assert broker.do(commands.Settle(tag=1)) == []
    assert [type(out) for out in broker.do(commands.Settle(tag=2, reply_id="r"))] == [AnswerOut]


@SETTLE
def test_lanes_have_no_common_tags(way):
    broker = a_broker(lanes=2, vhost="v")
    broker.consume("q", "a")

    text = "delivery tags cannot be used in vhost 'v', which has 2 lanes"
    assert way(broker, 1) == Refusal(540, f"NOT_IMPLEMENTED - {text}")


def test_a_settlement_moves_the_clock_as_any_record_does():
    broker = a_broker(messages=1)
    broker.queue("other", message_ttl=50, dead_letter_exchange="", dead_letter_routing_key="q")
    broker.publish("", "other", "late")
    broker.get("q", "g")

    broker.shard.settle(broker.time_ms + 100, broker.actor(None, "c0"), 1)

    assert broker.depth("q") == 1
    assert broker.shard.now_ms == broker.time_ms + 100
