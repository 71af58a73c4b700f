"""What batches did to messages, counted: the source of the job's metrics.

A task counts its shard's batch (`BatchTraffic`). The driver adds the counts to the totals of each
vhost (`TrafficTotals`) and stores those in the batch row, so counters continue after a restart, and
a batch that runs again counts once. Counts by queue are not stored: the table `events` has them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from streaming.broker.overview import QueueOverview
from streaming.ledger.batch_detail import TrafficSums

SIZE_BOUNDS: Final = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
"""Upper bounds of the classes of message sizes, in bytes: those of RabbitMQ."""

PUBLISHED: Final = "published"
"""Key of the copies that entered a queue by a publish; `enqueued` also counts dead letters."""

REDELIVERED: Final = "redelivered"
"""Key of the copies that were delivered and had been requeued before."""

ALL_TARGETS: Final = "dead_lettered"
"""The outcome of a death whose dead letter reached every target."""


class QueueDeaths(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Deaths in one queue with the same reason and outcome."""

    queue: str
    reason: str
    outcome: str
    count: int


class Clients(msgspec.Struct, frozen=True, array_like=True):
    """Who uses a shard: open channels, and the users that have any."""

    channels: int = 0
    users: list[str | None] = []


class BatchTraffic(msgspec.Struct, frozen=True):
    """What one batch of one shard did.

    Attributes:
        counts: of the whole shard, by name: publishes, confirms, gets, declarations, channels.
        kinds: queue -> kind of event -> number; also PUBLISHED and REDELIVERED.
        sizes: publishes by size; one more class than SIZE_BOUNDS.
        queues: the queues that the batch used, at its end.
        deleted: queues that were deleted and not declared again.
        clients: after a batch in which channels changed; else None.
    """

    counts: dict[str, int] = {}
    kinds: dict[str, dict[str, int]] = {}
    deaths: list[QueueDeaths] = []
    sizes: list[int] = []
    queues: list[QueueOverview] = []
    deleted: list[str] = []
    clients: Clients | None = None

    def totals(self) -> Counter[str]:
        """Return every count of the shard, and those of its queues added up, by name."""
        found = Counter(self.counts)
        for kinds in self.kinds.values():
            for kind, count in kinds.items():  # `update` takes five times as long for so few
                found[kind] += count
        for death in self.deaths:
            found[f"died.{death.reason}"] += death.count
        for index, count in enumerate(self.sizes):
            found[f"size.{index}"] += count
        return found


class TrafficTotals:
    """Totals of each vhost since the first batch.

    Attributes:
        counts: vhost -> name -> number.
        job: totals that belong to no vhost, such as changes of the gate.
        clients: (vhost, lane) -> who uses it.
    """

    def __init__(self, before: TrafficSums, batch_id: int | None) -> None:
        """Continue after the last batch row; a new checkpoint has no sums and no batch."""
        self.counts = {vhost: Counter(counts) for vhost, counts in before.vhosts.items()}
        self.job = Counter(before.job)
        self.clients = {
            (vhost, lane): Clients(channels, users)
            for vhost, lane, channels, users in before.clients
        }
        self._last_batch = -1 if batch_id is None else batch_id

    def add(
        self,
        batch_id: int,
        shards: Iterable[tuple[str, int, BatchTraffic]],
        faults: Mapping[str, int],
        *,
        gate_open: bool,
    ) -> None:
        """Add a batch, unless its row is stored already.

        Args:
            shards: vhost, lane and traffic of each shard.
            faults: publishes that reached no queue or were not understood, by kind.
        """
        if batch_id <= self._last_batch:
            return
        self._last_batch = batch_id
        for vhost, lane, traffic in shards:
            self.counts.setdefault(vhost, Counter()).update(traffic.totals())
            if traffic.clients is not None:
                closed = traffic.counts.get("channels_closed", 0)
                self._count_clients(vhost, lane, traffic.clients, closed)
        self.job.update({f"faults.{kind}": count for kind, count in faults.items() if count})
        self.job["batches"] += 1
        was_open = self.job["gate_closed"] == self.job["gate_opened"]
        if was_open != gate_open:
            self.job["gate_opened" if gate_open else "gate_closed"] += 1

    def _count_clients(self, vhost: str, lane: int, clients: Clients, closed: int) -> None:
        """Count opened channels, and the users whose first one was opened or last one closed.

        Args:
            closed: how many channels the batch closed.
        """
        others = {
            user
            for (name, number), one in self.clients.items()
            if name == vhost and number != lane
            for user in one.users
        }
        known = self.clients.get((vhost, lane), Clients())
        before = set(known.users) - others
        after = set(clients.users) - others
        counts = self.counts[vhost]
        counts["channels_opened"] += max(clients.channels - known.channels + closed, 0)
        counts["connections_opened"] += len(after - before)
        counts["connections_closed"] += len(before - after)
        self.clients[vhost, lane] = clients

    def sums(self) -> TrafficSums:
        """Return the totals as the batch row stores them."""
        return TrafficSums(
            {
                vhost: {name: count for name, count in counts.items() if count}
                for vhost, counts in self.counts.items()
            },
            {name: count for name, count in self.job.items() if count},
            [
                (vhost, lane, one.channels, one.users)
                for (vhost, lane), one in sorted(self.clients.items())
                if one.channels
            ],
        )
