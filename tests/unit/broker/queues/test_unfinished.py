"""Purges, deletions and deliveries of very many copies happen in portions and lose nothing."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.message import NEVER
from streaming.broker.outbound import DeliveryOut
from streaming.broker.queues import step_size, unfinished
from streaming.broker.shard import Shard
from tests.builders import START_MS, Broker
from tests.property.broker.playing import tiny_pages
from topology.declarations import Binding

CUT = pytest.mark.parametrize("cut", [False, True])
TYPES = pytest.mark.parametrize("arguments", [{}, {"max_priority": 3}, {"queue_type": "quorum"}])


@pytest.fixture(autouse=True)
def small_portions(monkeypatch):
    monkeypatch.setattr(step_size, "MAX_AT_ONCE", 4)
    with tiny_pages():
        yield


def a_broker(count: int, *, cut: bool = False, name: str = "q", **arguments: object) -> Broker:
    broker = Broker(cut=cut)
    broker.queue(name, **arguments)
    for number in range(count):
        broker.publish("", name, f"m{number}", priority=number % 5)
    broker.story()
    return broker


def portions(broker: Broker, kind: Kind, count: int) -> list[int]:
    """The number of events of a kind after each continuation."""
    seen = []
    for portion in range(count):
        broker.at(portion * unfinished.CONTINUE_AFTER_MS)
        seen.append(len(broker.of_kind(kind)))
    return seen


@CUT
@TYPES
def test_a_large_purge_is_answered_at_once_and_recorded_in_portions(cut, arguments):
    broker = a_broker(10, cut=cut, **arguments)
    before = set(broker.store.values)

    assert broker.answer(commands.Purge(queue="q")) == {"purged": 10}

    assert broker.depth("q") == 0
    broker.publish("", "q", "new")
    assert broker.depth("q") == 1
    assert portions(broker, Kind.PURGED, 5) == [0, 4, 8, 10, 10]
    purged = [event for event in broker.everything() if event.kind is Kind.PURGED]
    assert len({event.copy.copy_id for event in purged if event.copy}) == 10
    assert broker.drain("q") == ["new"]
    broker.finish()
    assert "unfinished" not in broker.store.values
    assert {key for key in broker.store.values if "/" in key} <= before


@CUT
@TYPES
@pytest.mark.parametrize(
    ("command", "kind"),
    [(commands.Purge(queue="q"), Kind.PURGED), (commands.DeleteQueue(queue="q"), Kind.DELETED)],
)
def test_purged_copies_count_as_resident_until_their_events_follow(cut, arguments, command, kind):
    """The balance compares the batch's number of resident copies with the events."""
    broker = a_broker(10, cut=cut, **arguments)

    broker.do(command)

    left = 10
    for portion in range(4):
        broker.at(portion * unfinished.CONTINUE_AFTER_MS)
        left = 10 - len(broker.of_kind(kind))
        overview = broker.shard.overview()
        assert (overview.resident_messages, overview.resident_bytes) == (left, len("m0") * left)
    assert left == 0


@CUT
def test_requeued_copies_are_purged_in_portions_too(cut):
    broker = a_broker(10, cut=cut)
    broker.get("q", "g", count=8)
    for number in (0, 7, 1, 6):
        broker.reject(f"g/{number}", requeue=True)

    assert broker.answer(commands.Purge(queue="q")) == {"purged": 6}
    for number in (2, 3, 4, 5):
        broker.reject(f"g/{number}", requeue=True)

    assert broker.depth("q") == 4
    assert portions(broker, Kind.PURGED, 4) == [0, 4, 6, 6]
    assert broker.drain("q") == ["m2", "m3", "m4", "m5"]


@CUT
@TYPES
def test_the_copies_of_a_large_deleted_queue_follow_in_portions(cut, arguments):
    broker = a_broker(10, cut=cut, **arguments)
    broker.get("q", "g", count=2)

    assert broker.answer(commands.DeleteQueue(queue="q")) == {"deleted_ready": 8}

    broker.queue("q")
    assert portions(broker, Kind.DELETED, 4) == [2, 6, 10, 10]
    broker.do(commands.DeleteQueue(queue="q"))
    broker.close_channel()
    broker.finish()
    assert not [key for key in broker.store.values if key.startswith(("p", "q"))]


