"""`clock = wall`: time to live from the batch's instant, leases of a shard that was away (D4)."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.clock import Clock
from streaming.broker.config import ShardConfig
from streaming.broker.events import Events
from streaming.broker.message import NEVER
from tests.builders import START_MS, Broker


def a_broker(**config: Any) -> Broker:
    """A broker whose first batch is at `START_MS`; `next_batch` starts the following ones."""
    return Broker(clock="wall", consumer_timeout_ms=None, **config)


def test_a_published_messages_time_to_live_counts_from_the_batch_that_enqueues_it():
    """Between its record's time and the batch, the message waited in Kafka, not in a queue."""
    broker = a_broker()
    broker.queue("work", message_ttl=1_000)
    broker.next_batch(10_000)
    broker.time_ms = START_MS + 100
    broker.publish("", "work", "m1")

    broker.next_batch(10_999)
    before = broker.story()
    broker.next_batch(11_000)
    broker.finish()

    assert before == ["m1 enqueued in work"]
    assert broker.story() == ["m1 died in work, expired, to nowhere: no_exchange"]


def test_a_message_with_a_time_to_live_of_zero_expires_at_once():
    """R-TTL-4: later records of the batch do not see it."""
    broker = a_broker()
    broker.queue("work")
    broker.next_batch(10_000)
    broker.time_ms = START_MS + 100

    broker.publish("", "work", "m1", expiration="0")

    assert broker.get("work") == []


def test_a_dead_letters_time_to_live_counts_from_its_death():
    broker = a_broker()
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=100)
    broker.queue("dead", message_ttl=100)
    broker.publish("", "work", "m1")

    broker.next_batch(150)
    broker.next_batch(200)
    broker.finish()

    assert [event.at_ms - START_MS for event in broker.rows if event.copy] == [0, 100, 100, 200]


def test_a_record_takes_effect_at_its_own_time_or_at_the_batchs_if_that_is_earlier():
    broker = a_broker()
    broker.queue("work")
    broker.next_batch(1_000)
    for after_ms, body in ((400, "m1"), (300, "m2"), (5_000, "m3")):
        broker.time_ms = START_MS + after_ms
        broker.publish("", "work", body)
    broker.time_ms = START_MS + 1_000

    broker.finish()

    assert [event.at_ms - START_MS for event in broker.rows if event.copy] == [400, 400, 1_000]


def test_the_end_of_a_batch_moves_the_clock_to_its_instant():
    broker = a_broker()
    broker.next_batch(1_000)

    batch = broker.next_batch(2_000)

    assert batch.now_ms == START_MS + 1_000


def test_a_batch_earlier_than_the_previous_one_does_not_turn_time_back():
    broker = a_broker()
    broker.queue("work", message_ttl=100)
    broker.next_batch(1_000)
    broker.next_batch(500)
    broker.publish("", "work", "m1")

    batch = broker.next_batch(1_100)
    broker.finish()

    assert batch.now_ms == START_MS + 1_000
    assert batch.next_deadline_ms == START_MS + 1_100
    assert broker.story()[-1] == "m1 died in work, expired, to nowhere: no_exchange"


def test_leases_do_not_run_while_the_shard_is_away():
    """The shard was due at 1,000 and called at 61,000: leases due by then move by 60,000."""
    broker = a_broker()
    broker.queue("first", expires=1_000)
    broker.queue("second", expires=5_000)
    broker.do(commands.OpenChannel(channel="c0", lease_ms=3_000))
    broker.next_batch(61_000)
    broker.time_ms = START_MS + 61_000

    at_once = [broker.depth(name) for name in ("first", "second")]
    renewed = broker.answer(commands.Renew(channel="c0"))
    broker.next_batch(64_999)
    after = [broker.depth(name) for name in ("first", "second")]
    broker.next_batch(65_000)
    broker.finish()

    assert at_once == [0, 0]
    assert renewed == {"open": True, "lease_ms": 3_000, "number": 1}
    assert after == [None, 0]
    assert broker.depth("second") is None


def test_the_lease_of_a_channel_is_extended_by_the_lateness():
    broker = a_broker()
    broker.do(commands.OpenChannel(channel="c0", lease_ms=2_000))
    broker.do(commands.OpenChannel(channel="c1", lease_ms=3_000))
    broker.next_batch(62_000)
    broker.next_batch(62_999)

    broker.finish()
    one = broker.answer(commands.Renew(channel="c0"))
    two = broker.answer(commands.Renew(channel="c1"))

    assert (one, two) == (
        {"open": False, "lease_ms": None, "number": None},
        {"open": True, "lease_ms": 3_000, "number": 2},
    )


def test_the_consumer_timeout_is_extended_by_the_lateness():
    broker = Broker(clock="wall", consumer_timeout_ms=2_000)
    broker.queue("work")
    broker.publish("", "work", "m1")
    broker.do(commands.OpenChannel(channel="c1", lease_ms=1_000))
    broker.get("work", "g")
    broker.next_batch(61_000)
    broker.next_batch(61_999)
    broker.finish()
    before = broker.story()
    broker.next_batch(62_000)
    broker.finish()

    assert before == ["m1 enqueued in work", "m1 delivered in work"]
    assert broker.story() == ["m1 requeued in work"]


def test_a_shard_that_is_slightly_late_does_not_count_as_away():
    broker = a_broker()
    broker.queue("work", expires=1_000)

    broker.next_batch(31_000)
    broker.finish()

    assert broker.depth("work") is None


def test_messages_expire_however_long_the_shard_was_away():
    broker = a_broker()
    broker.queue("work", message_ttl=1_000)
    broker.publish("", "work", "m1")

    broker.next_batch(1_000_000)
    broker.finish()

    assert broker.story()[-1] == "m1 died in work, expired, to nowhere: no_exchange"
    assert broker.finish().next_deadline_ms == NEVER


@pytest.mark.parametrize(
    ("due_ms", "ends_ms"),
    [(100_000, 200_000), (99_999, 199_999), (100_001, 100_001)],
)
def test_d4_a_lease_that_ended_while_the_shard_was_away_is_postponed_and_no_other(due_ms, ends_ms):
    clock = Clock(ShardConfig(clock="wall"), Events(1), [(0, 0, 0)], now_ms=0, batch_ms=100_000)

    assert clock.postponed(due_ms) == ends_ms


def test_d4_without_an_absence_no_lease_is_postponed():
    clock = Clock(
        ShardConfig(clock="wall"), Events(1), [(99_999, 0, 0)], now_ms=0, batch_ms=100_000
    )

    assert [clock.postponed(due_ms) for due_ms in (99_999, 100_000)] == [99_999, 100_000]
