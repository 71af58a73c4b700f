"""The figures of a front at one instant, as a response shows them."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from streaming.amqp.connection import Connection
from streaming.amqp.server import Server
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.events import Events, Kind
from streaming.broker.overview import QueueOverview, queue_overview
from streaming.exposition.families import Family, Queue, Scrape
from streaming.management.counting import Counting
from streaming.sequencer.log_state import LogState

TURN_S: Final = 0.001
"""How long queues are looked at before clients are served."""


class Deaths:
    """Counts what died in a vhost, by reason, as a watcher of its events.

    Attributes:
        by_reason: deaths.
        dead_letters: copies that deaths brought into queues.
    """

    def __init__(self) -> None:
        self.by_reason: Counter[str] = Counter()
        self.dead_letters = 0

    def watch(self, events: Events) -> None:
        """Count events; called for each turn of the server."""
        for row, outcome in zip(events.death_rows, events.death_outcomes, strict=True):
            self.by_reason[outcome.reason] += events.kinds[row] == Kind.DIED
            self.dead_letters += len(outcome.targets)


class FrontFigures:
    """What a front has and has done; nothing changes it once it is complete.

    Attributes:
        queues: each queue's figures.
        kinds: events of each queue by kind.
        able: the queues of which a consumer could take a message now.
        published_to: messages published to each exchange, by vhost and name.
        bound: type of each exchange that has a name, and how many bindings leave it.
        heads: the property `timestamp` of each queue's first ready message, if it has one.
        prefetch, shared_prefetch: limits of all channels together, for each of their consumers and
            for all of a channel.
        logins: of clients: how many there were, and how many were refused.
        counts: totals of each vhost by name, as the job's `TrafficTotals` has them.
        logs: how each vhost on Kafka is doing; none in memory.
        blocked_by: why publishers wait; None if they do not.
    """

    is_seeded = True

    def __init__(self, name: str, started_s: float, server: Server) -> None:
        self.name = name
        self.started_s = started_s
        self.at_s = time.time()
        self.connections = [one for one in server.connections if one.vhost is not None]
        self._of_vhost: dict[str, list[Connection]] = {}
        for one in self.connections:
            if one.vhost is not None:
                self._of_vhost.setdefault(one.vhost.name, []).append(one)
        self.channels = sum(len(one.channels) for one in self.connections)
        self.vhosts = list(server.vhosts)
        self.queues: dict[Queue, list[QueueOverview]] = {}
        self.kinds: dict[Queue, Counter[str]] = {}
        self.able: set[Queue] = set()
        self.published_to: dict[tuple[str, str], int] = {}
        self.bound: dict[tuple[str, str], tuple[str, int]] = {}
        self.heads: dict[Queue, int | None] = {}
        self.prefetch = self.shared_prefetch = 0
        self.logins = server.logins, server.refused_logins
        self.counts: dict[str, Counter[str]] = {}
        self.logs: Mapping[str, LogState] = {}
        self.blocked_by = server.blocked_by
        self.high_mark_bytes = server.high_mark_bytes
        self.resident_bytes = sum(vhost.resident_bytes for vhost in server.vhosts.values())
        self.bytes_received, self.bytes_sent = server.bytes_received, server.bytes_sent
        self._of_server = Counter(
            connections_opened=server.connections_opened,
            connections_closed=server.connections_closed,
        )

    @property
    def publishers(self) -> int:
        """How many connections have published."""
        return sum(one.publishes for one in self.connections)

    def queue(self, key: Queue) -> list[QueueOverview]:
        """See `Figures`."""
        return self.queues.get(key, [])

    def count(self, name: str, vhost: str | None = None) -> int:
        """See `Figures`."""
        if vhost is not None:
            return self.counts.get(vhost, Counter())[name]
        return self._of_server[name] + sum(counts[name] for counts in self.counts.values())

    def add(
        self, vhost: OpenVhost, counting: Counting, deaths: Deaths, *, by_queue: bool
    ) -> Iterator[None]:
        """Take over what a vhost has; pause often, so that clients are served meanwhile.

        Args:
            by_queue: whether counts of single queues and exchanges are wanted, too.
        """
        self.counts[vhost.name] = _counts_of(vhost, counting, deaths)
        begin_s = time.perf_counter()
        for connection in self._of_vhost.get(vhost.name, ()):
            if time.perf_counter() - begin_s > TURN_S:
                yield
                begin_s = time.perf_counter()
            self._add_limits(vhost, connection)
        router = vhost.shard.vhost.router
        for exchange in list(router.exchanges.values()) if by_queue else ():
            if time.perf_counter() - begin_s > TURN_S:
                yield
                begin_s = time.perf_counter()
            counts, _samples = counting.exchange(vhost.name, exchange.name)
            key = vhost.name, exchange.name
            self.published_to[key] = counts["publish_in"]
            if exchange.name:
                self.bound[key] = exchange.type, router.bindings.count_from(exchange.name)
        for name in list(vhost.shard.vhost.queues):
            if time.perf_counter() - begin_s > TURN_S:
                yield
                begin_s = time.perf_counter()
            if name not in vhost.shard.vhost.queues:  # deleted meanwhile
                continue
            key = vhost.name, name
            queue = vhost.shard.state.queues.named(name)
            self.queues[key] = [queue_overview(queue)]
            if queue.line.consumers and queue.can_deliver():
                self.able.add(key)
            if by_queue:
                self.heads[key] = vhost.head_timestamp_s(name)
                counts, _samples = counting.queue(vhost.name, name)
                self.kinds[key] = Counter(
                    published=counts["publish"],
                    consume_manual=counts["deliver"],
                    consume_auto=counts["deliver_no_ack"],
                    get_manual=counts["get"],
                    get_auto=counts["get_no_ack"],
                    get_empty=counts["get_empty"],
                    redelivered=counts["redeliver"],
                    acked=counts["ack"],
                )

    def _add_limits(self, vhost: OpenVhost, connection: Connection) -> None:
        for channel in connection.channels.values():
            known = vhost.shard.state.channels.get(connection.user, channel.name)
            if known is not None:
                self.prefetch += known.prefetch
                self.shared_prefetch += 0 if known.limiter is None else known.limiter.limit


def _counts_of(vhost: OpenVhost, counting: Counting, deaths: Deaths) -> Counter[str]:
    """The totals of a vhost by the names that a job has for them."""
    counts, _samples = counting.vhost(vhost.name)
    found = Counter(
        {
            "received": counts["publish"],
            "received_confirm": counts["confirm"],
            "confirmed": counts["confirm"],
            "published": counting.entered(vhost.name) - deaths.dead_letters,
            "unroutable": counts["drop_unroutable"],
            "returned": counts["return_unroutable"],
            "delivered": counts["deliver"] + counts["get"],
            "consumed": counts["deliver_no_ack"] + counts["get_no_ack"],
            "consume_manual": counts["deliver"],
            "consume_auto": counts["deliver_no_ack"],
            "get_manual": counts["get"],
            "get_auto": counts["get_no_ack"],
            "get_empty": counts["get_empty"],
            "redelivered": counts["redeliver"],
            "acked": counts["ack"],
        }
    )
    found.update({f"died.{reason}": count for reason, count in deaths.by_reason.items()})
    churn = counting.churned(vhost.name)
    for ours, theirs in _CHURN:
        found[ours] = churn[theirs]
    return found


_CHURN: Final = (
    ("channels_opened", "channel_created"),
    ("channels_closed", "channel_closed"),
    ("queues_declared", "queue_declared"),
    ("queues_created", "queue_created"),
    ("queues_deleted", "queue_deleted"),
)

FrontFamily = Family[FrontFigures]
FrontScrape = Scrape[FrontFigures]
