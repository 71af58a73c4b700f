"""The queues of a shard, by name or number.

A queue is read from the state when it is first needed, and written back at the end of the batch; a
queue at rest costs nothing but the timer of its group (`record_groups.py`).
"""

from typing import Final

import msgspec

from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.clock import Clock, TimerKind
from streaming.broker.config import ShardConfig
from streaming.broker.context import ShardContext
from streaming.broker.events import Events
from streaming.broker.lanes import settings_on
from streaming.broker.message import NEVER, no_headers_port
from streaming.broker.queues.classic import ClassicQueue
from streaming.broker.queues.queue import DeathOutbox, Queue
from streaming.broker.queues.quorum import QuorumQueue
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.record_groups import RecordGroups
from streaming.broker.state.schema import QueueRecord
from streaming.broker.state.store import MemoryStore
from streaming.broker.state.vhost_codec import AlternateWarnings
from topology.declarations import Queue as Declaration
from topology.policies import QueueSettings
from topology.vhost import Vhost

_decoder = msgspec.msgpack.Decoder(QueueRecord)
_encoder = msgspec.msgpack.Encoder()
KeptQueues = dict[int, tuple[bytes, ClassicQueue]]
"""Number -> record, and the queue."""

_GROUPS: Final = "q"
"""Prefix of the groups of records."""


def _no_batch() -> tuple[ShardContext, ChannelRegistry, DeathOutbox]:
    """Return what queues refer to between batches, so that nothing of a batch stays in memory."""
    config, events, vhost = ShardConfig(), Events(0), Vhost("4.0")
    clock = Clock(config, events, [], now_ms=0, batch_ms=0)
    warnings = AlternateWarnings(events, vhost, [])
    context = ShardContext(config, MemoryStore(), events, clock, vhost, warnings, no_headers_port)
    return context, ChannelRegistry(context, {}), DeathOutbox()


_NO_BATCH: Final = _no_batch()


class QueueRegistry:
    """Reads queues as they are needed and writes them back.

    Args:
        timers: group of records -> earliest timer in it; kept in the shard's header.
        resident_messages, resident_bytes: of all queues, as of the last batch.
        kept: queues of earlier batches, as this worker has kept them.

    Attributes:
        outbox: the deaths whose dead letters are not delivered yet.
        paused: the numbers of paused queues.
    """

    def __init__(
        self,
        context: ShardContext,
        channels: ChannelRegistry,
        timers: dict[int, int],
        resident_messages: int,
        resident_bytes: int,
        kept: KeptQueues,
    ) -> None:
        self._context = context
        self._channels = channels
        self.outbox = DeathOutbox()
        self.paused: set[int] = set()
        self.records = RecordGroups(context.store, _GROUPS, timers)
        self._loaded: dict[int, Queue] = {}
        self._names: dict[str, Queue] = {}
        self._messages_at_rest = resident_messages
        self._bytes_at_rest = resident_bytes
        self._kept = kept

    def named(self, name: str) -> Queue:
        """A declared queue."""
        queue = self._names.get(name)
        if queue is None:
            vhost = self._context.vhost
            queue = self.load(vhost.queue_numbers[name], vhost.queues[name])
        return queue

    def by_number(self, number: int) -> Queue | None:
        """A declared queue; None if it was deleted."""
        queue = self._loaded.get(number)
        if queue is None:
            name = self._context.vhost.queue_names.get(number)
            return None if name is None else self.named(name)
        return queue

    def in_use(self, number: int) -> Queue:
        """A queue that has a consumer or an unacked delivery, hence exists."""
        queue = self.by_number(number)
        assert queue is not None, f"queue {number} is in use but does not exist"
        return queue

    def load(self, number: int, declaration: Declaration) -> Queue:
        """A declared queue that is not in memory: from the state, or new and empty."""
        data = self.records.read(number)
        queue: Queue | None = self._resumed(number, declaration, data)
        if queue is None:
            record = QueueRecord() if data is None else _decoder.decode(unpack(data))
            queue_type = QuorumQueue if declaration.queue_type == "quorum" else ClassicQueue
            queue = queue_type(
                self._context,
                self._channels,
                self.outbox,
                number,
                declaration,
                self.settings_for(declaration),
                record,
            )
        if self.paused:
            queue.paused = number in self.paused
        self._messages_at_rest -= queue.ready + queue.unacked + queue.held.count
        self._bytes_at_rest -= queue.ready_bytes + queue.unacked_bytes + queue.held.bytes
        self._loaded[number] = queue
        self._names[declaration.name] = queue
        if queue.next_timer_ms() != NEVER:
            self._arm(queue)
        return queue

    def _arm(self, queue: Queue) -> None:
        """Set the timers of a queue that was at rest."""
        for due_ms, timer in (
            (queue.timer_ms, queue.sweep_timer),
            (queue.held.retry_timer_ms, TimerKind.RETRY_HELD),
            (queue.expiry_timer_ms, TimerKind.EXPIRE_QUEUE),
        ):
            if due_ms != NEVER:
                self._context.clock.arm(due_ms, timer, queue.number)

    def _resumed(
        self, number: int, declaration: Declaration, data: bytes | None
    ) -> ClassicQueue | None:
        """The queue as this worker has kept it, if that is what the state says."""
        kept = self._kept.pop(number, None)
        if kept is None or kept[0] != data:
            return None
        queue = kept[1]
        queue.declaration = declaration
        queue.bind(self._context, self._channels, self.outbox)
        return queue

    def wake(self, number: int) -> None:
        """Set the timers of the queues in a group; below 0, load the queue whose timer is due."""
        if number < 0:
            self.by_number(-1 - number)
            return
        for queue_number, due_ms in self.records.timers_in(number):
            if queue_number not in self._loaded:
                self._context.clock.arm(due_ms, TimerKind.WAKE_QUEUES, -1 - queue_number)

    def drop(self, queue: Queue) -> None:
        """Forget a queue that is no longer declared."""
        del self._loaded[queue.number]
        del self._names[queue.name]
        queue.save()
        self.records.delete(queue.number)

    def loaded(self) -> list[Queue]:
        """The queues that were used so far, by name."""
        return [self._names[name] for name in sorted(self._names)]

    def settings_for(self, declaration: Declaration) -> QueueSettings:
        """The settings in force for a queue on this lane: limits are divided (D2)."""
        return settings_on(self._context.config, self._context.vhost.settings(declaration))

    def resident(self) -> tuple[int, int]:
        """Ready, unacked and held copies of all queues, and their bodies' bytes."""
        messages, size = self._messages_at_rest, self._bytes_at_rest
        for queue in self._loaded.values():
            messages += queue.ready + queue.unacked + queue.held.count
            size += queue.ready_bytes + queue.unacked_bytes + queue.held.bytes
        return messages, size

    def save(self) -> KeptQueues:
        """Write back what was read; return the queues that may be kept as they are."""
        kept = self._kept
        encode, write = _encoder.encode, self.records.write
        for number, queue in sorted(self._loaded.items()):
            data = pack(encode(queue.save()))
            write(number, data, queue.next_timer_ms())
            if isinstance(queue, ClassicQueue) and queue.can_rest():
                queue.bind(*_NO_BATCH)
                kept[number] = (data, queue)
        self.records.save()
        return kept
