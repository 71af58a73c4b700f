"""The queues of a shard, by name or number.

A queue is read from the state when it is first asked for, and written back at the end of the
batch; a queue at rest costs nothing but the timer of its group (`records.py`).
"""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING

import msgspec

from streaming.broker.message import NEVER
from streaming.broker.queues.classic import ClassicQueue
from streaming.broker.queues.quorum import QuorumQueue
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.record_groups import Records
from streaming.broker.state.schema import EMPTY, QueueRecord
from streaming.broker.timers import TimerKind

if TYPE_CHECKING:
    from streaming.broker.queues.queue import Queue
    from streaming.broker.shard import Shard
    from topology.declarations import Queue as Declaration
    from topology.policies import QueueSettings

_decoder = msgspec.msgpack.Decoder(QueueRecord)
_encoder = msgspec.msgpack.Encoder()


class QueueDirectory:
    """Reads queues as they are needed and writes them back.

    Args:
        timers: group of records -> earliest timer in it; kept in the shard's header.
        resident_messages, resident_bytes: of all queues, as of the last batch.

    Attributes:
        resident_messages, resident_bytes: ready, unacked and held copies, and their bodies' bytes,
            of the queues at rest; of all queues after `save`.
    """

    def __init__(
        self, shard: Shard, timers: dict[int, int], resident_messages: int, resident_bytes: int
    ) -> None:
        self._shard = shard
        self.records = Records(shard.store, "q", timers)
        self._loaded: dict[int, Queue] = {}
        self._names: dict[str, Queue] = {}
        self.resident_messages = resident_messages
        self.resident_bytes = resident_bytes

    def named(self, name: str) -> Queue:
        """A declared queue."""
        queue = self._names.get(name)
        if queue is None:
            topology = self._shard.topology
            queue = self.load(topology.queue_numbers[name], topology.queues[name])
        return queue

    def by_number(self, number: int) -> Queue | None:
        """A declared queue; None if it is gone."""
        queue = self._loaded.get(number)
        if queue is None:
            name = self._shard.topology.queue_names.get(number)
            return None if name is None else self.named(name)
        return queue

    def in_use(self, number: int) -> Queue:
        """A queue that has a consumer or an unacked delivery, hence exists."""
        queue = self.by_number(number)
        assert queue is not None, f"queue {number} is in use and gone"
        return queue

    def load(self, number: int, declaration: Declaration) -> Queue:
        """A declared queue that is not in memory: as the state has it, or new and empty."""
        shard = self._shard
        data = self.records.read(number)
        record = EMPTY if data is None else _decoder.decode(unpack(data))
        kind = QuorumQueue if declaration.queue_type == "quorum" else ClassicQueue
        queue = kind(shard, number, declaration, self.settings_for(declaration), record)
        self.resident_messages -= queue.resident_messages()
        self.resident_bytes -= queue.resident_bytes()
        self._loaded[number] = queue
        self._names[declaration.name] = queue
        for due_ms, timer in (
            (queue.timer_ms, queue.sweep_timer),
            (queue.retry_timer_ms, TimerKind.RETRY_HELD),
            (queue.expiry_timer_ms, TimerKind.EXPIRE_QUEUE),
        ):
            if due_ms != NEVER:
                heappush(shard.timers, (due_ms, timer, number))
        return queue

    def wake(self, group_number: int) -> None:
        """Read the queues of a group, so that their own timers are in the heap."""
        for number in sorted(self.records.group(group_number)):
            self.by_number(number)

    def drop(self, queue: Queue) -> None:
        """Forget a queue that is no longer declared."""
        del self._loaded[queue.number]
        del self._names[queue.name]
        queue.record()
        self.records.delete(queue.number)

    def settings_for(self, declaration: Declaration) -> QueueSettings:
        """What is in force for a queue on this lane: limits are divided among the lanes (D2)."""
        settings = self._shard.topology.settings(declaration)
        lanes, lane = self._shard.config.lanes, self._shard.config.lane
        if lanes == 1:
            return settings

        def share(limit: int | None) -> int | None:
            return None if limit is None else limit // lanes + (lane < limit % lanes)

        return msgspec.structs.replace(
            settings,
            max_length=share(settings.max_length),
            max_length_bytes=share(settings.max_length_bytes),
        )

    def save(self) -> None:
        """Write back what was read."""
        for number, queue in sorted(self._loaded.items()):
            next_timer_ms = queue.next_timer_ms()
            self.resident_messages += queue.resident_messages()
            self.resident_bytes += queue.resident_bytes()
            self.records.write(number, pack(_encoder.encode(queue.record())), next_timer_ms)
        self.records.save()
