"""Settling several deliveries with one command, and the prefetch that this frees (R-SET-3)."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.commands import Ack, CheckedPublish, Nack, Reject
from streaming.broker.events import Kind
from streaming.broker.outbound import AnswerOut
from tests.builders import Broker
from topology.refusals import Refusal

CUT = pytest.mark.parametrize("cut", [False, True])


@CUT
def test_a_multiple_ack_frees_prefetch_of_every_consumer_concerned(cut):
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
def test_multiple_settles_deliveries_of_gets_and_consumers_up_to_the_tag_in_order(cut):
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
def test_a_multiple_requeue_frees_prefetch_and_redelivers(cut):
    broker = Broker(cut=cut)
    broker.queue("a")
    for number in range(3):
        broker.publish("", "a", f"m{number}")
    broker.consume("a", "one", prefetch=1)
    broker.consume("a", "two", prefetch=1)

    broker.do(commands.Nack(refs=("two/0",), multiple=True, requeue=True))

    assert broker.deliveries() == ["one/0 m0", "two/0 m1", "one/1 m0", "two/1 m1"]


@CUT
def test_multiple_up_to_a_settled_delivery_reports_it_as_missing(cut):
    broker = Broker(cut=cut)
    broker.queue("a")
    for number in range(2):
        broker.publish("", "a", f"m{number}")
    broker.get("a", "g", count=2)
    broker.ack("g/1")

    assert broker.answer(commands.Ack(refs=("g/1",), multiple=True)) == {"missing": ["g/1"]}


def with_a_gap(*, cut: bool, **config: Any) -> Broker:
    """Channel c0 has a/0 and b/0 of `kept`, and between them two deliveries of a deleted queue."""
    broker = Broker(cut=cut, **config)
    for queue in ("kept", "deleted"):
        broker.queue(queue)
        for number in range(2):
            broker.publish("", queue, f"{queue}{number}")
    broker.get("kept", "a")
    broker.consume("deleted", "gone")
    broker.get("kept", "b")
    broker.do(commands.DeleteQueue(queue="deleted"))
    broker.story()
    return broker


@CUT
@pytest.mark.parametrize(
    ("settlement", "story"),
    [
        (Ack(refs=("gone/0",), multiple=True), ["kept0 acked in kept"]),
        (Ack(refs=("1.1.1",), multiple=True), ["kept0 acked in kept"]),
        (Nack(refs=("gone/1",), multiple=True, requeue=True), ["kept0 requeued in kept"]),
        (
            Nack(refs=("gone/1",), multiple=True),
            ["kept0 died in kept, rejected, to nowhere: no_exchange"],
        ),
        (Ack(refs=("gone/0", "gone/1")), []),
        (Reject(refs=("gone/0",)), []),
    ],
)
def test_multiple_up_to_a_delivery_of_a_deleted_queue_settles_the_older_deliveries(
    settlement, story, cut
):
    """As in RabbitMQ 3.10.8; settling only that delivery has no effect."""
    broker = with_a_gap(cut=cut)

    assert broker.answer(settlement) == {"missing": list(settlement.refs)}
    assert broker.story() == story
    assert broker.answer(settlement) == {"missing": list(settlement.refs)}
    assert broker.story() == []
    broker.ack("b/0")
    assert broker.story() == ["kept1 acked in kept"]


@CUT
def test_a_delivery_of_a_deleted_queue_is_settled_once(cut):
    """After that, `multiple` up to it is refused like RabbitMQ's unknown delivery tag."""
    broker = with_a_gap(cut=cut)
    broker.ack("gone/0", "gone/1")

    broker.ack("gone/1", multiple=True)

    assert broker.story() == []


@CUT
def test_multiple_beyond_deliveries_of_a_deleted_queue_settles_the_others(cut):
    broker = with_a_gap(cut=cut)

    assert broker.answer(Ack(refs=("b/0",), multiple=True)) == {}
    assert broker.story() == ["kept0 acked in kept", "kept1 acked in kept"]


@CUT
def test_multiple_up_to_a_tag_that_was_never_delivered_is_missing(cut):
    broker = with_a_gap(cut=cut)

    assert broker.answer(Ack(refs=("gone/2", "1.1.2"), multiple=True)) == {
        "missing": ["gone/2", "1.1.2"]
    }
    assert broker.story() == []


@CUT
def test_recover_drops_the_deliveries_of_a_deleted_queue(cut):
    broker = with_a_gap(cut=cut)

    assert broker.answer(commands.Recover(channel="c0")) == {"requeued": 2}
    broker.ack("gone/1", multiple=True)

    assert broker.story() == ["kept0 requeued in kept", "kept1 requeued in kept"]
    assert [key for key in broker.store.values if key.startswith("d")] == []


@CUT
def test_the_consumer_timeout_applies_to_deliveries_of_a_deleted_queue(cut):
    broker = with_a_gap(cut=cut, consumer_timeout_ms=1_000)
    broker.ack("a/0", "b/0")

    broker.at(1_000)

    [(_queue, detail)] = broker.of_kind(Kind.CHANNEL)[-1:]
    assert (detail["what"], detail["cause"]) == ("channel_closed", "consumer_timeout")


