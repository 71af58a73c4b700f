"""Requeued copies: their order and positions, their failures, and the line of consumers."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.queues import step_size
from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])


def a_broker(count: int, *, cut: bool = False, compat: str = "4.0", **arguments: object) -> Broker:
    """A queue `q` with messages `m0`, `m1`, ..."""
    broker = Broker(cut=cut, compat=compat)
    broker.queue("q", **arguments)
    for number in range(count):
        broker.publish("", "q", f"m{number}")
    return broker


@CUT
def test_r_dlv_7_each_lost_channel_is_one_more_failure(cut):
    broker = a_broker(1, cut=cut, queue_type="quorum")

    failures = []
    for label in ("g", "h", "i"):
        (given,) = broker.get("q", label)
        failures.append((given.requeue_count, given.failures))
        broker.close_channel()

    assert failures == [(0, 0), (1, 1), (2, 2)]


@CUT
def test_r_dlv_2_copies_beyond_the_delivery_limit_do_not_keep_the_others_from_returning(cut):
    broker = a_broker(1, cut=cut, queue_type="quorum", delivery_limit=1)
    broker.get("q", "g")
    broker.close_channel()
    broker.publish("", "q", "m1")
    broker.get("q", "h", count=2)

    broker.close_channel()

    assert broker.story()[-2:] == [
        "m0 died in q, delivery_limit, to nowhere: no_exchange",
        "m1 requeued in q",
    ]
    assert broker.drain("q") == ["m1"]


def positions(broker: Broker, kind: Kind) -> list[int]:
    return [event.number for event in broker.everything() if event.kind is kind]


@CUT
def test_r_set_7_on_3_10_without_a_delivery_limit_a_requeued_copy_gets_the_next_position(cut):
    broker = a_broker(2, cut=cut, compat="3.10", queue_type="quorum")
    broker.get("q", "g", count=2)
    broker.reject("g/1", "g/0", requeue=True)
    broker.publish("", "q", "m2")

    first, second, third = positions(broker, Kind.ENQUEUED)
    assert positions(broker, Kind.REQUEUED) == [second + 1, second + 2]
    assert (second, third) == (first + 1, second + 3)
    assert broker.drain("q") == ["m1", "m0", "m2"]


@CUT
def test_r_set_7_copies_requeued_to_a_quorum_queue_have_consecutive_positions_before_all(cut):
    broker = a_broker(3, cut=cut, queue_type="quorum")
    broker.get("q", "g", count=2)
    broker.reject("g/1", "g/0", requeue=True)

    first, second = positions(broker, Kind.REQUEUED)
    assert second == first + 1
    assert second < min(positions(broker, Kind.ENQUEUED))
    assert broker.drain("q") == ["m1", "m0", "m2"]


@CUT
@pytest.mark.parametrize("requeue", [False, True])
def test_r_queue_2_a_consumer_in_line_keeps_its_place_when_it_settles(cut, requeue):
    """Two consumers with room to spare take turns, whatever the first returns."""
    broker = a_broker(0, cut=cut)
    for label in ("a", "b"):
        broker.consume("q", label, prefetch=9)
    broker.publish("", "q", "m0")

    broker.reject("a/0", requeue=requeue)
    for number in range(1, 5):
        broker.publish("", "q", f"m{number}")

    receivers = [line.partition("/")[0] for line in broker.deliveries()]
    assert receivers == ["a", *["b", "a"] * 2, *["b"] * requeue]


@CUT
def test_r_queue_2_a_consumer_that_gains_room_twice_is_in_line_once(cut):
    broker = a_broker(2, cut=cut)
    broker.consume("q", "c", prefetch=2)

    broker.ack("c/0")
    broker.ack("c/1")
    for number in range(2, 6):
        broker.publish("", "q", f"m{number}")

    assert len(broker.deliveries()) == 4
    assert broker.depth("q") == 2


@CUT
def test_a_purged_priority_queue_records_high_priorities_first_and_goes_on(cut):
    broker = Broker(cut=cut)
    broker.queue("q", max_priority=5)
    for priority in (0, 3, 1):
        broker.publish("", "q", f"old {priority}", priority=priority)
    broker.story()

    broker.do(commands.Purge(queue="q"))
    for priority in (1, 4):
        broker.publish("", "q", f"new {priority}", priority=priority)

    assert [line for line in broker.story() if "purged" in line] == [
        f"old {priority} purged in q" for priority in (3, 1, 0)
    ]
    assert broker.drain("q") == ["new 4", "new 1"]


@CUT
def test_requeued_copies_that_never_were_in_a_page_are_purged_in_portions(cut, monkeypatch):
    monkeypatch.setattr(step_size, "MAX_AT_ONCE", 2)
    broker = a_broker(5, cut=cut)
    broker.get("q", "g", count=5)
    broker.do(commands.Recover(channel="c0"))

    broker.do(commands.Purge(queue="q"))
    broker.publish("", "q", "new")
    broker.at(1_000)

    assert len(broker.of_kind(Kind.PURGED)) == 5
    assert broker.drain("q") == ["new"]
