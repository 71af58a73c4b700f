"""Getting one message by its identity, wherever it is in its queue."""

import pytest

from streaming.broker import commands
from tests.builders import Broker
from tests.property.broker.playing import tiny_pages

CUT = pytest.mark.parametrize("cut", [False, True])
PRIORITIES = pytest.mark.parametrize("arguments", [{}, {"max_priority": 3}])


@CUT
@PRIORITIES
def test_the_very_message_is_delivered_and_the_others_keep_their_order(cut, arguments):
    broker = Broker(cut=cut)
    broker.queue("dead", **arguments)
    for number in range(5):
        broker.publish("", "dead", f"m{number}", priority=number % 2)

    [got] = broker.get("dead", "g", message="0/0/3")
    nothing = broker.get("dead", "h", message="0/0/3")

    assert (broker.body(got), nothing) == ("m3", [])
    assert broker.depth("dead") == 4
    broker.reject("g/0", requeue=True)
    expected = ["m0", "m1", "m2", "m3", "m4"]
    assert broker.drain("dead") == (expected if not arguments else ["m1", "m3", "m0", "m2", "m4"])


@CUT
@PRIORITIES
def test_the_last_copy_of_a_queue_can_be_got_by_its_identity(cut, arguments):
    broker = Broker(cut=cut)
    broker.queue("dead", **arguments)
    broker.publish("", "dead", "m0", priority=2)

    got = broker.get("dead", message="0/0/0", auto_ack=True)
    broker.publish("", "dead", "m1")

    assert [broker.body(one) for one in got] == ["m0"]
    assert broker.drain("dead") == ["m1"]


def test_count_gets_several_copies_of_the_message():
    broker = Broker()
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.publish("", "work", "m0", headers={"CC": ["dead"]})
    broker.publish("", "work", "m1")
    broker.get("work", "g", count=2)
    broker.reject("g/0")
    broker.reject("g/1")

    got = broker.get("dead", count=5, message="0/0/0")

    assert [broker.body(one) for one in got] == ["m0", "m0"]
    assert broker.drain("dead") == ["m1"]


@pytest.mark.parametrize("other", ["1/0/1", "0/1/1", "0/0/9"])
def test_another_identity_gets_nothing_and_reports_so(other):
    broker = Broker()
    broker.queue("dead")
    broker.publish("", "dead", "m0")
    broker.publish("", "dead", "m1")

    answer = broker.answer(commands.Get(queue="dead", message=other))

    assert answer == {"delivered": 0}
    assert broker.depth("dead") == 2


def test_an_expired_message_behind_the_head_is_not_delivered():
    """As in RabbitMQ, it stays until it becomes the head (R-TTL-3)."""
    broker = Broker()
    broker.queue("dead")
    broker.publish("", "dead", "m0")
    broker.publish("", "dead", "m1", expiration="100")
    broker.at(200)

    assert broker.get("dead", message="0/0/1") == []
    assert broker.depth("dead") == 2


def test_the_next_head_expires_if_the_message_was_the_head():
    broker = Broker()
    broker.queue("dead")
    broker.publish("", "dead", "m0")
    broker.publish("", "dead", "m1", expiration="100")
    broker.at(200)

    got = broker.get("dead", message="0/0/0")

    assert [broker.body(one) for one in got] == ["m0"]
    assert broker.depth("dead") == 0


def test_a_message_with_time_left_behind_a_consumed_prefetch_is_delivered():
    broker = Broker()
    broker.queue("dead")
    for number in range(4):
        broker.publish("", "dead", f"m{number}", expiration="1000")
    broker.do(commands.Consume(queue="dead", label="c", prefetch=2))

    assert broker.get("dead", message="0/0/0") == []  # unacked
    assert [broker.body(one) for one in broker.get("dead", message="0/0/3")] == ["m3"]


@CUT
@PRIORITIES
def test_a_requeued_message_is_got_and_the_other_requeued_ones_keep_their_order(cut, arguments):
    """They came back in an order that makes three runs of positions (`sorted_runs.py`)."""
    broker = Broker(cut=cut)
    broker.queue("dead", **arguments)
    for number in range(8):
        broker.publish("", "dead", f"m{number}")
    broker.get("dead", "g", count=7)
    for number in (5, 0, 3, 1):
        broker.reject(f"g/{number}", requeue=True)

    [first] = broker.get("dead", "h", message="0/0/0")
    [last] = broker.get("dead", "i", message="0/0/5")
    missing = broker.get("dead", "j", message="0/0/4")

    assert (broker.body(first), broker.body(last), missing) == ("m0", "m5", [])
    assert broker.depth("dead") == 3
    assert broker.drain("dead") == ["m1", "m3", "m7"]


@CUT
def test_the_requeued_message_that_begins_a_run_makes_way_for_older_ones(cut):
    broker = Broker(cut=cut)
    broker.queue("dead")
    for number in range(6):
        broker.publish("", "dead", f"m{number}")
    broker.get("dead", "g", count=6)
    for number in (5, 0, 3):
        broker.reject(f"g/{number}", requeue=True)

    [got] = broker.get("dead", message="0/0/0", auto_ack=True)

    assert broker.body(got) == "m0"
    assert broker.drain("dead") == ["m3", "m5"]


@CUT
@pytest.mark.parametrize("auto_ack", [False, True])
def test_a_got_message_has_its_label_and_is_counted_like_any_other(cut, auto_ack):
    broker = Broker(cut=cut)
    broker.queue("dead")
    for number in range(3):
        broker.publish("", "dead", f"m{number}", size=10 + number)

    (got,) = broker.get("dead", "lab", message="0/0/1", auto_ack=auto_ack)
    left = broker.shard.state.queues.named("dead")

    assert (got.ref, got.delivery_id == "") == ("lab/0", auto_ack)
    assert (left.ready, left.ready_bytes) == (2, 22)
    assert (left.unacked, left.unacked_bytes) == ((0, 0) if auto_ack else (1, 11))
    assert broker.story()[-1] == f"m1 {'consumed' if auto_ack else 'delivered'} in dead"


@pytest.mark.parametrize(("at_ms", "bodies"), [(99, ["m1"]), (100, [])])
def test_r_ttl_8_a_message_is_not_delivered_from_its_deadline_on(at_ms, bodies):
    broker = Broker()
    broker.queue("dead")
    broker.publish("", "dead", "m0")
    broker.publish("", "dead", "m1", expiration="100")
    broker.at(at_ms)

    assert [broker.body(one) for one in broker.get("dead", message="0/0/1")] == bodies


@CUT
def test_a_message_taken_from_a_page_at_rest_is_not_delivered_again(cut):
    broker = Broker(cut=cut)
    with tiny_pages():
        broker.queue("dead")
        for number in range(40):
            broker.publish("", "dead", f"m{number}")
        broker.finish()
        broker.get("dead", count=3, auto_ack=True)
        broker.finish()

        taken = [broker.get("dead", message=f"0/0/{number}") for number in range(3)]
        [next_one] = broker.get("dead", message="0/0/3", auto_ack=True)

        assert taken == [[], [], []]
        assert broker.body(next_one) == "m3"
        assert broker.drain("dead") == [f"m{number}" for number in range(4, 40)]