@CUT
def test_a_check_refuses_to_settle_deliveries_of_a_deleted_queue(cut):
    broker = with_a_gap(cut=cut)
    steps = (CheckedPublish(), Ack(refs=("a/0",)), Ack(refs=("gone/1",), multiple=True))

    assert broker.answer(commands.Check(steps=steps)) == Refusal(
        406, "PRECONDITION_FAILED - unknown delivery tag gone/1"
    )


@CUT
def test_r_set_7_recover_is_an_explicit_requeue_and_no_failure(cut):
    broker = Broker(cut=cut)
    broker.quorum("q")
    broker.publish("", "q", "m1")
    broker.get("q", "g")

    broker.do(commands.Recover(channel="c0"))

    (again,) = broker.get("q", "h")
    assert (again.requeue_count, again.failures) == (1, 0)


@pytest.mark.parametrize("op", [commands.Ack, commands.Reject, commands.Nack])
def test_a_settlement_is_answered_if_asked_for_or_if_something_is_missing(
    op: type[Ack | Reject | Nack],
) -> None:
    broker = Broker()
    broker.queue("work")
    for body in ("m1", "m2"):
        broker.publish("", "work", body)
    broker.get("work", "g", count=2)

    assert broker.do(op(refs=("g/0",))) == []
    given = [*broker.do(op(refs=("g/0",))), *broker.do(op(refs=("g/1",), reply_id="r"))]

    answers = [(out.reply_id, out.result) for out in given if isinstance(out, AnswerOut)]
    assert answers == [(None, {"missing": ["g/0"]}), ("r", {})]


def holding(cut, compat="4.0", queue_type="quorum", **consumer):
    """Two gets, two consumers whose labels are not in the order of their age, a tenth get."""
    broker = Broker(cut=cut, compat=compat)
    broker.queue(
        "q", queue_type=queue_type, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    broker.queue("dead")
    for number in range(10):
        broker.publish("", "q", f"m{number}")
    broker.get("q", "g", count=2)
    broker.consume("q", "b", prefetch=2, **consumer)
    broker.consume("q", "a", prefetch=2, **consumer)
    for label in ("b/0", "a/0"):
        broker.ack(label, channel="c0")
    broker.get("q", "g2", count=2)
    return broker


@CUT
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_r_set_12_all_that_is_rejected_dies_consumer_by_consumer(cut, queue_type):
    broker = holding(cut, queue_type=queue_type)
    broker.story()

    broker.do(commands.Nack(refs=("g2/1",), multiple=True, channel="c0"))

    died = [line.split()[0] for line in broker.story() if "died" in line]
    assert died == ["m0", "m1", "m8", "m9", "m5", "m7", "m3", "m6"]


@CUT
@pytest.mark.parametrize(
    ("compat", "order"),
    [
        ("4.0", ["m3", "m6", "m5", "m7", "m0", "m9", "m1", "m8"]),
        ("3.10", ["m0", "m9", "m1", "m8", "m5", "m7", "m3", "m6"]),
    ],
)
def test_r_set_7_what_a_lost_channel_had_of_a_quorum_queue_returns_consumer_by_consumer(
    cut, compat, order
):
    broker = holding(cut, compat)

    broker.close_channel()

    broker.get("q", "all", count=8, channel="c1")
    got = [line.split() for line in broker.deliveries()]
    assert [body for label, body in got if label.startswith("all/")] == order


@CUT
def test_r_set_12_with_a_common_limit_all_parts_are_settled_before_anybody_is_served(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    for number in range(8):
        broker.publish("", "q", f"m{number}")
    broker.do(commands.Qos(prefetch=4, is_global=True, channel="c0"))
    broker.consume("q", "b", prefetch=2)
    broker.consume("q", "a", prefetch=2)
    before = len(broker.deliveries())

    broker.ack("a/1", multiple=True, channel="c0")

    assert broker.deliveries()[before:] == ["b/2 m4", "a/2 m5", "b/3 m6", "a/3 m7"]


@CUT
@pytest.mark.parametrize(
    ("settle", "then"),
    [
        (commands.Settle(tag=0, multiple=True, channel="c0"), ["a/1 m2"]),
        (commands.Recover(channel="c0"), ["a/1 m0"]),
    ],
)
def test_r_set_12_who_starts_again_is_served_when_what_it_had_before_is_settled_too(
    cut, settle, then
):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.publish("", "q", "m0")
    broker.consume("q", "a", prefetch=1)
    broker.do(commands.Cancel(label="a", channel="c0"))
    broker.publish("", "q", "m1")
    broker.consume("q", "a", prefetch=1)
    broker.publish("", "q", "m2")
    before = len(broker.deliveries())

    broker.do(settle)

    assert broker.deliveries()[before:] == then
