"""State between batches: few entries, none for deleted objects, and compiled topologies."""

import gc
import weakref
from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.dead_letters import planning
from streaming.broker.events import Kind
from streaming.broker.message import NEVER, NO_COPY, Copy, Envelope, Message, Publication
from streaming.broker.publishing import Publishing
from streaming.broker.queues.classic import MAX_RESTING_COPIES, ClassicQueue
from streaming.broker.queues.registry import QueueRegistry
from streaming.broker.shard import Shard
from streaming.broker.shard_state import MissingStateError
from streaming.broker.state import kept_shards
from streaming.broker.state import record_groups as records
from streaming.broker.state.schema import Held
from streaming.broker.state.vhost_codec import CACHED_VHOSTS, VhostCache
from tests.builders import START_MS, Broker
from topology.declarations import Queue


def test_many_idle_queues_cost_a_batch_nothing(monkeypatch):
    broker = Broker(cache=VhostCache())
    for number in range(200):
        broker.queue(f"q{number}")
    broker.finish()
    reads: list[str] = []
    read = broker.store.read

    def noted(key: str) -> bytes | None:
        reads.append(key)
        return read(key)

    monkeypatch.setattr(broker.store, "read", noted)

    broker.finish()
    broker.publish("", "q7", "m1")
    broker.finish()

    assert reads == ["header", "qg0", "header"]


