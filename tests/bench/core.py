"""`dlx bench core`: measures the broker's core in one process on one CPU core.

Each case prepares a state, then runs the same work on it (`workload.py`), batch by batch. A batch
loads the state, folds the records, saves the state and turns the events into columns; the creation
of the records is not measured. A fixed loop of plain Python is timed after every batch, so that
other load on the machine affects both sides of the ratio.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.broker.state.vhost_codec import VhostCache
from tests.bench import workload
from tests.bench.workload import Depths, Log

if TYPE_CHECKING:
    from streaming.broker.events import Events

_CONFIG: Final = ShardConfig(consumer_timeout_ms=None)
_CLOSED: Final = Actor(None, "closed")
_WARM_UP_BATCHES: Final = 2


@dataclass(frozen=True)
class Size:
    """How much to measure.

    Attributes:
        messages: publishes measured in each case.
        batch: publishes per batch, approximately.
        resident: messages in the queues before, in cases that have any.
        queues: other queues.
    """

    messages: int = 200_000
    batch: int = 20_000
    resident: int = 1_000_000
    queues: int = 10_000


class Result(NamedTuple):
    """The figures of one case.

    Attributes:
        us_per_message: microseconds per message in the median batch.
        reference_us: the same of the fixed loop.
        events: events per message.
        resident: messages in the state before the measurement.
        state_bytes: encoded state per resident message, with keys; None without any.
    """

    us_per_message: float
    reference_us: float
    events: float
    resident: int
    state_bytes: float | None

    @property
    def messages_per_s(self) -> float:
        """Messages published, dead-lettered and read per second."""
        return 1e6 / self.us_per_message


class Broker:
    """The state of a shard between batches, and its log."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.log = Log()
        self._cache = VhostCache()

    def shard(self) -> Shard:
        """Load the shard for a batch."""
        return Shard(_CONFIG, self.store, cache=self._cache)

    def fold(self, records: list[workload.Record]) -> Events:
        """Fold one batch."""
        shard = self.shard()
        workload.feed(shard, records)
        return shard.finish().events

    def command(self, *batch: commands.Command, actor: Actor = workload.OPERATOR) -> None:
        """Fold one batch of commands at the log's present instant."""
        shard = self.shard()
        for command in batch:
            shard.command(self.log.now_ms, command, actor)
        shard.finish()

    def publish(self, records: Iterator[workload.Record], batch: int) -> None:
        """Fold publishes in batches of a size."""
        while chunk := [record for record, _ in zip(records, range(batch), strict=False)]:
            self.fold(chunk)

    def state_bytes(self) -> int:
        """Return the size of the encoded state, with keys."""
        return sum(len(key) + len(value) for key, value in self.store.values.items())


Prepare = Callable[[Broker, Size], int]
"""Prepares a case, and returns how many messages are in the state."""


def _empty(broker: Broker, _size: Size) -> int:
    depths = Depths()
    broker.command(*workload.declarations(depths))
    broker.command(*workload.consumers(depths), actor=workload.WORKER)
    return 0


def _ready(broker: Broker, size: Size) -> int:
    """Fill the work queues, so that the messages that die were in a page."""
    depths = Depths.holding(size.resident)
    broker.command(*workload.declarations(depths, size.queues))
    broker.publish(broker.log.publishes(size.resident), size.batch)
    broker.command(*workload.consumers(depths), actor=workload.WORKER)
    return size.resident


def _unacked(broker: Broker, size: Size, actor: Actor = workload.WORKER) -> int:
    """Deliver messages to consumers, which reject the oldest first."""
    depths = Depths(prefetch=0)
    broker.command(*workload.declarations(depths, size.queues))
    broker.command(*workload.consumers(depths, actor), actor=actor)
    names = list(workload.REJECTED_QUEUES)
    broker.publish(broker.log.publishes_to("", names, -(-size.resident // len(names))), size.batch)
    return size.resident


def _returned(broker: Broker, size: Size) -> int:
    """Deliver messages on a channel and close it; others consume what was requeued."""
    _unacked(broker, size, _CLOSED)
    broker.command(commands.CloseChannel(channel=_CLOSED.channel), actor=_CLOSED)
    broker.command(*workload.consumers(Depths()), actor=workload.WORKER)
    return size.resident


def _queues(broker: Broker, size: Size) -> int:
    """Create many other queues with a few messages each."""
    _empty(broker, size)
    broker.command(*workload.declarations(Depths(), size.queues))
    others = [f"o{number}" for number in range(size.queues)]
    broker.publish(broker.log.publishes_to("", others, 5), size.batch)
    return 5 * size.queues


CASES: Final[dict[str, Prepare]] = {
    "empty": _empty,
    "ready": _ready,
    "unacked": _unacked,
    "returned": _returned,
    "queues": _queues,
}


def measure(name: str, size: Size) -> Result:
    """Prepare and measure a case."""
    broker = Broker()
    rounds = max(1, size.batch // workload.ROUND)
    published = rounds * workload.ROUND
    batches = max(1, size.messages // published)
    batches_us: list[float] = []
    references_us: list[float] = []
    events = 0
    with _without_collector():
        resident = CASES[name](broker, size)
        state_bytes = broker.state_bytes() / resident if resident else None
        for batch in range(-_WARM_UP_BATCHES, batches):
            records = broker.log.batch(rounds)
            start_s = time.perf_counter()
            folded = broker.fold(records)
            event_columns(folded)
            took_us = (time.perf_counter() - start_s) * 1e6 / published
            if batch >= 0:
                batches_us.append(took_us)
                references_us.append(reference_us(published))
                events += len(folded)
    per_message = events / (batches * published)
    return Result(median(batches_us), median(references_us), per_message, resident, state_bytes)


def event_columns(events: Events) -> dict[str, list[int] | list[str]]:
    """Return the columns of events that differ from row to row, as plain values for Arrow.

    As in the pipeline, the columns of copies and messages omit events without one.
    """
    copies = events.copies
    present = [copy for copy in copies if copy is not None]
    messages = [copy.message for copy in present]
    return {
        "kind": events.kinds,
        "queue": events.queues,
        "number": events.numbers,
        "copy_id": [copy.copy_id for copy in present],
        "parent_copy_id": [copy.parent_copy_id for copy in present],
        "message_id.topic_number": [message.topic_number for message in messages],
        "message_id.partition": [message.partition for message in messages],
        "message_id.offset": [message.offset for message in messages],
    }


def reference_us(messages: int) -> float:
    """Measure two passes through a deque and nine appends to columns, in microseconds per message.

    This is about the minimum for a message that dies once: two copies, four or five events.
    """
    first: deque[tuple[int, int, str]] = deque()
    second: deque[tuple[int, int, str]] = deque()
    counts = {"w0": 0, "dlq": 0}
    kinds: list[int] = []
    queues: list[str] = []
    copies: list[tuple[int, int, str]] = []
    started = time.perf_counter()
    for number in range(messages):
        copy = (number, 0, "order.eu.w0.created")
        first.append(copy)
        counts["w0"] += 1
        kinds.append(1)
        queues.append("w0")
        copies.append(copy)
        copy = first.popleft()
        counts["w0"] -= 1
        kinds.append(6)
        queues.append("w0")
        copies.append(copy)
        copy = (number, 1, "order.eu.w0.created")
        second.append(copy)
        counts["dlq"] += 1
        kinds.append(3)
        queues.append("dlq")
        copies.append(copy)
        second.popleft()
        counts["dlq"] -= 1
    return (time.perf_counter() - started) * 1e6 / messages


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the cyclic garbage collector, as the job does: a batch creates no cycles."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
