"""Timers fire in order of deadline, are kept between batches, and are harmless when stale."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.message import NEVER
from tests.builders import START_MS, Broker

CUT = pytest.mark.parametrize("cut", [False, True])


@CUT
def test_due_timers_fire_in_order_of_deadline_before_the_record(cut):
    broker = Broker(cut=cut)
    for name, life_ms in (("late", 300), ("early", 100), ("middle", 200)):
        broker.queue(name, message_ttl=life_ms)
        broker.publish("", name, name)
    broker.story()

    broker.time_ms = START_MS + 250
    broker.publish("", "middle", "m2")

    times = [event.at_ms - START_MS for event in broker.everything() if event.copy][3:]
    assert times == [100, 200, 250]
    assert broker.story() == [
        "early died in early, expired, to nowhere: no_exchange",
        "middle died in middle, expired, to nowhere: no_exchange",
        "m2 enqueued in middle",
    ]


@CUT
def test_a_deadline_is_reached_when_now_equals_it(cut):
    """R-TTL-8."""
    broker = Broker(cut=cut)
    broker.queue("q", message_ttl=100)
    broker.publish("", "q", "m1")

    broker.at(99)
    before = broker.depth("q")
    broker.at(100)

    assert (before, broker.depth("q")) == (1, 0)


@CUT
def test_the_next_deadline_is_that_of_the_earliest_timer(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=400)
    assert broker.finish().next_deadline_ms == NEVER
    broker.queue("q", expires=900)
    broker.do(commands.OpenChannel(channel="c0", lease_ms=500))
    with_lease = broker.finish().next_deadline_ms
    broker.publish("", "q", "m1", expiration="300")
    with_message = broker.finish().next_deadline_ms
    broker.get("q", "g")
    broker.at(300)
    unacked = broker.finish().next_deadline_ms

    assert [at_ms - START_MS for at_ms in (with_lease, with_message, unacked)] == [500, 300, 400]


@CUT
def test_timers_of_a_deleted_queue_have_no_effect(cut):
    broker = Broker(cut=cut, dead_letter_retry_ms=100)
    broker.quorum(
        "q",
        message_ttl=0,
        expires=100,
        dead_letter_exchange="none",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    broker.queue("r", expires=100)
    broker.publish("", "q", "m1")
    broker.publish("", "r", "m2", expiration="100")
    for name in ("q", "r"):
        broker.do(commands.DeleteQueue(queue=name))

    broker.at(1_000)

    assert broker.story() == [
        "m1 enqueued in q",
        "m1 held in q",
        "m2 enqueued in r",
        "m1 deleted in q",
        "m2 deleted in r",
    ]
    assert broker.finish().next_deadline_ms == NEVER


@CUT
def test_timers_of_a_closed_channel_do_not_affect_one_reopened_under_its_name(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=100)
    broker.queue("q")
    broker.publish("", "q", "m1")
    broker.do(commands.OpenChannel(channel="c0", lease_ms=100))
    broker.get("q", "g")
    broker.close_channel()
    broker.at(50).get("q", "g")

    broker.at(149)
    before = len(broker.of_kind(Kind.CHANNEL))
    broker.at(150)

    assert before == 2
    assert broker.of_kind(Kind.CHANNEL)[2][1]["cause"] == "consumer_timeout"


def test_a_stale_consumer_timeout_in_the_same_batch_has_no_effect():
    broker = Broker(consumer_timeout_ms=100)
    broker.queue("q")
    for body in ("m1", "m2"):
        broker.publish("", "q", body)
    broker.get("q", "g")
    broker.ack("g/0")
    broker.at(100).get("q", "h")

    broker.at(199)
    before = list(broker.shard.events.kinds)
    broker.at(200)

    assert Kind.CHANNEL not in before
    assert broker.story()[-1] == "m2 requeued in q"


@CUT
def test_a_postponed_timer_has_no_effect_at_its_old_time(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=1_000)
    broker.queue("q", max_priority=2)
    broker.publish("", "q", "late", expiration="200")
    broker.publish("", "q", "early", expiration="100", priority=1)
    broker.get("q", "g")
    broker.story()

    broker.at(150)
    before = broker.story()
    broker.at(200)

    assert before == []
    assert broker.story() == ["late died in q, expired, to nowhere: no_exchange"]


def test_a_clock_never_goes_back():
    broker = Broker()
    broker.at(500)

    broker.shard.advance(START_MS)
    broker.queue("q", message_ttl=100)
    broker.time_ms = START_MS
    broker.publish("", "q", "m1")

    assert broker.finish().now_ms == START_MS + 500
    assert broker.everything()[-1].at_ms == START_MS + 500


def test_a_tick_has_no_answer_and_advances_time():
    broker = Broker()
    broker.queue("q", message_ttl=100)
    broker.publish("", "q", "m1")
    broker.time_ms = START_MS + 100

    assert broker.do(commands.Tick()) == []
    assert broker.depth("q") == 0


def test_timers_of_many_unloaded_queues_load_only_the_due_queues():
    broker = Broker()
    for number in range(100):
        broker.queue(f"q{number}", message_ttl=1_000 + number)
    broker.publish("", "q77", "m1")
    broker.finish()

    broker.at(1_077)

    assert broker.shard.state.queues.by_number(78) is broker.shard.state.queues.named("q77")
    assert broker.story()[-1] == "m1 died in q77, expired, to nowhere: no_exchange"
