"""Builds the state of a shard from what its ledger knows, when the state itself was lost.

    ready copies, deliveries, held copies, declarations, channels  -->  the entries of a state store

Ready copies are where they were. An unacked copy is given back to a channel of the same name, and
the first batch closes all channels as if their clients were lost (`lifecycle.recover`): so requeue,
delivery limits, auto-delete and exclusive queues follow the usual rules, with the usual events.

The ledger does not know the numbers of deliveries and of a queue's two-to-one service, when a queue
was last asked for a message, nor the letters that a redrive has not moved yet: deliveries get new
numbers, the service and the queue's expiry start again, and open redrives are cancelled.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.message import NEVER, Copy, Message, no_headers_port
from streaming.broker.queues.queue import Queue
from streaming.broker.queues.quorum import QuorumQueue
from streaming.broker.redrives.moves import RepublishedCopies
from streaming.broker.redrives.records import ClosedRecord, OpenRecord
from streaming.broker.redrives.versions import Versions
from streaming.broker.shard_state import HEADER_KEY, VHOST_KEY, ShardState
from streaming.broker.state.encoding import pack
from streaming.broker.state.schema import Delivery, HeaderRecord, Held
from streaming.broker.state.store import MemoryStore
from streaming.broker.state.vhost_codec import VhostCache, digest_of, encode_vhost
from topology.vhost import Vhost


class KnownDelivery(NamedTuple):
    """An unacked copy: who holds it, and since when."""

    queue: str
    copy: Copy
    actor: Actor
    at_ms: int


class KnownConsumer(NamedTuple):
    """A consumer that was not cancelled."""

    actor: Actor
    label: str
    queue: str
    prefetch: int
    auto_ack: bool


class Positions(NamedTuple):
    """The positions that a queue gives next: to an arriving, and to a requeued copy (quorum)."""

    next: int = 0
    next_requeued: int | None = None


class KnownShard(msgspec.Struct):
    """What the ledger knows of a shard after a batch.

    Attributes:
        vhost: what is declared, with the numbers of the queues.
        positions: by queue.
        ready: queue and copy; the copies of a queue by position.
        unacked: in the order of their deliveries.
        channels: the open channels, oldest first; those of deliveries and consumers may be missing.
        owners: the channels of exclusive queues, as far as they are known.
        republished: copies that a redrive published again after they had left their queue.
        versions: the new versions of letters that editors published, by hash.
    """

    now_ms: int
    next_seq: int
    next_outbound: int
    vhost: Vhost
    positions: dict[str, Positions] = {}
    ready: list[tuple[str, Copy]] = []
    unacked: list[KnownDelivery] = []
    held: list[tuple[str, Held]] = []
    channels: list[Actor] = []
    consumers: list[KnownConsumer] = []
    owners: dict[str, Actor] = {}
    open_redrives: list[OpenRecord] = []
    ended_redrives: dict[str, ClosedRecord] = {}
    republished: list[int] = []
    versions: dict[str, Message] = {}

    def resident(self) -> int:
        """How many copies have not ended."""
        return len(self.ready) + len(self.unacked) + len(self.held)


def rebuild_shard(
    known: KnownShard, config: ShardConfig, only: Collection[str] | None = None
) -> dict[str, bytes]:
    """Return the entries of the state store, as the next batch reads them.

    Args:
        known: its copies become part of the state; do not use them afterwards.
        only: the queues with which there is something to do; the others are declared, and empty,
            and do not expire. None: all.
    """
    store = MemoryStore()
    topology = encode_vhost(known.vhost)
    store.write(VHOST_KEY, topology)
    header = HeaderRecord(
        known.now_ms, known.next_seq, digest_of(topology), next_outbound=known.next_outbound
    )
    store.write(HEADER_KEY, pack(msgspec.msgpack.encode(header)))
    state = ShardState(config, store, known.now_ms, VhostCache(), no_headers_port)
    _restore_queues(state, known, known.vhost.queues if only is None else only)
    _restore_channels(state, known)
    state.redrives.restore(known.open_redrives, known.ended_redrives)
    again = RepublishedCopies(store)
    for copy_id in known.republished:
        again.add(copy_id)
    versions = Versions(state.context)
    for version, message in known.versions.items():
        versions.keep(version, message)
    state.save(is_rebuilt=True)
    return store.values


def _restore_queues(state: ShardState, known: KnownShard, names: Collection[str]) -> None:
    queues = {name: state.queues.named(name) for name in sorted(names)}
    for name, queue in queues.items():
        queue.next_position = known.positions.get(name, Positions()).next
        queue.touch()
    for name, copy in known.ready:
        queue = queues[name]
        if copy.position < 0:
            _set_next_requeued(queue, copy.position)
            queue.order.put_back(copy, 0)
        else:
            queue.order.push(copy)
        queue.ready += 1
        queue.ready_bytes += copy.message.size
        queue.may_expire |= copy.deadline_ms != NEVER
    for name, held in known.held:
        queue = queues[name]
        queue.held.fifo.append(held)
        queue.held.add(held.copy)
        queue.held.arm_retry(known.now_ms + state.context.config.dead_letter_retry_ms)
    for name, queue in queues.items():
        next_requeued = known.positions.get(name, Positions()).next_requeued
        if next_requeued is not None:
            _set_next_requeued(queue, next_requeued)
        if queue.ready:
            queue.timer_ms = queue.order.head().deadline_ms


def _set_next_requeued(queue: Queue, position: int) -> None:
    assert isinstance(queue, QuorumQueue), f"{queue.name} is a classic queue"
    queue.quorum_order.next_requeued = position


def _restore_channels(state: ShardState, known: KnownShard) -> None:
    channels = state.channels
    channels.start_at(known.next_seq)  # above the numbers of all channels so far
    for actor in known.channels:
        channels.open(*actor)
    for actor, label, name, prefetch, auto_ack in known.consumers:
        queue = state.queues.named(name)
        channel = channels.open(*actor)
        queue.line.add(
            channel.new_consumer(label, queue.number, prefetch, limited=False, auto_ack=auto_ack)
        )
    for name, copy, actor, at_ms in known.unacked:
        queue = state.queues.named(name)
        channel = channels.open(*actor)
        gets = channel.gets
        gets.deliveries.add(Delivery(channel.next_tag, gets.next_number, queue.number, at_ms, copy))
        channel.next_tag += 1
        gets.next_number += 1
        queue.unacked += 1
        queue.unacked_bytes += copy.message.size
        queue.unacked_on[channel.number] = queue.unacked_on.get(channel.number, 0) + 1
        queue.may_expire |= copy.deadline_ms != NEVER
    for name in sorted(known.vhost.exclusive_queues):
        queue = state.queues.named(name)
        queue.owner = channels.open(*known.owners.get(name, Actor(None, ""))).number
        channels.owners.give(queue.owner, queue.number)
