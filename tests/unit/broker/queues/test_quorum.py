"""Quorum queues: limits, requeueing, delivery limits, two priority levels."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.outbound import ConfirmOut
from tests.builders import Broker, a_queue

CUT = pytest.mark.parametrize("cut", [False, True])


def publish(broker: Broker, *bodies: str, queue: str = "q") -> list[bool]:
    """Publish with confirms; returns them."""
    out = [broker.publish("", queue, body, confirm=True) for body in bodies]
    return [one.ack for each in out for one in each if isinstance(one, ConfirmOut)]


@CUT
def test_r_len_15_reject_publish_is_soft_and_ends_at_four_fifths_of_the_limit(cut):
    broker = Broker(cut=cut)
    broker.quorum("q", max_length=5, overflow="reject-publish")

    first = publish(broker, *(f"m{number}" for number in range(8)))
    broker.get("q", "g", count=1)
    at_five = publish(broker, "m8")
    broker.get("q", "h", count=1)
    at_four = publish(broker, "m9")

    assert first == [True] * 6 + [False] * 2
    assert (at_five, at_four) == ([False], [True])


@CUT
def test_r_len_15_bytes_count_like_messages(cut):
    broker = Broker(cut=cut)
    broker.quorum("q", max_length_bytes=10, overflow="reject-publish")

    confirms = publish(broker, "four", "five5", "sixsix", "x")

    assert confirms == [True, True, True, False]


@CUT
def test_a_full_queue_accepts_again_after_a_purge_or_an_expiry(cut):
    broker = Broker(cut=cut)
    broker.quorum("q", max_length=0, overflow="reject-publish", message_ttl=100)
    publish(broker, "m1")
    refused = publish(broker, "m2")
    broker.do(commands.Purge(queue="q"))
    after_purge = publish(broker, "m3")
    full_again = publish(broker, "m4")
    broker.at(100)

    assert (refused, after_purge, full_again) == ([False], [True], [False])
    assert publish(broker, "m5") == [True]


@CUT
def test_a_message_is_got_from_any_level_without_moving_the_counter(cut):
    broker = Broker(cut=cut)
    broker.quorum("q")
    for number, priority in enumerate((0, 0, 9, 9, 9, 0)):
        broker.publish("", "q", f"m{number}", priority=priority)
    broker.get("q", "g")
    broker.reject("g/0", requeue=True)

    got = [
        broker.body(one)
        for offset in (2, 1, 4, 1)
        for one in broker.get("q", message=f"0/0/{offset}")
    ]

    assert got == ["m2", "m1", "m4"]
    assert broker.drain("q") == ["m3", "m0", "m5"]


@CUT
def test_r_len_16_heads_dropped_together_are_dead_lettered_newest_first(cut):
    broker = Broker(cut=cut)
    broker.quorum("q", max_length_bytes=4, dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")

    publish(broker, "aa", "bb", "cccc")

    assert broker.drain("dead") == ["bb", "aa"]


@CUT
def test_r_set_7_on_3_10_messages_of_a_lost_channel_come_first(cut):
    broker = Broker(cut=cut, compat="3.10")
    broker.quorum("q")
    publish(broker, "1", "2", "3")
    broker.get("q", "g", count=2)

    broker.close_channel()

    assert broker.drain("q") == ["1", "2", "3"]


@CUT
def test_r_dlv_5_the_default_limit_is_20_on_4_0_and_can_be_switched_off(cut):
    for arguments, left in (({}, 0), ({"delivery_limit": -1}, 1)):
        broker = Broker(cut=cut)
        broker.quorum("q", **arguments)
        publish(broker, "m")
        for _ in range(21):
            broker.get("q", "g")
            broker.reject("g/0", requeue=True)

        assert broker.depth("q") == left


@CUT
def test_r_dlv_7_a_rejected_message_shows_a_stale_count_in_the_next_quorum_queue_until_requeued(
    cut,
):
    broker = Broker(cut=cut)
    broker.quorum("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.quorum("dead")
    publish(broker, "m")
    broker.get("q", "g")
    broker.reject("g/0")

    (first,) = broker.get("dead", "h")
    broker.reject("h/0", requeue=True)
    (second,) = broker.get("dead", "i")

    assert (first.requeue_count, first.delivery_count) == (0, 1)
    assert (second.requeue_count, second.delivery_count) == (1, 1)


@CUT
def test_r_pri_7_a_normal_message_never_overtakes_an_earlier_high_message(cut):
    broker = Broker(cut=cut)
    broker.quorum("q")
    broker.publish("", "q", "n0")
    broker.publish("", "q", "n1")
    first = [broker.body(one) for one in broker.get("q", "g", count=2)]
    broker.publish("", "q", "h0", priority=5)
    broker.publish("", "q", "n2")

    assert (first, broker.drain("q")) == (["n0", "n1"], ["h0", "n2"])


@CUT
def test_a_purge_removes_requeued_high_and_normal_messages(cut):
    broker = Broker(cut=cut)
    broker.quorum("q")
    for priority in (0, 9, 0, 9):
        broker.publish("", "q", f"p{priority}", priority=priority)
    broker.get("q", "g")
    broker.reject("g/0", requeue=True)

    assert broker.answer(commands.Purge(queue="q")) == {"purged": 4}
    assert broker.drain("q") == []


@CUT
def test_r_pri_7_a_purge_restarts_the_two_to_one_count(cut):
    broker = Broker(cut=cut)
    broker.quorum("q")
    for body in ("a", "b", "c"):
        broker.publish("", "q", body)
    broker.get("q", "g", count=2)
    broker.do(commands.Purge(queue="q"))
    for body, priority in (("n0", 0), ("h0", 5), ("n1", 0), ("h1", 5)):
        broker.publish("", "q", body, priority=priority)

    assert broker.drain("q") == ["h0", "h1", "n0", "n1"]


def test_a_consumer_that_has_no_room_leaves_ready_messages():
    broker = Broker()
    broker.quorum("q")
    for number in range(3):
        broker.publish("", "q", f"m{number}")

    broker.consume("q", "c", prefetch=1)
    broker.ack("c/0")

    assert broker.deliveries() == ["c/0 m0", "c/1 m1"]
    assert broker.depth("q") == 1


def _counted(broker: Broker) -> int:
    answer = broker.answer(commands.DeclareQueue(queue=a_queue("q"), passive=True))
    assert isinstance(answer, dict)
    count: int = answer["consumers"]
    return count


@CUT
@pytest.mark.parametrize("end", ["ack", "requeue", "close"])
def test_r_qexp_5_a_quorum_queue_does_not_expire_while_a_get_is_unacked(cut, end):
    broker = Broker(cut=cut)
    broker.quorum("q", expires=1_000)
    broker.publish("", "q", "m")
    broker.get("q", "g", count=1)

    broker.at(5_000)
    before = broker.depth("q")  # a use, but the channel holds the message still
    broker.at(9_000)
    match end:
        case "ack":
            broker.ack("g/0")
        case "requeue":
            broker.reject("g/0", requeue=True)
        case _:
            broker.close_channel()
    broker.at(9_999)
    alive = broker.of_kind(Kind.TOPOLOGY)[-1][1]["what"]
    broker.at(10_000)

    assert before == 0
    assert alive != "queue_deleted"
    assert broker.depth("q") is None


@CUT
def test_r_qexp_5_it_rests_when_its_cancelled_consumers_have_settled_all(cut):
    broker = Broker(cut=cut)
    broker.quorum("q", expires=1_000)
    broker.consume("q", "c")
    broker.publish("", "q", "m1")
    broker.publish("", "q", "m2")
    broker.do(commands.Cancel(label="c"))

    broker.at(5_000).ack("c/0")
    broker.at(9_000).ack("c/1")
    broker.at(9_999)
    alive = broker.of_kind(Kind.TOPOLOGY)[-1][1]["what"]
    broker.at(10_000)

    assert alive != "queue_deleted"
    assert broker.depth("q") is None


@CUT
def test_r_qexp_5_gets_and_cancelled_consumers_count_until_they_have_settled(cut):
    broker = Broker(cut=cut)
    broker.quorum("q")
    for name in ("m1", "m2", "m3", "m4"):
        broker.publish("", "q", name)
    counts = []
    broker.get("q", "g", count=2)
    counts.append(_counted(broker))
    broker.consume("q", "c", prefetch=1)
    counts.append(_counted(broker))
    broker.do(commands.Cancel(label="c"))
    counts.append(_counted(broker))
    broker.consume("q", "c", prefetch=1)
    counts.append(_counted(broker))  # one label, one consumer
    broker.ack("g/0", "g/1")
    counts.append(_counted(broker))
    broker.close_channel()
    counts.append(_counted(broker))

    assert counts == [2, 3, 3, 3, 1, 0]


def test_r_qexp_5_a_classic_queue_counts_its_consumers_alone():
    broker = Broker()
    broker.queue("q", expires=1_000)
    broker.publish("", "q", "m")
    broker.get("q", "g", count=1)

    before = _counted(broker)
    broker.at(1_000)

    assert before == 0
    assert broker.depth("q") is None
