"""Counts and rates as RabbitMQ shows them: totals, sampled every five seconds.

    events of a vhost --> counts by (kind, queue) --every 5 s--> samples --> rates, histories

The rate of a count is its growth between the last two samples. A queue's samples are kept for a
minute, those of a vhost and of all together for an hour.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import compress
from operator import attrgetter
from typing import Any, Final

import msgspec

from streaming.amqp.connection import Connection
from streaming.amqp.vhosts import OpenVhost, Traffic
from streaming.broker.events import ENQUEUED, Events, Kind
from streaming.broker.message import NO_COPY
from streaming.broker.queues.queue import Queue

SAMPLE_S: Final = 5
SAMPLE_MS: Final = SAMPLE_S * 1000
_OF_QUEUE: Final = 13
_OF_VHOST: Final = 721
_AT_ONCE: Final = 100
"""Queues that are looked at before others are served."""

MAX_RANGE: Final = 500
"""How many samples one answer may have for each count."""

Counts = Mapping[str, int]
_SILENT: Final = Traffic()
_exchange_of: Final = attrgetter("envelope.exchange")

_ENQUEUED, _DELIVERED, _CONSUMED = int(Kind.ENQUEUED), int(Kind.DELIVERED), int(Kind.CONSUMED)
_ACKED, _RETURNED, _UNROUTABLE = int(Kind.ACKED), int(Kind.RETURNED), int(Kind.UNROUTABLE)
_LOST: Final = frozenset({_RETURNED, _UNROUTABLE})
_HANDED_OUT: Final = frozenset({_DELIVERED, _CONSUMED})

QUEUE_STATS: Final = (
    "ack",
    "deliver",
    "deliver_get",
    "deliver_no_ack",
    "get",
    "get_empty",
    "get_no_ack",
    "publish",
    "redeliver",
)
PUBLISH_STATS: Final = ("confirm", "drop_unroutable", "publish", "return_unroutable")
"""Of a channel that has published; `QUEUE_STATS` without `publish` are of one that got anything."""

DELIVER_STATS: Final = tuple(name for name in QUEUE_STATS if name != "publish")
CHURN: Final = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)


class VhostCounts:
    """What happened in a vhost.

    Attributes:
        by_queue: (kind, queue) -> how many events; kind 0 counts redeliveries.
        kinds: the same of all queues, those that are gone too.
        touched: queues in which anything happened since the last sample.
        churn: channels and queues that came and went.
        from_exchanges: copies that publishes put into queues, by exchange.

    Args:
        ended: hears what ended (`queue_deleted`, `exchange_deleted`) and its name.
    """

    def __init__(self, vhost: OpenVhost, ended: Callable[[str, str], None]) -> None:
        self.vhost = vhost
        self._ended = ended
        self.by_queue: Counter[tuple[int, str]] = Counter()
        self.kinds: Counter[int] = Counter()
        self.touched: set[str] = set()
        self.churn: Counter[str] = Counter()
        self.from_exchanges: Counter[str] = Counter()

    def watch(self, events: Events) -> None:
        """Count events; called for each turn of the server, so nothing else is done here."""
        found = Counter(zip(events.kinds, events.queues, strict=False))
        for (kind, queue), count in found.items():
            self.by_queue[kind, queue] += count
            self.kinds[kind] += count
            self.touched.add(queue)
        kinds = {kind for kind, _queue in found}
        entered = compress(events.copies, map(ENQUEUED.__eq__, events.kinds))
        self.from_exchanges.update(map(_exchange_of, entered))
        if not kinds.isdisjoint(_LOST):
            self._count_lost(events)
        for kind in kinds.intersection(_HANDED_OUT):
            if any(compress(events.numbers, map(kind.__eq__, events.kinds))):
                self._count_redeliveries(events, kind)
        if events.death_rows:
            self._leave_dead_letters_out(events)
        for detail in events.details.values():
            self._note(detail)

    def _count_lost(self, events: Events) -> None:
        """Note who published what reached no queue."""
        ends = [row for row, _ in events.actors[1:]] + [len(events)]
        for (first, actor), end in zip(events.actors, ends, strict=True):
            for name, kind in (("drop_unroutable", _UNROUTABLE), ("return_unroutable", _RETURNED)):
                lost = events.kinds[first:end].count(kind)
                traffic = self.vhost.traffic.get(actor.channel)
                if lost and traffic is not None:
                    setattr(traffic, name, getattr(traffic, name) + lost)

    def _count_redeliveries(self, events: Events, delivered: int) -> None:
        columns = zip(events.kinds, events.queues, events.numbers, strict=False)
        for kind, queue, number in columns:
            if number and kind == delivered:
                self.by_queue[0, queue] += 1
                self.kinds[0] += 1

    def _leave_dead_letters_out(self, events: Events) -> None:
        """RabbitMQ counts what clients publish."""
        for kind, queue, copy in zip(events.kinds, events.queues, events.copies, strict=False):
            if kind == _ENQUEUED and copy is not None and copy.parent_copy_id != NO_COPY:
                self.by_queue[_ENQUEUED, queue] -= 1
                self.from_exchanges[copy.envelope.exchange] -= 1

    def _note(self, detail: dict[str, Any]) -> None:
        what = detail.get("what")
        if what in _CHURN_OF:
            self.churn[_CHURN_OF[what]] += 1
        if what in ("queue_deleted", "exchange_deleted"):
            name = str(detail.get("name"))
            if what == "queue_deleted":
                for kind in (0, *Kind):
                    self.by_queue.pop((int(kind), name), None)
            else:
                self.from_exchanges.pop(name, None)
            self._ended(what, name)

    def of_queue(self, queue: str) -> dict[str, int]:
        """The counts of a queue's messages."""
        events, gets = self.by_queue, self.vhost.gets
        got, got_no_ack = gets["get", queue], gets["get_no_ack", queue]
        handed, consumed = events[_DELIVERED, queue], events[_CONSUMED, queue]
        return {
            "ack": events[_ACKED, queue],
            "deliver": handed - got,
            "deliver_get": handed + consumed,
            "deliver_no_ack": consumed - got_no_ack,
            "get": got,
            "get_empty": gets["get_empty", queue],
            "get_no_ack": got_no_ack,
            "publish": events[_ENQUEUED, queue],
            "redeliver": events[0, queue],
        }

    def of_exchange(self, exchange: str) -> dict[str, int]:
        """The counts of what was published to an exchange."""
        return {
            "publish_in": self.vhost.published_to[exchange],
            "publish_out": self.from_exchanges[exchange],
        }

    def of_channel(self, channel: str) -> dict[str, int]:
        """The counts of what a channel did."""
        traffic = self.vhost.traffic.get(channel, _SILENT)
        found: dict[str, int] = msgspec.structs.asdict(traffic)
        found["deliver_get"] = sum(
            found[name] for name in ("deliver", "deliver_no_ack", "get", "get_no_ack")
        )
        return found

    def of_all(self) -> dict[str, int]:
        """The counts of all messages of the vhost."""
        kinds, vhost = self.kinds, self.vhost
        got: Counter[str] = Counter()
        for name in ("get", "get_no_ack", "get_empty"):
            got[name] = vhost.got[name]
        return {
            "publish": vhost.published,
            "confirm": vhost.confirmed,
            "return_unroutable": kinds[_RETURNED],
            "drop_unroutable": kinds[_UNROUTABLE],
            "get": got["get"],
            "get_no_ack": got["get_no_ack"],
            "deliver": kinds[_DELIVERED] - got["get"],
            "deliver_no_ack": kinds[_CONSUMED] - got["get_no_ack"],
            "redeliver": kinds[0],
            "ack": kinds[_ACKED],
            "deliver_get": kinds[_DELIVERED] + kinds[_CONSUMED],
            "get_empty": got["get_empty"],
        }


