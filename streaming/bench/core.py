"""`dlx bench core`: what the broker's core does in one process on one core.

Each case prepares a state, then runs the same work on it (`workload.py`), batch by batch: the
state is loaded, the records are folded, the state is saved, and the events become columns of plain
values. All of that is on the clock; making the records is not. In turn with every batch a fixed
loop of plain Python is timed, so that a slow minute of the machine slows both sides of the ratio.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

from streaming.bench import workload
from streaming.bench.workload import Depths, Log
from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.broker.vhost import VhostCache

if TYPE_CHECKING:
    from streaming.broker.events import Events

MAX_STATE_BYTES: Final = 150
"""Goal: encoded state of a resident message without headers."""

MAX_SLOWDOWN: Final = 1.5
"""Goal: cost a message with much resident, in that of an empty broker."""

_CONFIG: Final = ShardConfig(consumer_timeout_ms=None)
_FORMER: Final = Actor(None, "former")
_WARM_UP_BATCHES: Final = 2


@dataclass(frozen=True)
class Size:
    """How much to measure.

    Attributes:
        messages: published on the clock in each case.
        batch: published in a batch, about.
        resident: messages that are there before, in the cases that have any.
        queues: other queues that are there.
    """

    messages: int = 200_000
    batch: int = 20_000
    resident: int = 1_000_000
    queues: int = 10_000


@dataclass
class Result:
    """One case, measured.

    Attributes:
        us_per_message: of the median batch.
        reference_us: of the fixed loop, likewise.
        events: events a message.
        resident: messages in the state before the clock started.
        state_bytes: their encoded state, a message, keys included; None if there were none.
        prepare_us: what closing the channel took, a returned message; None without that.
    """

    name: str
    us_per_message: float = 0.0
    reference_us: float = 0.0
    events: float = 0.0
    resident: int = 0
    state_bytes: float | None = None
    prepare_us: float | None = None
    batches_us: list[float] = field(default_factory=list)

    @property
    def messages_per_s(self) -> float:
        """Messages published, dead-lettered and read in a second."""
        return 1e6 / self.us_per_message


class Broker:
    """A shard between batches, and its log."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.log = Log()
        self._cache = VhostCache()

    def shard(self) -> Shard:
        """The shard, loaded for a batch."""
        return Shard(_CONFIG, self.store, cache=self._cache)

    def fold(self, records: list[workload.Record]) -> Events:
        """One batch."""
        shard = self.shard()
        workload.feed(shard, records)
        return shard.finish().events

    def command(self, *orders: commands.Command, actor: Actor = workload.OPERATOR) -> None:
        """One batch of commands, at the log's instant."""
        shard = self.shard()
        for order in orders:
            shard.command(self.log.now_ms, order, actor)
        shard.finish()

    def publish(self, records: Iterator[workload.Record], batch: int) -> None:
        """Publishes, in batches of this size."""
        while chunk := [record for record, _ in zip(records, range(batch), strict=False)]:
            self.fold(chunk)

    def state_bytes(self) -> int:
        """The encoded state, keys included."""
        return sum(len(key) + len(value) for key, value in self.store.values.items())


Prepare = Callable[[Broker, Size, Result], None]


def _empty(broker: Broker, _size: Size, _result: Result) -> None:
    depths = Depths()
    broker.command(*workload.declarations(depths))
    broker.command(*workload.consumers(depths), actor=workload.WORKER)


def _ready(broker: Broker, size: Size, result: Result) -> None:
    """All work queues are so long that what dies has been in a page."""
    depths = Depths.holding(size.resident)
    broker.command(*workload.declarations(depths, size.queues))
    broker.publish(broker.log.publishes(size.resident), size.batch)
    _measure_state(broker, size.resident, result)
    broker.command(*workload.consumers(depths), actor=workload.WORKER)


def _unacked(broker: Broker, size: Size, result: Result) -> None:
    """The consumers have that many deliveries, and reject the oldest first."""
    _hand_out(broker, size, workload.WORKER)
    _measure_state(broker, size.resident, result)


def _returned(broker: Broker, size: Size, result: Result) -> None:
    """As `_unacked`, but on a channel that was just closed; others consume what came back."""
    _hand_out(broker, size, _FORMER)
    started = time.perf_counter()
    broker.command(commands.CloseChannel(channel=_FORMER.channel), actor=_FORMER)
    result.prepare_us = (time.perf_counter() - started) * 1e6 / size.resident
    _measure_state(broker, size.resident, result)
    broker.command(*workload.consumers(Depths()), actor=workload.WORKER)


def _queues(broker: Broker, size: Size, result: Result) -> None:
    """Many other queues with a few messages each."""
    _empty(broker, size, result)
    broker.command(*workload.declarations(Depths(), size.queues))
    others = [f"o{number}" for number in range(size.queues)]
    broker.publish(broker.log.publishes_to("", others, 5), size.batch)
    _measure_state(broker, 5 * size.queues, result)


CASES: Final[dict[str, Prepare]] = {
    "empty": _empty,
    "ready": _ready,
    "unacked": _unacked,
    "returned": _returned,
    "queues": _queues,
}


def _hand_out(broker: Broker, size: Size, actor: Actor) -> None:
    """Deliver that many messages to consumers of the queues whose messages are rejected."""
    depths = Depths(prefetch=0)
    broker.command(*workload.declarations(depths, size.queues))
    broker.command(*workload.consumers(depths, actor), actor=actor)
    names = list(workload.REJECTED_QUEUES)
    broker.publish(broker.log.publishes_to("", names, -(-size.resident // len(names))), size.batch)


def _measure_state(broker: Broker, resident: int, result: Result) -> None:
    result.resident = resident
    result.state_bytes = broker.state_bytes() / resident if resident else None


def measure(name: str, size: Size) -> Result:
    """Prepare a case and measure it."""
    result = Result(name)
    broker = Broker()
    with _collector_off():
        CASES[name](broker, size, result)
        rounds = max(1, size.batch // workload.ROUND)
        published = rounds * workload.ROUND
        batches = max(1, size.messages // published)
        references: list[float] = []
        events = 0
        for batch in range(-_WARM_UP_BATCHES, batches):
            records = broker.log.batch(rounds)
            started = time.perf_counter()
            folded = broker.fold(records)
            plain_columns(folded)
            took_us = (time.perf_counter() - started) * 1e6 / published
            if batch < 0:
                continue
            result.batches_us.append(took_us)
            events += len(folded)
            references.append(reference_us(published))
    result.us_per_message = median(result.batches_us)
    result.reference_us = median(references)
    result.events = events / (batches * published)
    return result


def plain_columns(events: Events) -> dict[str, list[int] | list[str]]:
    """What of each event's row is not a run or a constant, as plain values: ready for Arrow.

    As in the pipeline, copies and messages are columns of those events that have one.
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
    """What two passes through a deque and nine appends to columns take, microseconds a message.

    About the least that a message which dies once can cost here: two copies, four or five events.
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
def _collector_off() -> Iterator[None]:
    """Without the cyclic garbage collector, as the job runs a batch: a batch makes no cycles."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
