"""Queues between two batches, as a worker keeps them: reading one from the state takes longer.

A kept queue counts only if its record in the state is the one that it was kept with. Queues are
taken out while they are in use, so a failed batch leaves nothing half-changed behind.
"""

from typing import Any, Final

from streaming.broker.config import ShardConfig

MAX_KEPT: Final = 20_000
"""Queues that a worker keeps, of all its shards: up to about 50 MB."""

Kept = dict[int, tuple[bytes, Any]]
"""Number -> record, and the queue."""


class RestingQueues:
    """The kept queues of a worker, by configuration and topology of their shard."""

    def __init__(self) -> None:
        self._shards: dict[tuple[ShardConfig, bytes], Kept] = {}

    def take(self, config: ShardConfig, digest: bytes) -> Kept:
        """Remove and return the queues of a shard."""
        return self._shards.pop((config, digest), {})

    def put(self, config: ShardConfig, digest: bytes, kept: Kept) -> None:
        """Keep the queues of a shard; drops the oldest ones of all shards beyond `MAX_KEPT`."""
        if not kept:
            return
        self._shards[(config, digest)] = kept
        excess = sum(map(len, self._shards.values())) - MAX_KEPT
        while excess > 0:
            key, oldest = next(iter(self._shards.items()))
            for number in list(oldest)[:excess]:
                del oldest[number]
                excess -= 1
            if not oldest:
                del self._shards[key]
