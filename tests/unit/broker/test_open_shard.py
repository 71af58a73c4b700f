"""A shard that stays open: its events can be taken, and its memory follows what is resident."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from streaming.broker import clock, commands
from streaming.broker.channels import channel
from streaming.broker.events import Actor, Event, Kind
from streaming.broker.message import CONFIRM, Message, publication_of
from streaming.broker.outbound import DeliveryOut
from streaming.broker.queues import step_size
from streaming.broker.shard import Shard
from tests.builders import START_MS, Broker, a_queue
from topology.declarations import Binding

ANN = Actor("ann", "c0")


class EveryKindOfClient:
    """A client of every kind, on one shard that stays open; the same in each round."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.store = self.broker.store
        self.shard = self.broker.shard
        self.now_ms = START_MS
        self.offset = 0
        self.round = 0
        self.events = 0
        headers = {"CC": ["work"]}
        self.copied = publication_of("", "kept", {}, headers)
        self.plain = publication_of("", "work", {}, None)
        self.expiring = [
            publication_of("", "short", {"expiration": str(600_000 - n)}, None) for n in range(50)
        ]
        for queue in (
            a_queue("work", dead_letter_exchange="", dead_letter_routing_key="dead"),
            a_queue("dead", max_length=3),
            a_queue("kept", max_length=3),
            a_queue("short"),
            a_queue("q", queue_type="quorum", dead_letter_exchange="", delivery_limit=1),
        ):
            self.do(commands.DeclareQueue(queue=queue))
        self.do(commands.Consume(queue="work", label="w", prefetch=20))
        self.do(commands.Consume(queue="q", label="q", channel="c1"), "c1")

    def do(self, command: commands.Command, channel: str = "c0") -> None:
        """Carry out a command."""
        self.shard.command(self.now_ms, command, Actor("ann", channel))

    def publish(self, publication: Any, flags: int = 0) -> None:
        """Publish a message."""
        self.offset += 1
        message = Message(0, 0, self.offset, 0, 0, 10)
        self.shard.publish(self.now_ms, message, publication, flags, ANN)

    def play(self) -> None:
        """One round."""
        self.round += 1
        self.now_ms += 5
        number = self.round
        for _ in range(5):
            self.publish(self.plain, CONFIRM)
        self.publish(publication_of("", "q", {}, None))
        self.publish(self.copied)
        self.publish(self.expiring[number % 50])
        self.do(commands.Get(queue="short", label=f"g{number}"))
        self.do(commands.Ack(refs=(f"g{number}/0",)))
        private, visitor = f"private{number}", f"visitor{number}"
        self.do(commands.OpenChannel(channel=visitor, lease_ms=3_600_000), visitor)
        queue = a_queue(private, exclusive=True, expires=3_600_000)
        self.do(commands.DeclareQueue(queue=queue, channel=visitor), visitor)
        self.do(commands.Bind(binding=Binding("amq.topic", private), channel=visitor), visitor)
        self.do(commands.Consume(queue=private, label="v", channel=visitor), visitor)
        self.do(commands.Consume(queue="dead", label=f"d{number}", prefetch=1))
        self.do(commands.Cancel(label=f"d{number}"))
        self.do(commands.Ack(refs=(f"d{number}/0",)))
        self.do(commands.CloseChannel(channel=visitor), visitor)
        for out in self.take():
            if not out.consumer_id or out.got:
                continue
            refs = (out.delivery_id,)
            if out.queue == "work" and out.number % 3 == 0:
                self.do(commands.Reject(refs=refs))
            elif out.queue == "q" or out.number % 7 == 0:
                channel = out.actor.channel
                self.do(commands.Nack(refs=refs, requeue=True, channel=channel), channel)
            else:
                self.do(commands.Ack(refs=refs))

    def take(self) -> list[DeliveryOut]:
        """Take what there is to take; return the deliveries."""
        outbound = self.shard.take_outbound()
        self.events += len(self.shard.take_events())
        return [out for out in outbound if isinstance(out, DeliveryOut)]


def contents(root: object) -> Iterator[Any]:
    """Yield every object of the broker that is reachable, and its containers."""
    seen = {id(root)}
    work = [root]
    for item in work:
        yield item
        parts: list[Any] = []
        if isinstance(item, dict):
            parts += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset | deque):
            parts += item
        elif type(item).__module__.startswith(("streaming.broker", "topology")):
            names = getattr(item, "__struct_fields__", None) or [
                name for kind in type(item).__mro__ for name in getattr(kind, "__slots__", ())
            ]
            parts += [getattr(item, name) for name in names if hasattr(item, name)]
            parts += vars(item).values() if hasattr(item, "__dict__") else ()
        for part in parts:
            if id(part) not in seen:
                seen.add(id(part))
                work.append(part)