@CUT
def test_the_orphans_of_a_large_deleted_queue_are_rerouted_in_portions(cut):
    broker = a_broker(6, cut=cut, alternate_exchange="amq.fanout")
    broker.queue("spare")
    broker.bind("amq.fanout", "spare")

    broker.do(commands.DeleteQueue(queue="q"))
    broker.at(unfinished.CONTINUE_AFTER_MS)
    assert broker.depth("spare") == 4
    broker.at(2 * unfinished.CONTINUE_AFTER_MS)

    assert broker.drain("spare") == [f"m{number}" for number in range(6)]


@CUT
@pytest.mark.parametrize("arguments", [{}, {"queue_type": "quorum"}])
def test_a_consumer_without_prefetch_gets_a_large_queue_in_portions_and_in_order(cut, arguments):
    broker = a_broker(10, cut=cut, **arguments)

    broker.consume("q", "c")

    broker.publish("", "q", "m10", priority=1)
    assert portions(broker, Kind.DELIVERED, 4) == [4, 8, 11, 11]
    given = [broker.body(out) for out in broker.outbound if isinstance(out, DeliveryOut)]
    assert len(given) == len(set(given)) == 11
    if not arguments:
        assert given == [f"m{number}" for number in range(11)]


@CUT
def test_a_paused_queue_can_be_deleted(cut):
    broker = a_broker(10, cut=cut)
    broker.consume("q", "c")

    broker.do(commands.DeleteQueue(queue="q"))

    assert portions(broker, Kind.DELETED, 4) == [4, 8, 10, 10]


@CUT
def test_a_record_does_a_bounded_number_of_portions_and_the_next_record_continues(monkeypatch, cut):
    monkeypatch.setattr(unfinished, "PORTIONS_AT_ONCE", 1)
    broker = a_broker(10, cut=cut)
    broker.do(commands.Purge(queue="q"))

    broker.at(1_000)
    batch = broker.finish()

    assert len(broker.of_kind(Kind.PURGED)) == 4
    assert batch.next_deadline_ms > batch.now_ms
    broker.at(2_000)
    assert len(broker.of_kind(Kind.PURGED)) == 8
    broker.at(3_000)
    assert len(broker.of_kind(Kind.PURGED)) == 10


def test_an_overview_names_paused_queues():
    broker = a_broker(10)
    broker.consume("q", "c")
    broker.finish()

    overview = Shard(broker.config, broker.store).overview()

    queue = overview.queues["q"]
    assert (queue.ready, queue.unacked, queue.consumers, queue.waiting) == (6, 4, 1, 1)
    assert queue.paused
    assert (overview.channels, overview.resident_messages) == (1, 10)


@CUT
def test_two_paused_queues_alternate_after_the_detached_copies(cut):
    broker = a_broker(10, cut=cut, name="first")
    for name in ("second", "purged"):
        broker.queue(name)
        for number in range(5):
            broker.publish("", name, f"{name} {number}")
    broker.consume("first", "c")
    broker.consume("second", "d", channel="c1")
    broker.do(commands.Purge(queue="purged"))
    broker.story()

    stories = []
    for portion in range(1, 5):
        broker.at(portion * unfinished.CONTINUE_AFTER_MS)
        stories.append([(line.split()[-3], line.split()[-1]) for line in broker.story()])

    assert stories == [
        [("purged", "purged")] * 4,
        [("purged", "purged"), *[("delivered", "first")] * 4],
        [("delivered", "second")],
        [("delivered", "first")] * 2,
    ]


def test_unfinished_work_is_the_next_deadline():
    broker = a_broker(10)
    broker.do(commands.Purge(queue="q"))

    batch = broker.finish()

    assert batch.next_deadline_ms == broker.time_ms + unfinished.CONTINUE_AFTER_MS
    broker.at(1_000)
    assert broker.finish().next_deadline_ms == NEVER