_CHURN_OF: Final = {
    "channel_opened": "channel_created",
    "channel_closed": "channel_closed",
    "queue_declared": "queue_created",
    "queue_deleted": "queue_deleted",
}


class Series:
    """The samples of one thing, newest last."""

    def __init__(self, length: int) -> None:
        self._samples: deque[tuple[int, Counts]] = deque(maxlen=length)

    def add(self, at_ms: int, counts: Counts) -> None:
        """Take one more sample."""
        self._samples.append((at_ms, counts))

    @property
    def is_still(self) -> bool:
        """Whether nothing has changed for as long as samples are kept."""
        samples = self._samples
        return len(samples) == samples.maxlen and samples[0][1] == samples[-1][1]

    def rate(self, name: str) -> float:
        """The growth a second between the last two samples."""
        if len(self._samples) < 2:  # noqa: PLR2004 - growth is between two
            return 0.0
        (before_ms, before), (at_ms, now) = self._samples[-2], self._samples[-1]
        if at_ms <= before_ms:
            return 0.0
        return (now.get(name, 0) - before.get(name, 0)) * 1000 / (at_ms - before_ms)

    def history(self, name: str, last_ms: int, age_s: int, step_s: int) -> dict[str, Any]:
        """The samples of a count over a time, newest first, with averages."""
        steps = min(age_s // step_s, MAX_RANGE)
        samples = list(self._samples)
        found: list[dict[str, int]] = []
        index = len(samples) - 1
        for step in range(steps + 1):
            at_ms = last_ms - step * step_s * 1000
            while index > 0 and samples[index][0] > at_ms:
                index -= 1
            is_known = bool(samples) and samples[index][0] <= at_ms
            value = samples[index][1].get(name, 0) if is_known else 0
            found.append({"sample": value, "timestamp": at_ms})
        values = [each["sample"] for each in found]
        growth = (values[0] - values[-1]) / (steps * step_s) if steps else 0.0
        return {
            "samples": found,
            "avg_rate": growth,
            "avg": sum(values) / len(values),
        }


class Range:
    """Which histories a request asks for: `msg_rates_age=60&msg_rates_incr=5`."""

    def __init__(self, query: Mapping[str, str], prefix: str) -> None:
        self.age_s = _seconds(query.get(f"{prefix}_age"))
        self.step_s = _seconds(query.get(f"{prefix}_incr"))

    @property
    def is_asked(self) -> bool:
        """Whether a history is wanted."""
        return self.age_s > 0 and self.step_s > 0


def _seconds(text: str | None) -> int:
    if not text or not text.isascii() or not text.isdecimal():
        return 0
    return int(text[:9])


_NEVER: Final = Series(1)
"""The samples of what never happened."""


def details(series: Series | None, name: str, last_ms: int, wanted: Range) -> dict[str, Any]:
    """The rate of a count, and its history if it is wanted."""
    if series is None:
        series = _NEVER
    found: dict[str, Any] = {"rate": series.rate(name)}
    if wanted.is_asked:
        found |= series.history(name, last_ms, wanted.age_s, wanted.step_s)
    return found


def with_rates(
    counts: Counts, names: Iterable[str], series: Series | None, last_ms: int, wanted: Range
) -> dict[str, Any]:
    """Counts, each with its rate."""
    found: dict[str, Any] = {}
    for name in names:
        found[name] = counts.get(name, 0)
        found[f"{name}_details"] = details(series, name, last_ms, wanted)
    return found


class Counting:
    """All counts of a front, and their samples.

    Attributes:
        last_ms: the instant of the newest sample, a multiple of five seconds.
        all: the samples of all vhosts together.
    """

    def __init__(self) -> None:
        self.last_ms = 0
        self.all = Series(_OF_VHOST)
        self.churn = Series(_OF_VHOST)
        self._vhosts: dict[str, VhostCounts] = {}
        self._of_vhosts: dict[str, Series] = {}
        self._of_queues: dict[tuple[str, str], Series] = {}
        self._of_exchanges: dict[tuple[str, str], Series] = {}
        self._of_clients: dict[tuple[str, str], Series] = {}

    def watch(self, vhost: OpenVhost) -> None:
        """Count what happens in a vhost from now on."""
        self._forget(vhost.name)
        ended = partial(self._ended, vhost.name)
        counts = self._vhosts[vhost.name] = VhostCounts(vhost, ended)
        vhost.watchers.append(counts.watch)

    def _ended(self, vhost: str, what: str, name: str) -> None:
        """Forget the samples of what ended: what is declared with its name is something else."""
        series = self._of_queues if what == "queue_deleted" else self._of_exchanges
        series.pop((vhost, name), None)

    def keep(self, vhosts: Collection[str]) -> None:
        """Forget all other vhosts, which are gone."""
        for name in self._vhosts.keys() - set(vhosts):
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._vhosts.pop(name, None)
        self._of_vhosts.pop(name, None)
        for series in (self._of_queues, self._of_exchanges):
            for key in [key for key in series if key[0] == name]:
                del series[key]

    def watches(self, vhost: OpenVhost) -> bool:
        """Whether a vhost is counted: it is not deleted meanwhile, nor replaced."""
        counts = self._vhosts.get(vhost.name)
        return counts is not None and counts.vhost is vhost

    def queue(self, vhost: str, queue: str) -> tuple[dict[str, int], Series | None]:
        """The counts of a queue now, and its samples."""
        return self._vhosts[vhost].of_queue(queue), self._of_queues.get((vhost, queue))

    def vhost(self, name: str) -> tuple[dict[str, int], Series | None]:
        """The counts of a vhost now, and its samples."""
        return self._vhosts[name].of_all(), self._of_vhosts.get(name)

    def exchange(self, vhost: str, exchange: str) -> tuple[dict[str, int], Series | None]:
        """The counts of an exchange now, and its samples."""
        counts = self._vhosts[vhost].of_exchange(exchange)
        return counts, self._of_exchanges.get((vhost, exchange))

    def channel(self, vhost: str, channel: str) -> tuple[dict[str, int], Series | None]:
        """The counts of a channel now, and its samples."""
        counts = self._vhosts[vhost].of_channel(channel)
        return counts, self._of_clients.get((vhost, channel))

    def connection(self, connection: Connection) -> tuple[dict[str, int], Series | None]:
        """The bytes of a connection now, and their samples."""
        return bytes_of(connection), self._of_clients.get(("", connection.name))

    def sample_clients(self, at_ms: int, connections: Iterable[Connection]) -> Iterator[None]:
        """Take a sample of connections and channels; see `sample`."""
        before, self._of_clients = self._of_clients, {}
        for connection in connections:
            if connection.vhost is None or connection.vhost.name not in self._vhosts:
                continue
            key = "", connection.name
            self._add(before, key, at_ms, bytes_of(connection))
            vhost = connection.vhost.name
            for channel in list(connection.channels.values()):
                counts = self._vhosts[vhost].of_channel(channel.name)
                self._add(before, (vhost, channel.name), at_ms, counts)
            yield

    def _add(
        self, before: dict[tuple[str, str], Series], key: tuple[str, str], at_ms: int, now: Counts
    ) -> None:
        series = self._of_clients[key] = before.get(key) or Series(_OF_QUEUE)
        series.add(at_ms, now)

    def everything(self, vhosts: Iterable[str]) -> dict[str, int]:
        """The counts of some vhosts together."""
        found: Counter[str] = Counter()
        for name in vhosts:
            found.update(self._vhosts[name].of_all())
        return found

    def entered(self, name: str) -> int:
        """How many copies have entered queues of a vhost, dead letters included."""
        return self._vhosts[name].kinds[_ENQUEUED]

    def churned(self, name: str | None = None) -> dict[str, int]:
        """How many connections, channels and queues came and went, in one vhost or in all."""
        found: Counter[str] = Counter()
        for counts in self._vhosts.values() if name is None else (self._vhosts[name],):
            found.update(counts.churn)
        found["queue_declared"] = found["queue_created"]
        return {name: found[name] for name in CHURN}

    def sample(self, at_ms: int, vhosts: Collection[str]) -> Iterator[None]:
        """Take a sample of everything; it pauses often, so that others are served meanwhile.

        Args:
            vhosts: the names of all; others are gone.
        """
        total: Counter[str] = Counter()
        self.keep(vhosts)
        for name, counts in list(self._vhosts.items()):
            of_vhost = dict(counts.of_all())
            for lengths in self._sample_queues(name, counts, at_ms):
                of_vhost |= lengths
                yield
            total.update(of_vhost)
            self._of_vhosts.setdefault(name, Series(_OF_VHOST)).add(at_ms, of_vhost)
            self._sample_exchanges(name, counts, at_ms)
        self.all.add(at_ms, total)
        self.churn.add(at_ms, self.churned())
        self.last_ms = at_ms

    def _sample_exchanges(self, vhost: str, counts: VhostCounts, at_ms: int) -> None:
        """Take a sample of the exchanges to which anything was published."""
        known = counts.vhost.shard.vhost.router.exchanges
        published = counts.vhost.published_to
        for name in published:
            series = self._of_exchanges.setdefault((vhost, name), Series(_OF_QUEUE))
            series.add(at_ms, counts.of_exchange(name))
        for name in counts.from_exchanges.keys() - known.keys():  # named by letters alone
            del counts.from_exchanges[name]

    def _sample_queues(
        self, vhost: str, counts: VhostCounts, at_ms: int
    ) -> Iterator[dict[str, int]]:
        """Take a sample of the queues in which anything happened; yield the lengths of all."""
        shard = counts.vhost.shard
        touched, counts.touched = counts.touched, set()
        ready = unacked = held = 0
        for done, name in enumerate(list(shard.vhost.queues)):
            if name not in shard.vhost.queues:
                continue
            queue = shard.state.queues.named(name)
            ready += queue.ready
            unacked += queue.unacked
            held += queue.held.count
            key = vhost, name
            series = self._of_queues.get(key)
            if name in touched or series is not None:
                if series is None:
                    series = self._of_queues[key] = Series(_OF_QUEUE)
                now = {**counts.of_queue(name), **lengths_of_queue(queue)}
                series.add(at_ms, now)
                if series.is_still:
                    del self._of_queues[key]
            if not done % _AT_ONCE:
                yield lengths_of(ready, unacked, held)
        for key in list(self._of_queues):
            if key[0] == vhost and key[1] not in shard.vhost.queues:
                del self._of_queues[key]
        yield lengths_of(ready, unacked, held)


def lengths_of_queue(queue: Queue) -> dict[str, int]:
    """The lengths of a queue, by RabbitMQ's names."""
    return lengths_of(queue.ready, queue.unacked, queue.held.count)


def lengths_of(ready: int, unacked: int, held: int) -> dict[str, int]:
    """The lengths of one queue or of many, by RabbitMQ's names.

    Args:
        held: by at-least-once dead-lettering: they count as messages, and are in no other place.
    """
    return {
        "messages": ready + unacked + held,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
    }


def bytes_of(connection: Connection) -> dict[str, int]:
    """What went over a connection, by RabbitMQ's names."""
    return {"recv_oct": connection.bytes_received, "send_oct": connection.output.taken_bytes}