def size_of(shard: Shard) -> int:
    """How many items all containers and objects have together."""
    return sum(1 for _ in contents(shard))


def test_what_an_open_shard_keeps_does_not_grow_with_the_number_of_messages(monkeypatch):
    monkeypatch.setattr(clock, "MIN_CROWD", 4)
    monkeypatch.setattr(channel, "MIN_CROWD", 4)
    traffic = EveryKindOfClient()

    sizes = []
    for _ in range(2):
        for _ in range(1_000):
            traffic.play()
        sizes.append(size_of(traffic.shard))

    assert traffic.events > 80_000
    assert sizes[1] < sizes[0] + 100
    assert len(traffic.store.values) == 0


def test_events_are_numbered_on_after_some_were_taken():
    broker = Broker()
    broker.queue("q")
    broker.publish("", "q", "m0", user="ann", channel="pub")
    shard = broker.shard
    shard.take_outbound()
    before = shard.take_events()

    broker.publish("", "q", "m1", user="ann", channel="pub")
    after = shard.take_events()

    assert after.first_seq == before.next_seq
    assert len(shard.events) == 0
    [event] = after.rows()
    assert (event.seq, event.kind, event.at_ms) == (after.first_seq, Kind.ENQUEUED, START_MS)
    assert (event.user, event.channel) == ("ann", "pub")
    assert event.copy is not None
    assert event.copy.copy_id == event.seq


def test_outbound_records_are_taken_before_the_events_whose_rows_they_name():
    broker = Broker()
    broker.queue("q")

    with pytest.raises(AssertionError, match="take them first"):
        broker.shard.take_events()


def test_a_batch_ends_with_the_events_that_were_not_taken():
    broker = Broker()
    broker.queue("q")
    broker.shard.take_outbound()
    taken = broker.shard.take_events()
    broker.publish("", "q", "m0")

    batch = broker.shard.finish()

    assert batch.events.first_seq == taken.next_seq
    assert [event.kind for event in batch.events.rows()] == [Kind.ENQUEUED]
    assert Shard(broker.config, broker.store).events.first_seq == batch.events.next_seq


def timers_of(broker: Broker) -> int:
    return len(broker.shard.state.context.clock._timers)  # noqa: SLF001 - how many are kept


def a_while(*, taken: bool) -> tuple[list[tuple[int, Kind, str]], int]:
    """When what happened to a broker with every kind of timer, and how many timers it kept."""
    broker = Broker(consumer_timeout_ms=50, dead_letter_retry_ms=70)
    broker.queue("classic", message_ttl=10)
    broker.quorum("quorum", message_ttl=20)
    broker.queue("unused", expires=30)
    strategy = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    broker.quorum("held", dead_letter_exchange="amq.fanout", message_ttl=1, **strategy)
    broker.queue("many")
    broker.queue("spare", expires=1_000)
    broker.do(commands.DeleteQueue(queue="spare"))
    broker.do(commands.OpenChannel(channel="leased", lease_ms=40))
    broker.do(commands.OpenChannel(channel="closed", lease_ms=40))
    broker.close_channel("closed")
    for name in ("classic", "quorum", "held", "many", "many", "many"):
        broker.publish("", name, name)
    broker.at(5)
    broker.do(commands.Purge(queue="many"))
    broker.queue("slow")
    broker.publish("", "slow", "slow")
    broker.get("slow", "g", channel="slow")
    rows: list[Event] = []
    if taken:
        broker.shard.take_outbound()
        rows += broker.shard.take_events().rows()
    timers = timers_of(broker)
    broker.at(60)
    broker.queue("late")
    broker.bind("amq.fanout", "late")
    broker.at(500)
    rows += broker.shard.take_events().rows() if broker.shard.take_outbound() else []
    return [(event.at_ms - START_MS, event.kind, event.queue) for event in rows], timers


def test_timers_that_still_count_fire_although_stale_ones_were_dropped(monkeypatch):
    monkeypatch.setattr(step_size, "MAX_AT_ONCE", 1)
    events, timers = a_while(taken=False)
    monkeypatch.setattr(clock, "MIN_CROWD", -(1 << 30))

    events_after, timers_after = a_while(taken=True)

    assert events_after == events
    assert timers - timers_after == 2
    assert {at_ms for at_ms, _, _ in events} == {0, 1, 5, 10, 20, 30, 40, 55, 60, 71, 105, 205, 305}