@CUT
@pytest.mark.parametrize("once", [True, False])
def test_r_qpid_5_the_orphans_that_follow_later_are_rerouted_as_the_queue_was_configured(cut, once):
    broker = Broker(cut=cut)
    broker.queue("spare")
    broker.bind("amq.topic", "spare", "#")
    broker.queue("work", alternate_exchange="amq.fanout", reroute_once=once)
    broker.bind("amq.fanout", "work")
    for number in range(6):
        broker.publish("", "work", f"m{number}")
    broker.get("work", "g", count=6)
    broker.reject(*[f"g/{number}" for number in range(6)])
    broker.do(commands.Unbind(binding=Binding("amq.fanout", "work")))
    broker.bind("amq.fanout", "spare")
    broker.story()

    broker.do(commands.DeleteQueue(queue="work"))
    broker.at(1_000)

    where = "nowhere: rerouted_before" if once else "spare"
    assert [line for line in broker.story() if "rerouted in" in line] == [
        f"m{number} rerouted in work, orphaned, to {where}" for number in range(6)
    ]
    assert broker.depth("spare") == (0 if once else 6)


@TYPES
def test_the_copies_that_follow_later_are_recorded_with_the_name_of_their_queue(arguments):
    broker = a_broker(10, **arguments)

    broker.do(commands.DeleteQueue(queue="q"))
    broker.at(1_000)

    lines = [(event.kind, event.queue) for event in broker.everything() if event.copy][10:]
    assert lines == [(Kind.DELETED, "q")] * 10


@CUT
def test_however_far_one_record_moves_the_clock_it_does_ten_portions_at_most(cut):
    at_once = 4 * unfinished.PORTIONS_AT_ONCE
    broker = a_broker(2 * at_once + 10, cut=cut)
    broker.do(commands.Purge(queue="q"))

    portions = []
    for _ in range(3):
        broker.at(broker.time_ms - START_MS + 100_000)
        broker.do(commands.Tick())
        portions.append(len(broker.story()))

    assert portions == [at_once, at_once, 10]


@pytest.mark.parametrize("records", [1, 100])
def test_with_the_wall_clock_a_batch_does_ten_portions_at_most_however_many_records(records):
    at_once = 4 * unfinished.PORTIONS_AT_ONCE
    broker = Broker(clock="wall")
    broker.queue("q")
    for number in range(at_once + 10):
        broker.publish("", "q", f"m{number}")
    broker.do(commands.Purge(queue="q"))
    broker.next_batch(100_000)
    before = len(broker.sentences)

    for number in range(records):
        at_ms = START_MS + (number + 1) * 100_000 // records
        broker.shard.command(at_ms, commands.Tick())
    broker.next_batch(200_000)

    assert len(broker.sentences) - before == at_once
    broker.next_batch(300_000)
    assert len(broker.sentences) - before == at_once + 10


@CUT
def test_a_paused_queue_continues_within_its_batch_and_in_the_next(cut):
    broker = a_broker(10, cut=cut)
    broker.consume("q", "c")

    broker.at(1_000)

    assert broker.deliveries() == [f"c/{number} m{number}" for number in range(10)]
    assert not broker.shard.state.queues.named("q").paused


@CUT
@pytest.mark.parametrize("compat", ["4.0", "3.10"])
def test_r_pri_7_after_a_large_purge_a_quorum_queue_serves_its_priorities_anew(cut, compat):
    broker = Broker(cut=cut, compat=compat)
    broker.quorum("q")
    for number in range(6):
        broker.publish("", "q", f"old{number}", priority=9)
    broker.get("q", count=1, auto_ack=True)
    broker.do(commands.Purge(queue="q"))
    broker.publish("", "q", "normal")
    for number in range(3):
        broker.publish("", "q", f"high{number}", priority=9)

    expected = ["high0", "high1", "normal", "high2"]
    if compat == "3.10":
        expected = ["normal", "high0", "high1", "high2"]
    assert broker.drain("q") == expected