def test_a_message_is_placed_with_what_became_of_it_before():
    broker = Broker(dead_letter_retry_ms=1_000)
    broker.quorum(
        "q",
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    broker.bodies.extend(("m0", "m1"))
    requeued, dead = (Message(0, 0, offset, 0, offset, 2) for offset in range(2))
    envelope = Envelope("", ("q",))
    now_ms = broker.shard.now_ms
    held = Held(Copy(0, dead, envelope, 0, NEVER, NO_COPY), "rejected", now_ms // 1_000)

    broker.shard.place("q", requeued, envelope, now_ms, requeue_count=2)
    broker.shard.place("q", dead, envelope, now_ms, held=held)

    queue = broker.shard.overview().queues["q"]
    assert (queue.ready, queue.held) == (1, 1)
    [got] = broker.get("q")
    assert got.copy.requeue_count == 2
    broker.queue("dead")
    broker.at(1_000)
    assert broker.depth("dead") == 1  # the held copy is tried again


def test_a_message_is_placed_as_if_it_had_been_in_its_queue_for_a_while():
    broker = Broker()
    broker.queue("q", message_ttl=1_000, max_length=1, overflow="reject-publish")
    broker.bodies.extend(("m0", "m1"))
    messages = [Message(0, 0, offset, 0, offset, 2) for offset in range(2)]
    envelope = Envelope("orders", ("paid",))
    since_ms = broker.shard.now_ms - 900

    placed = [broker.shard.place("q", message, envelope, since_ms) for message in messages]

    assert placed == [True, True]
    assert not broker.shard.place("gone", messages[0], envelope, since_ms)
    kinds = [Kind(kind).name for kind in broker.shard.events.kinds][-2:]
    assert kinds == ["ENQUEUED", "REFUSED"]
    broker.at(101)
    assert broker.drain("q") == []


def test_a_large_record_has_its_own_entry_until_it_is_small_again(monkeypatch):
    monkeypatch.setattr(records, "LARGE_BYTES", 200)
    broker = Broker()
    broker.queue("q")
    for number in range(20):
        broker.publish("", "q", f"m{number}", headers={"n": number})
    broker.finish()
    large = "qr1" in broker.store.values
    bodies = broker.drain("q")
    broker.finish()

    assert large
    assert bodies == [f"m{number}" for number in range(20)]
    assert "qr1" not in broker.store.values


@pytest.mark.parametrize("large_bytes", [10, 100_000])
def test_a_deleted_queue_and_a_closed_channel_leave_no_state(monkeypatch, large_bytes):
    monkeypatch.setattr(records, "LARGE_BYTES", large_bytes)
    broker = Broker()
    broker.queue("q")
    for number in range(3_000):
        broker.publish("", "q", f"m{number}")
    broker.get("q", "g", count=1_500)
    broker.finish()
    broker.do(commands.DeleteQueue(queue="q"))
    broker.close_channel()

    broker.finish()

    assert sorted(broker.store.values) == ["channels", "header", "topology"]


def test_resident_messages_and_their_body_bytes_are_counted():
    broker = Broker(dead_letter_retry_ms=1_000)
    broker.queue("q")
    broker.quorum(
        "held",
        message_ttl=0,
        dead_letter_exchange="none",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    for name, size in (("q", 10), ("q", 20), ("held", 40)):
        broker.publish("", name, "m", size=size)
    broker.get("q", "g")
    first = broker.finish()
    broker.ack("g/0")
    second = broker.finish()
    idle = broker.finish()

    resident = [(batch.resident_messages, batch.resident_bytes) for batch in (first, second, idle)]
    assert resident == [(3, 70), (2, 60), (2, 60)]


def test_the_numbers_of_outbound_records_continue_across_batches():
    broker = Broker()
    broker.queue("q")
    first = broker.finish()
    broker.publish("", "q", "m1", confirm=True)
    broker.publish("", "q", "m2", confirm=True)
    second = broker.finish()
    third = broker.finish()

    numbers = [(batch.first_outbound, len(batch.outbound)) for batch in (first, second, third)]
    assert numbers == [(1, 1), (2, 2), (4, 0)]


def test_a_compiled_topology_is_reused_for_equal_content():
    cache = VhostCache()
    broker = Broker(cache=cache)
    broker.queue("q")
    broker.finish()
    before = broker.shard.vhost
    broker.finish()
    same = broker.shard.vhost
    broker.queue("r")
    broker.finish()

    assert same is before
    assert broker.shard.vhost is before
    assert set(before.queues) == {"q", "r"}


def test_a_failed_batch_leaves_no_half_changed_topology_in_the_cache():
    cache = VhostCache()
    broker = Broker(cache=cache)
    broker.queue("q")
    broker.finish()
    broker.queue("half")  # and the batch is abandoned

    broker.shard = broker.reopened()  # as in a new worker

    assert set(broker.shard.vhost.queues) == {"q"}


def test_the_number_of_cached_topologies_is_bounded():
    cache = VhostCache()
    brokers = [Broker(cache=cache) for _ in range(CACHED_VHOSTS + 1)]
    for number, broker in enumerate(brokers):
        broker.queue(f"q{number}")
    digests = []
    for broker in brokers:
        batch = broker.shard
        batch.finish()
        digests.append(batch.state._digest)  # noqa: SLF001 - the key of the cache

    kept = [cache.take("4.0", digest) is not None for digest in digests]

    assert kept == [False] + [True] * CACHED_VHOSTS


def test_the_cache_of_death_plans_is_bounded_and_does_not_change_results(monkeypatch):
    monkeypatch.setattr(planning, "MAX_PLANS", 2)
    broker = Broker()
    broker.queue("q", message_ttl=0, dead_letter_exchange="amq.fanout")
    broker.queue("dead")
    broker.bind("amq.fanout", "dead")
    for number in range(6):
        broker.publish("", "q", f"m{number}", priority=number)

    assert broker.drain("dead") == [f"m{number}" for number in range(6)]


def test_is_unacked_says_whether_a_delivery_is_settled():
    broker = Broker()
    broker.queue("q")
    broker.publish("", "q", "m1")
    (given,) = broker.get("q", "g")
    channels = broker.shard.state.channels

    before = channels.is_unacked(given.delivery_id)
    broker.ack("g/0")
    after = channels.is_unacked(given.delivery_id)
    broker.close_channel()

    assert (before, after, channels.is_unacked(given.delivery_id)) == (True, False, False)


def test_r_len_4_a_requeued_head_is_the_first_to_be_dropped():
    broker = Broker()
    broker.queue("q", max_length=1)
    broker.publish("", "q", "m1")
    broker.get("q", "g")
    broker.publish("", "q", "m2")

    broker.reject("g/0", requeue=True)

    assert broker.drain("q") == ["m2"]


@pytest.mark.parametrize("cut", [False, True])
def test_r_pri_3_a_requeued_message_returns_to_its_place_within_its_priority(cut):
    broker = Broker(cut=cut)
    broker.queue("q", max_priority=2)
    for body, priority in (("low", 0), ("high1", 2), ("high2", 2)):
        broker.publish("", "q", body, priority=priority)
    broker.get("q", "g", count=3)

    broker.reject("g/2", "g/1", "g/0", requeue=True)

    assert broker.drain("q") == ["high1", "high2", "low"]


def test_r_qpid_closing_a_channel_keeps_the_exclusive_queues_of_others():
    broker = Broker()
    for channel in ("c1", "c2"):
        declaration = commands.DeclareQueue(
            queue=Queue(f"of {channel}", exclusive=True), channel=channel
        )
        broker.do(declaration)

    locked = broker.refusal(commands.DeleteQueue(queue="of c2", channel="c3"))
    broker.close_channel("c1")

    assert locked is not None
    assert locked.code == 405
    assert set(broker.shard.vhost.queues) == {"of c2"}


def test_closing_a_channel_loads_no_exclusive_queue_of_others(monkeypatch):
    broker = Broker(cache=VhostCache())
    for number in range(100):
        queue = Queue(f"q{number}", exclusive=True)
        broker.do(commands.DeclareQueue(queue=queue, channel=f"c{number // 50}"))
    broker.finish()
    loaded: list[int] = []
    load = QueueRegistry.load

    def noted(self, number, declaration):
        loaded.append(number)
        return load(self, number, declaration)

    monkeypatch.setattr(QueueRegistry, "load", noted)
    broker.do(commands.OpenChannel(channel="c2"))

    broker.close_channel("c2")
    assert loaded == []
    broker.do(commands.DeleteQueue(queue="q0", channel="c0"))
    broker.close_channel("c0")
    broker.finish()
    assert sorted(loaded) == list(range(1, 51))
    broker.close_channel("c1")
    broker.finish()
    assert "owners" not in broker.store.values


def test_a_vhost_that_is_missing_from_the_state_is_an_error():
    broker = Broker()
    broker.queue("q")
    broker.finish()
    del broker.store.values["topology"]

    with pytest.raises(MissingStateError, match="topology"):
        Shard(broker.config, broker.store)


def made_queues(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the classic queues that are made from now on."""
    made: list[str] = []
    make = ClassicQueue.__init__

    def noted(queue: ClassicQueue, *fields: Any) -> None:
        make(queue, *fields)
        made.append(queue.name)

    monkeypatch.setattr(ClassicQueue, "__init__", noted)
    return made


def full_queues(broker: Broker) -> None:
    for number in range(3):
        broker.queue(f"q{number}", max_length=1, dead_letter_exchange="amq.fanout")
        broker.publish("", f"q{number}", f"m0.{number}")
    broker.queue("dead")
    broker.bind("amq.fanout", "dead")
    broker.finish()
    broker.publish("", "q0", "m1.0")
    broker.finish()


def test_a_worker_keeps_small_queues_between_batches(monkeypatch):
    broker = Broker(cache=VhostCache())
    full_queues(broker)
    made = made_queues(monkeypatch)

    broker.publish("", "q0", "m2.0")
    broker.publish("", "q1", "m2.1")
    broker.finish()
    broker.publish("", "q1", "m3.1")

    assert broker.drain("dead") == ["m0.0", "m1.0", "m0.1", "m2.1"]
    assert made == ["q1"]  # what it had not used since the topology changed


def test_a_kept_queue_does_not_count_if_the_state_says_something_else(monkeypatch):
    """As after a batch that ran elsewhere, or that failed and runs again."""
    broker = Broker(cache=VhostCache())
    full_queues(broker)
    before = dict(broker.store.values)
    broker.publish("", "q0", "lost")
    broker.finish()
    made = made_queues(monkeypatch)
    broker.store.values = before
    broker.shard = broker.reopened()

    broker.publish("", "q0", "m2.0")
    broker.finish()

    assert broker.drain("q0") == ["m2.0"]
    assert made[0] == "q0"


def test_a_kept_queue_holds_nothing_of_the_batch_that_used_it():
    broker = Broker(cache=VhostCache())
    full_queues(broker)
    broker.publish("", "q0", "m2.0")
    for number in range(MAX_RESTING_COPIES + 1):
        broker.publish("amq.fanout", "", f"n{number}")  # to a queue that is not kept
    queue = broker.shard.state.queues.named("q0")
    events = weakref.ref(broker.shard.state)

    broker.finish()

    gc.collect()
    assert queue.ready == 1
    assert events() is None


def planned_publishes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str | None]]:
    """The publishes that are planned from now on: exchange, routing key, user."""
    planned: list[tuple[str, str, str | None]] = []
    plan = Publishing._plan  # noqa: SLF001 - what keeping plans saves

    def noted(
        self: Publishing, publication: Publication, user: str | None, message: Message
    ) -> Any:
        planned.append((publication.exchange, publication.routing_key, user))
        return plan(self, publication, user, message)

    monkeypatch.setattr(Publishing, "_plan", noted)
    return planned


def test_a_worker_plans_publishes_that_are_alike_once(monkeypatch):
    broker = Broker(cache=VhostCache())
    broker.do(commands.SetPermissions(user="u", configure=".*", write=".*", read=".*"))
    broker.queue("q")
    broker.finish()
    planned = planned_publishes(monkeypatch)
    for number in range(3):
        broker.publish("", "q", f"m{number}")
        broker.publish("", "nowhere", f"n{number}")
        broker.publish("", "q", f"u{number}", user="u")
        broker.publish("", "q", f"h{number}", headers={"CC": ["q"]})
        broker.finish()

    assert planned[:4] == [("", "q", None), ("", "nowhere", None), ("", "q", "u"), ("", "q", None)]
    assert planned[4:] == [("", "q", None)] * 2  # with headers, which are often unique
    assert len(broker.drain("q")) == 9


def test_a_change_of_the_vhost_makes_a_worker_plan_again(monkeypatch):
    broker = Broker(cache=VhostCache(), enforce_permissions=True)
    broker.do(commands.SetPermissions(user="u", configure="", write=".*", read=""))
    for name in ("a", "b"):
        broker.queue(name)
    broker.bind("amq.fanout", "a")
    broker.finish()
    planned = planned_publishes(monkeypatch)
    broker.publish("amq.fanout", "", "m1", user="u")
    broker.finish()

    broker.publish("amq.fanout", "", "m2", user="u")
    broker.bind("amq.fanout", "b")
    broker.publish("amq.fanout", "", "m3", user="u")
    broker.finish()
    broker.do(commands.SetPermissions(user="u", configure="", write="", read=""))
    broker.finish()
    broker.publish("amq.fanout", "", "m4", user="u")

    assert (broker.drain("a"), broker.drain("b")) == (["m1", "m2", "m3"], ["m3"])
    assert len(planned) == 3


def test_a_worker_keeps_a_limited_number_of_plans(monkeypatch):
    monkeypatch.setattr(kept_shards, "MAX_KEPT_PLANS", 3)
    cache = VhostCache()
    brokers = [Broker(cache=cache, vhost=f"v{number}") for number in range(3)]
    for broker in brokers:
        broker.queue("q")
        broker.finish()
        for key in ("q", "nowhere"):
            broker.publish("", key, "m")
        broker.shard.finish()

    digest = brokers[0].shard.state._digest  # noqa: SLF001 - the key of the cache
    kept = [cache.shards.take(broker.config, digest) for broker in brokers]

    assert [sum(map(len, each.plans.values())) for each in kept] == [0, 0, 2]
    assert [len(each.queues) for each in kept] == [1, 1, 1]


def test_a_worker_keeps_nothing_of_a_shard_without_queues_and_plans():
    cache = VhostCache()
    broker = Broker(cache=cache)
    for number in range(3):
        broker.exchange(f"x{number}")
        broker.finish()
    broker.shard.finish()

    assert cache.shards._shards == {}  # noqa: SLF001 - what takes memory


def test_a_queue_with_pages_requeued_held_or_many_copies_is_read_again(monkeypatch):
    broker = Broker(cache=VhostCache(), dead_letter_retry_ms=1_000)
    broker.queue("long")
    broker.queue("requeued")
    broker.queue("ordered", max_priority=3)
    broker.quorum("quorum")
    for number in range(17):
        broker.publish("", "long", f"m{number}")
    for name in ("requeued", "requeued", "ordered", "quorum"):
        broker.publish("", name, name)
    broker.get("requeued", "g")
    broker.finish()
    broker.reject("g/0", requeue=True)
    for name in ("long", "ordered", "quorum"):
        broker.publish("", name, "last")
    broker.finish()
    made = made_queues(monkeypatch)

    drained = {name: len(broker.drain(name)) for name in ("long", "requeued", "ordered", "quorum")}

    assert drained == {"long": 18, "requeued": 2, "ordered": 2, "quorum": 2}
    assert made == ["long", "requeued", "ordered"]


def test_a_worker_keeps_a_limited_number_of_queues(monkeypatch):
    monkeypatch.setattr(kept_shards, "MAX_KEPT", 3)
    cache = VhostCache()
    brokers = [Broker(cache=cache, vhost=f"v{number}") for number in range(3)]
    for broker in brokers:
        for number in range(2):
            broker.queue(f"q{number}")
        broker.finish()
        for number in range(2):
            broker.publish("", f"q{number}", "m")
        broker.shard.finish()

    digest = brokers[0].shard.state._digest  # noqa: SLF001 - the key of the cache
    kept = [sorted(cache.shards.take(broker.config, digest).queues) for broker in brokers]

    assert kept == [[], [2], [1, 2]]


def test_a_channel_that_is_closed_before_its_lease_ends_needs_no_waking():
    broker = Broker()
    for name, lease_ms in (("c1", 1_000), ("c2", 2_000)):
        broker.do(commands.OpenChannel(channel=name, lease_ms=lease_ms))
    broker.finish()

    broker.at(1_500)
    broker.close_channel("c2")
    broker.at(9_000)

    closed = [
        (at.at_ms - START_MS, at.channel) for at in broker.everything() if at.kind == Kind.CHANNEL
    ]
    assert broker.shard.state.channels.count() == 0
    assert len(closed) == 4


def test_the_timer_of_one_queue_at_rest_loads_no_other():
    broker = Broker()
    for number in range(5):
        broker.queue(f"q{number}", message_ttl=100 * (number + 1))
        broker.publish("", f"q{number}", f"m{number}")
    broker.queue("idle")
    broker.finish()

    broker.at(250)
    used = [queue.name for queue in broker.shard.state.queues.loaded()]

    assert used == ["q0", "q1"]
    assert [event.queue for event in broker.everything() if event.kind == Kind.DIED] == ["q0", "q1"]
