"""Work on very many copies, continued in portions so that a record needs bounded memory.

A purge, a deletion, a new consumer without prefetch, or an instant at which copies expire, may
concern millions of copies. One step handles at most `MAX_AT_ONCE` of them. The rest follows in
portions of that size, one every `CONTINUE_AFTER_MS` of the shard's time, and at most
`PORTIONS_AT_ONCE` of them when one record (with `clock = wall`: one batch) moves the clock far.
Until then

- purged or deleted copies are detached: the queue behaves as if they were gone, only their events
  are missing, and they count as resident;
- a queue that hands out copies is paused: new copies wait behind the others;
- so is one whose copies expire: no expired one is handed out, and a get finds the queue empty.

With `clock = event` nothing of this depends on where the log is cut into batches.
"""

from collections.abc import Iterator
from itertools import islice

import msgspec

from streaming.broker.clock import TimerKind
from streaming.broker.context import ShardContext
from streaming.broker.message import NEVER, Copy
from streaming.broker.queues import step_size
from streaming.broker.queues.ready_order import Order, QuorumOrder, classic_order
from streaming.broker.queues.registry import QueueRegistry
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.schema import DetachedRecord, UnfinishedRecord

CONTINUE_AFTER_MS = 100
PORTIONS_AT_ONCE = 10

_KEY = "unfinished"
_decoder = msgspec.msgpack.Decoder(UnfinishedRecord)
_encoder = msgspec.msgpack.Encoder()


class UnfinishedWork:
    """The unfinished work of one shard.

    Attributes:
        due_ms: when it is continued; NEVER if there is none.
    """

    def __init__(self, context: ShardContext, queues: QueueRegistry, due_ms: int) -> None:
        self.due_ms = due_ms
        self._context = context
        self._queues = queues
        self._changed = False
        self._portions = 0
        self._until_ms = context.clock.moves_until_ms
        data = None if due_ms == NEVER else context.store.read(_KEY)
        self._work = UnfinishedRecord([], []) if data is None else _decoder.decode(unpack(data))
        queues.paused.update(self._work.paused)

    def add_detached(self, record: DetachedRecord) -> None:
        """Continue with these copies."""
        self._work.detached.append(record)
        self._arm()

    def add_paused(self) -> None:
        """Continue to serve the queues that paused in this step."""
        unserved = self._queues.outbox.unserved
        for queue in unserved:
            self._work.paused.append(queue.number)
            self._queues.paused.add(queue.number)
        unserved.clear()
        self._arm()

    def _arm(self) -> None:
        self._changed = True
        if self.due_ms == NEVER:
            clock = self._context.clock
            self.due_ms = clock.now_ms + CONTINUE_AFTER_MS
            if self._portions >= PORTIONS_AT_ONCE and self._until_ms == clock.moves_until_ms:
                self.due_ms = max(self.due_ms, self._until_ms + 1)
            clock.arm(self.due_ms, TimerKind.CONTINUE, 0)

    def advance(self) -> Iterator[tuple[DetachedRecord, Copy]]:
        """Do one portion: yield detached copies; if there are few, serve a paused queue."""
        until_ms = self._context.clock.moves_until_ms
        if until_ms != self._until_ms:
            self._until_ms, self._portions = until_ms, 0
        self._portions += 1
        self._changed = True
        self.due_ms = NEVER
        work = self._work
        left = step_size.MAX_AT_ONCE
        while work.detached and left:
            record = work.detached[0]
            order = self._order(record)
            taken = 0
            for copy in islice(order.take_all(), left):
                taken += 1
                record.size -= copy.message.size
                yield record, copy
            record.messages -= taken
            left -= taken
            record.levels = order.save()
            if left:
                del work.detached[0]
        if left and work.paused:
            number = work.paused.pop(0)
            self._queues.paused.remove(number)
            queue = self._queues.by_number(number)
            if queue is not None:
                queue.go_on()
        if work.detached or work.paused:
            self._arm()

    def resident(self) -> tuple[int, int]:
        """How many detached copies have no event yet, and the bytes of their bodies."""
        detached = self._work.detached
        return sum(each.messages for each in detached), sum(each.size for each in detached)

    def _order(self, record: DetachedRecord) -> Order:
        store = self._context.store
        if not record.quorum:
            return classic_order(store, record.queue_number, record.max_priority, record.levels)
        return QuorumOrder(
            store,
            record.queue_number,
            record.levels,
            two_levels=True,
            taken=0,
            next_requeued=0,
        )

    def save(self) -> None:
        """Write back what was changed."""
        if not self._changed:
            return
        if self._work.detached or self._work.paused:
            self._context.store.write(_KEY, pack(_encoder.encode(self._work)))
        else:
            self._context.store.delete(_KEY)
