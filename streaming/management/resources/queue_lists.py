"""Lists of queues, of which there may be very many.

What orders them is made of each, and the rest of those that are shown. A list of very many is made
once a second at most, for everyone who asks for the same.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from streaming.amqp.vhosts import OpenVhost
from streaming.broker.queues.queue import Queue
from streaming.management.answers import LongAnswer, Pieces, encoded
from streaming.management.counting import DELIVER_STATS, Range, lengths_of_queue, with_rates
from streaming.management.formats import GARBAGE, NODE, head_item, queue_basics, queue_item
from streaming.management.listing import Item, Listing, has_no_statistics
from streaming.management.pacing import Pace
from streaming.management.resources.cluster import LENGTHS
from streaming.management.routing import Asked
from streaming.management.sharing import QueuePlace

_BASICS: Final = frozenset(
    {"arguments", "auto_delete", "durable", "exclusive", "name", "node", "state", "type", "vhost"}
)
_SHORT: Final[dict[str, Callable[[Queue], int]]] = {
    "messages": lambda queue: queue.ready + queue.unacked + queue.held.count,
    "messages_ready": lambda queue: queue.ready,
    "messages_unacknowledged": lambda queue: queue.unacked,
    "consumers": lambda queue: len(queue.line.consumers),
}
"""Members that cost little."""

_ONLY_DETAILED: Final = ("exclusive_consumer_tag", "idle_since")
_IF_ANY: Final = ("operator_policy", "policy", "single_active_consumer_tag")
"""What the plain list of RabbitMQ 4.0 leaves out, always and if there is none."""


async def all_queues(asked: Asked) -> Any:
    """The queues of the vhost in the path, or of all that the user sees."""
    return await _list(asked, detailed=False)


async def all_queues_detailed(asked: Asked) -> Any:
    """The same with everything that is known of each."""
    return await _list(asked, detailed=True)


async def _list(asked: Asked, *, detailed: bool) -> LongAnswer:
    wanted = _Wanted(asked, detailed=detailed)
    vhosts = wanted.vhosts.values()
    key = "detailed" if detailed else "queues", tuple(sorted(asked.query.items()))
    return LongAnswer(await asked.api.shared.get(vhosts, key, wanted.document))


class _Wanted:
    """A list of queues.

    It makes few objects that last, since a collection of garbage looks at all that do.
    """

    def __init__(self, asked: Asked, *, detailed: bool) -> None:
        self.vhosts = {vhost.name: vhost for vhost in asked.one_or_all()}
        self.listing = Listing(asked.query)
        self._asked = asked
        self._detailed = detailed
        self._pace = Pace()
        self._ranges = Range(asked.query, "msg_rates"), Range(asked.query, "lengths")
        by_name = len(self.vhosts) == 1 and self.listing.sorts_by_only({"vhost", "name"})
        self._is_usual = by_name or self.listing.sorts == ["vhost", "name"]
        self._has_stats = not has_no_statistics(asked.query)
        self._has_totals = asked.query.get("enable_queue_totals") == "true"
        is_plain = not detailed and self._has_stats and self.listing.columns is None
        self._is_plain = is_plain and not any(one.is_asked for one in self._ranges)

    async def document(self) -> Pieces:
        """The list, or a page of it."""
        places: list[QueuePlace] = []
        for vhost in self.vhosts.values():
            places += await self._asked.api.names.of(vhost, self._pace)
        total = len(places)
        page = self.listing.page
        if page is not None and page.wants is not None:
            wants = page.wants
            places = [one async for one in self._pace.each(places) if wants(one[1])]
        chosen = self.listing.cut(await self._in_order(places))
        return await self.listing.document(self._shown(chosen), len(places), total)

    async def _in_order(self, places: list[QueuePlace]) -> list[QueuePlace]:
        """Queues that are in the usual order as they are asked for."""
        listing = self.listing
        if self._is_usual:
            return places[::-1] if listing.reverse else places
        keys = []
        async for number, place in self._pace.each(enumerate(places)):
            queue = self._queue(place)
            if queue is not None:
                keys.append((self._key(place, queue), number))
        order = await self._pace.in_order(keys, reverse=listing.reverse, most=listing.end)
        return [places[number] for _, number in order]

    def _key(self, place: QueuePlace, queue: Queue) -> Any:
        """What orders a queue, before the usual order does."""
        member = self.listing.sorts[0]
        short = _SHORT.get(member)
        if short is not None and self._has_stats:
            return short(queue)
        is_basic = not self._has_stats or member in _BASICS
        return self.listing.place(self._described(place, queue) if is_basic else self._full(place))

    async def _shown(self, places: Sequence[QueuePlace]) -> AsyncIterator[Any]:
        """The queues that are not gone meanwhile."""
        columns = self.listing.columns
        is_described = columns is not None and _BASICS.issuperset(columns)
        async for place in self._pace.each(places):
            queue = self._queue(place)
            if queue is not None and self._is_plain:
                yield self._written(place, queue)
            elif queue is not None:
                is_full = self._has_stats and not is_described
                item = self._full(place) if is_full else self._described(place, queue)
                yield self.listing.shown(self.listing.bounded(item))

    def _written(self, place: QueuePlace, queue: Queue) -> bytes:
        """A queue in JSON, which is kept while nothing happens in it."""
        vhost, name = place
        counts, series = self._asked.api.counting.queue(vhost, name)
        settings = queue.settings
        has_policy = settings.policy is not None or settings.operator_policy is not None
        if series is not None or queue.line.consumers or has_policy:
            return encoded(self._full(place))
        state = (queue.declaration, settings, *_contents(queue), *counts.values())
        kept = self._asked.api.written.of(self.vhosts[vhost])
        known = kept.get(name)
        if known is None or known[0] != state:
            known = kept[name] = state, encoded(self._full(place))
        return known[1]

    def _queue(self, place: QueuePlace) -> Queue | None:
        """A queue; None if it is gone meanwhile."""
        vhost = self.vhosts[place[0]]
        if not self._asked.api.counting.watches(vhost):
            return None
        shard = vhost.shard
        return shard.state.queues.named(place[1]) if place[1] in shard.vhost.queues else None

    def _described(self, place: QueuePlace, queue: Queue) -> Item:
        """A queue as it is declared, with its length if totals are wanted."""
        item = queue_basics(place[0], queue.declaration)
        return (
            item if self._has_stats else _without_statistics(queue, item, totals=self._has_totals)
        )

    def _full(self, place: QueuePlace) -> Item:
        """A queue with its messages and rates."""
        full = full_item(self._asked, self.vhosts[place[0]], place[1], self._ranges)
        if self._detailed:
            vhost = self.vhosts[place[0]]
            full |= head_item(vhost, vhost.shard.state.queues.named(place[1]))
            full["garbage_collection"] = GARBAGE
        else:
            for member in _ONLY_DETAILED:
                full.pop(member, None)
            for member in _IF_ANY:
                if full[member] is None:
                    del full[member]
        return full


def _contents(queue: Queue) -> tuple[int, ...]:
    """What is in a queue, as far as it is shown of one without consumers."""
    return (
        queue.ready,
        queue.unacked,
        queue.ready_bytes,
        queue.unacked_bytes,
        queue.held.count,
        queue.held.bytes,
    )


def _without_statistics(queue: Queue, item: Item, *, totals: bool) -> Item:
    """A queue as it is declared, with its length if `totals`."""
    policy = queue.settings.policy
    found = item if policy is None else {**item, "policy": policy}
    if queue.quorum:
        found |= {"leader": NODE, "members": [NODE], "online": [NODE]}
    elif totals:
        found["online"] = None
    return found | lengths_of_queue(queue) if totals else found


def full_item(asked: Asked, vhost: OpenVhost, name: str, wanted: tuple[Range, Range]) -> Item:
    """A queue with its messages and rates."""
    queue = vhost.shard.state.queues.named(name)
    counting = asked.api.counting
    item = queue_item(vhost, queue)
    counts, series = counting.queue(vhost.name, name)
    rates, lengths = wanted
    now = lengths_of_queue(queue)
    item |= with_rates(now, LENGTHS, series, counting.last_ms, lengths)
    if any(counts.values()):
        was_used = any(counts[name] for name in DELIVER_STATS)
        names = ["publish"] * bool(counts["publish"]) + list(DELIVER_STATS) * was_used
        item["message_stats"] = with_rates(counts, names, series, counting.last_ms, rates)
    return item
