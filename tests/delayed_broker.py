"""A broker in memory whose vhosts apply what clients do later, as those on a log do.

broker = DelayedBroker(clock, seed=7)   # seed None: only when nothing else happens
... after bytes of a client: broker.pass_time()    some of what waits is applied
... before a client reads:   broker.settle()       all of it, in portions
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Final

from streaming.amqp.clocks import Clock, ManualClock
from streaming.amqp.entries import Ask, Entry, Then
from streaming.amqp.memory import MemoryBroker
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.config import ShardConfig
from streaming.broker.sequence.log_fold import NO_EPOCH, LogFold
from streaming.broker.state.store import MemoryStore
from topology.values import Compat

_PORTIONS: Final = (0, 0, 1, 1, 2, 5, 1000)


class DelayedVhost(OpenVhost):
    """A vhost that applies entries later.

    Attributes:
        waiting: the entries that are not applied yet, each with its instant.
    """

    def __init__(self, config: ShardConfig, now_ms: Callable[[], int]) -> None:
        super().__init__(config, now_ms)
        self.waiting: deque[tuple[Entry, int]] = deque()
        self._submitted = 0
        self._fold: LogFold = LogFold(self.shard, MemoryStore())

    def submit(self, entry: Entry) -> int:
        """See `OpenVhost`; only an operator, who has no connection, is answered at once."""
        self._submitted += 1
        self.waiting.append((entry, self._now_ms()))
        if isinstance(entry, Ask) and entry.actor.user is None:
            self.apply_some(len(self.waiting))
        return self._submitted

    def advance(self) -> None:
        """See `OpenVhost`."""
        while self.waiting:
            self.apply_some(1)
        super().advance()

    def apply_some(self, portion: int) -> None:
        """Apply the oldest of what waits, and tell what came of it."""
        for _ in range(min(portion, len(self.waiting))):
            entry, at_ms = self.waiting.popleft()
            self.applied += 1
            if not isinstance(entry, Then):
                self._offset += 1
                self._fold.begin(self._offset, NO_EPOCH)
            self.apply(entry, at_ms, self._offset)
        self.flush()


class DelayedBroker(MemoryBroker):
    """A broker in memory that answers later.

    Args:
        seed: decides when how much is applied; None: only when nothing else happens.
    """

    def __init__(self, clock: Clock, compat: Compat = "4.0", seed: int | None = None) -> None:
        self._chance = None if seed is None else random.Random(seed)
        super().__init__(clock, compat)

    def open(self, config: ShardConfig) -> OpenVhost:
        """See `MemoryBroker`."""
        return DelayedVhost(config, self.clock.now_ms)

    def _delayed(self) -> list[DelayedVhost]:
        return [one for one in self.server.vhosts.values() if isinstance(one, DelayedVhost)]

    def pass_time(self) -> None:
        """Let some of what waits be applied."""
        if self._chance is not None:
            for vhost in self._delayed():
                vhost.apply_some(self._chance.choice(_PORTIONS))

    def settle(self) -> None:
        """Let all that waits be applied."""
        for vhost in self._delayed():
            while vhost.waiting:
                whole = len(vhost.waiting)
                portion = whole if self._chance is None else self._chance.randint(1, whole)
                vhost.apply_some(portion)


def delayed_broker(seed: int | None = None) -> DelayedBroker:
    """A broker that answers later, whose clock stands still."""
    broker = DelayedBroker(ManualClock(), seed=seed)
    broker.server.follows_wall_clock = False
    return broker
