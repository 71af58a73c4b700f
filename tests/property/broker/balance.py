"""The balance: compares the events of every copy with the contents of the queues."""

from __future__ import annotations

from collections import Counter

from streaming.broker.events import ENDINGS, Event, Kind
from streaming.broker.shard import Shard
from tests.property.broker.playing import Watch

READY, UNACKED, HELD, GONE = "ready", "unacked", "held", "gone"

_ARROWS = {
    Kind.DELIVERED: ({READY}, UNACKED),
    Kind.CONSUMED: ({READY}, GONE),
    Kind.ACKED: ({UNACKED}, GONE),
    Kind.REQUEUED: ({UNACKED}, READY),
    Kind.DIED: ({READY, UNACKED, HELD}, GONE),
    Kind.HELD: ({READY, UNACKED}, HELD),
    Kind.PURGED: ({READY}, GONE),
    Kind.DELETED: ({READY, UNACKED, HELD}, GONE),
    Kind.REROUTED: ({READY, UNACKED, HELD}, GONE),
    Kind.REDRIVEN: ({READY}, GONE),
    Kind.DISCARDED: ({READY}, GONE),
}
"""The place of a copy before and after each kind of event."""


class Balance(Watch):
    """Tracks every copy through the events of consecutive batches."""

    def __init__(self) -> None:
        self.place: dict[int, str] = {}
        self.queue: dict[int, str] = {}
        self.size: dict[int, int] = {}
        self._seen = 0

    def after_step(self, shard: Shard, events: list[Event]) -> None:
        """Called after a step with the events of the batch so far."""
        self.after_batch(events)
        self.close(shard)
        limits_hold(shard)

    def after_batch(self, events: list[Event]) -> None:
        """Called after a batch with its events. Process the new events."""
        for event in events:
            if event.seq <= self._seen:
                continue
            self._seen = event.seq
            if event.copy is not None and event.kind is not Kind.REPUBLISHED:
                self._follow(event)

    def _follow(self, event: Event) -> None:
        copy = event.copy
        assert copy is not None
        copy_id = copy.copy_id
        if copy_id == event.seq:
            assert copy_id not in self.place, "born twice"
            assert event.kind in {Kind.ENQUEUED, Kind.DIED}
            self.queue[copy_id] = event.queue
            self.size[copy_id] = copy.message.size
            self.place[copy_id] = READY if event.kind is Kind.ENQUEUED else GONE
            return
        from_places, to = _ARROWS[event.kind]
        assert self.queue[copy_id] == event.queue
        assert self.place[copy_id] in from_places, (event, self.place[copy_id])
        assert (event.kind in ENDINGS) == (to == GONE)
        self.place[copy_id] = to

    def close(self, shard: Shard) -> None:
        """Compare with the contents of the queues; deleted queues have none."""
        counted: Counter[tuple[str, str]] = Counter()
        weighed: Counter[tuple[str, str]] = Counter()
        for copy_id, place in self.place.items():
            if place != GONE:
                counted[(self.queue[copy_id], place)] += 1
                weighed[(self.queue[copy_id], place)] += self.size[copy_id]
        held: Counter[tuple[str, str]] = Counter()
        held_bytes: Counter[tuple[str, str]] = Counter()
        for name, queue in shard.overview().queues.items():
            held.update({(name, READY): queue.ready, (name, UNACKED): queue.unacked})
            held.update({(name, HELD): queue.held})
            held_bytes.update({(name, READY): queue.ready_bytes, (name, HELD): queue.held_bytes})
            held_bytes.update({(name, UNACKED): queue.unacked_bytes})
        assert +held == counted
        assert +held_bytes == +weighed


def limits_hold(shard: Shard) -> None:
    """R-LEN-1, R-QUEUE-2: no queue is over a drop-head limit or keeps a consumer waiting."""
    for name in shard.vhost.queues:
        queue = shard.state.queues.named(name)
        if queue.settings.overflow == "drop-head":
            assert queue.ready <= queue.max_length
            assert queue.ready_bytes <= queue.max_bytes
        consumers = [shard.state.channels.consumer(key) for key in queue.line.consumers]
        assert all(consumer.active for consumer in consumers)
        waiting = set(queue.line.waiting)
        with_room = {consumer.key for consumer in consumers if consumer.has_room}
        assert queue.paused or not (queue.ready and waiting & with_room)
        assert queue.line.single_active or with_room <= waiting
        assert {consumer.key for consumer in consumers if consumer.in_line} == waiting
        assert sum(queue.unacked_on.values()) == queue.unacked