@CUT
@TYPES
def test_a_queue_of_requeued_copies_only_is_purged_in_portions(cut, arguments):
    broker = a_broker(10, cut=cut, **arguments)
    broker.get("q", "g", count=10)
    broker.do(commands.Recover(channel="c0"))

    assert broker.answer(commands.Purge(queue="q")) == {"purged": 10}
    broker.publish("", "q", "new")
    broker.at(1_000)

    assert len(broker.of_kind(Kind.PURGED)) == 10
    assert broker.drain("q") == ["new"]


def an_expiring_broker(*, cut: bool = False, **arguments: object) -> Broker:
    """Ten messages of one time to live, with dead letters; a second later one that stays."""
    broker = Broker(cut=cut)
    broker.queue("spare")
    broker.queue(
        "q",
        message_ttl=1_000,
        dead_letter_exchange="",
        dead_letter_routing_key="spare",
        **arguments,
    )
    for number in range(10):
        broker.publish("", "q", f"m{number}")
    broker.at(900)
    broker.publish("", "q", "late")
    broker.story()
    return broker


@CUT
@TYPES
def test_very_many_messages_of_one_instant_expire_in_portions(cut, arguments):
    broker = an_expiring_broker(cut=cut, **arguments)

    broker.at(1_000)
    assert len(broker.of_kind(Kind.DIED)) == 4
    assert (broker.depth("q"), broker.depth("spare")) == (7, 4)
    broker.at(1_100)
    assert len(broker.of_kind(Kind.DIED)) == 8
    broker.at(1_200)
    assert len(broker.of_kind(Kind.DIED)) == 10

    assert broker.drain("spare") == [f"m{number}" for number in range(10)]
    assert broker.depth("q") == 1
    broker.at(1_900)
    assert broker.depth("q") == 0


@CUT
@TYPES
def test_no_consumer_gets_what_is_expired_and_none_misses_what_is_not(cut, arguments):
    broker = an_expiring_broker(cut=cut, **arguments)
    broker.at(1_000)

    broker.consume("q", "c")
    assert broker.get("q") == []
    broker.publish("", "q", "new")
    assert broker.of_kind(Kind.DELIVERED) == []
    broker.at(1_100)
    assert broker.of_kind(Kind.DELIVERED) == []
    broker.at(1_200)

    assert [each.split()[-1] for each in broker.deliveries()] == ["late", "new"]


@CUT
@pytest.mark.parametrize("take", ["consume", "get"])
def test_what_is_expired_behind_a_delivery_dies_in_portions_too(cut, take):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.publish("", "q", "first", expiration="5000")
    for number in range(10):
        broker.publish("", "q", f"m{number}", expiration="1000")
    broker.at(2_000)
    broker.publish("", "q", "last")
    assert broker.of_kind(Kind.DIED) == [], "the head is not expired"

    if take == "consume":
        broker.consume("q", "c")
    else:
        broker.get("q", count=3)

    assert len(broker.of_kind(Kind.DIED)) == 4
    assert [each.split()[-1] for each in broker.deliveries()] == ["first"]
    assert portions(broker, Kind.DIED, 23)[-3:] == [4, 8, 10]
    if take == "consume":
        assert [each.split()[-1] for each in broker.deliveries()] == ["first", "last"]
    else:
        assert broker.drain("q") == ["last"]


def test_a_queue_that_rejects_publishes_takes_some_again_when_very_many_are_expired():
    broker = Broker()
    broker.queue(
        "q", queue_type="quorum", max_length=8, overflow="reject-publish", message_ttl=1_000
    )
    for number in range(12):
        broker.publish("", "q", f"m{number}", confirm=True)
    full = len(broker.of_kind(Kind.REFUSED))
    assert full > 0

    for portion in range(4):
        broker.at(1_000 + portion * unfinished.CONTINUE_AFTER_MS)
    broker.publish("", "q", "new", confirm=True)

    assert len(broker.of_kind(Kind.REFUSED)) == full
    assert broker.depth("q") == 1
