"""What a worker keeps of its shards between two batches: making it again takes longer.

    queues   small ones; reading one from the state takes longer
    plans    of publishes (`publishing.py`); checking and routing one takes longer

A kept queue counts only if its record in the state is the one that it was kept with. Queues and
plans are taken out while they are in use, so a failed batch leaves nothing half-changed behind.
"""

from typing import Any, Final

from streaming.broker.config import ShardConfig

MAX_KEPT: Final = 20_000
"""Queues that a worker keeps, of all its shards: up to about 50 MB."""

MAX_KEPT_PLANS: Final = 20_000
"""Plans that a worker keeps, of all its shards: up to about 20 MB."""


class Kept:
    """What is kept of one shard.

    Attributes:
        queues: number -> record, and the queue.
        plans: user -> publication -> the plan of its publishes.
    """

    __slots__ = ("plans", "queues")

    def __init__(self) -> None:
        self.queues: dict[int, tuple[bytes, Any]] = {}
        self.plans: dict[str | None, dict[Any, Any]] = {}


class KeptShards:
    """What a worker keeps, by configuration and topology of the shard."""

    def __init__(self) -> None:
        self._shards: dict[tuple[ShardConfig, bytes], Kept] = {}

    def take(self, config: ShardConfig, digest: bytes) -> Kept:
        """Remove and return what is kept of a shard."""
        return self._shards.pop((config, digest), None) or Kept()

    def put(self, config: ShardConfig, digest: bytes, kept: Kept) -> None:
        """Keep what was made for a shard; drops the oldest of all shards beyond the limits."""
        if not kept.queues and not kept.plans:
            return
        self._shards[(config, digest)] = kept
        excess = sum(len(each.queues) for each in self._shards.values()) - MAX_KEPT
        while excess > 0:
            key, oldest = next(iter(self._shards.items()))
            for number in list(oldest.queues)[:excess]:
                del oldest.queues[number]
                excess -= 1
            if not oldest.queues:
                del self._shards[key]
        plans = sum(len(each) for one in self._shards.values() for each in one.plans.values())
        for one in self._shards.values():
            if plans > MAX_KEPT_PLANS:
                plans -= sum(map(len, one.plans.values()))
                one.plans = {}
