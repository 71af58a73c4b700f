"""Queues: lists of many, and everything about one."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

from starlette.responses import Response

from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.broker.queues.queue import Queue as BrokerQueue
from streaming.management.answers import created, done, encoded, json_bytes
from streaming.management.counting import QUEUE_STATS, Range, lengths_of, with_rates
from streaming.management.errors import bad_request, missing, not_authorised
from streaming.management.formats import NODE, queue_basics, queue_details, queue_item
from streaming.management.listing import Item, Listing, columns_of, only
from streaming.management.resources.bindings import queue_bindings
from streaming.management.resources.cluster import LENGTHS
from streaming.management.resources.doing import do
from streaming.management.resources.messages import get
from streaming.management.routing import Asked, Resource, anyone, of_vhost
from topology.declarations import RESERVED_PREFIX, Queue

Place = tuple[str, str]
"""A vhost, and the name of a queue in it."""

_MANY: Final = 1_000
_AT_ONCE: Final = 20
"""Queues that are written before others are served."""

_BASICS: Final = frozenset(
    {"arguments", "auto_delete", "durable", "exclusive", "name", "node", "state", "type", "vhost"}
)
_SHORT: Final = frozenset(
    {"vhost", "name", "messages", "messages_ready", "messages_unacknowledged", "consumers"}
)
"""Members that cost little."""

_ONLY_DETAILED: Final = (
    "exclusive_consumer_tag",
    "garbage_collection",
    "head_message_timestamp",
    "idle_since",
    "single_active_consumer_tag",
)
"""What the plain list of RabbitMQ 4.0 leaves out."""


async def all_queues(asked: Asked) -> Any:
    """The queues of the vhost in the path, or of all that the user sees."""
    return await _list(asked, detailed=False)


async def all_queues_detailed(asked: Asked) -> Any:
    """The same with everything that is known of each."""
    return await _list(asked, detailed=True)


async def _list(asked: Asked, *, detailed: bool) -> Any:
    """The queues that are asked for; a very long list is shared with who else asks for it."""
    wanted = _Wanted(asked, detailed=detailed)
    if wanted.listing.page is not None or wanted.total < _MANY:
        return await wanted.answer()
    vhosts = wanted.vhosts.values()
    seen = tuple((id(vhost), vhost.shard.vhost.version) for vhost in vhosts)
    key = seen, tuple(sorted(asked.query.items())), detailed
    return json_bytes(await asked.api.queues.get(key, wanted.document))


class _Wanted:
    """A list of queues: what orders them is made of each, and the rest of those that are shown.

    Others are served while it is made. It makes few objects that last, since a collection of
    garbage looks at all that do.
    """

    def __init__(self, asked: Asked, *, detailed: bool) -> None:
        self.listing = Listing(asked.query)
        self.vhosts = {vhost.name: vhost for vhost in asked.one_or_all()}
        self.total = sum(len(vhost.shard.vhost.queues) for vhost in self.vhosts.values())
        self._asked = asked
        self._detailed = detailed
        self._ranges = Range(asked.query, "msg_rates"), Range(asked.query, "lengths")
        by_name = len(self.vhosts) == 1 and self.listing.sorts_by_only({"vhost", "name"})
        self._is_usual = by_name or self.listing.sorts == ["vhost", "name"]
        self._has_stats = asked.query.get("disable_stats") != "true"
        self._has_totals = asked.query.get("enable_queue_totals") == "true"

    async def answer(self) -> Any:
        """The list, or a page of it."""
        listing = self.listing
        if self._is_usual and (listing.page is None or listing.page.wants is None):
            count = self.total
            chosen = [self._place(number) for number in listing.cut(range(count))]
        else:
            places = await self._places()
            count, chosen = len(places), list(listing.cut(places))
        shown: list[Any] = []
        for part in self._parts(chosen):
            shown += self._shown(part)
            await asyncio.sleep(0)
        return listing.wrapped(shown, count, self.total)

    def _place(self, number: int) -> Place:
        """The queue of that number in the usual order, or in its reverse."""
        if self.listing.reverse:
            number = self.total - 1 - number
        for name, vhost in self.vhosts.items():
            names = self._asked.api.names.of(vhost)
            if number < len(names):
                return name, names[number]
            number -= len(names)
        raise missing()

    async def document(self) -> bytes:
        """The whole list in JSON."""
        pieces = [b"["]
        for part in self._parts(await self._places()):
            piece = encoded(self._shown(part))[1:-1]
            if piece:
                pieces += [b",", piece] if len(pieces) > 1 else [piece]
            await asyncio.sleep(0)
        return b"".join([*pieces, b"]"])

    @staticmethod
    def _parts(places: Sequence[Place]) -> Iterator[Sequence[Place]]:
        return (places[start : start + _AT_ONCE] for start in range(0, len(places), _AT_ONCE))

    async def _places(self) -> list[Place]:
        """The queues that the filter wants, in order."""
        listing = self.listing
        found: list[Place] = []
        for name, vhost in self.vhosts.items():
            names = self._asked.api.names.of(vhost)
            if listing.page is None or listing.page.wants is None:
                found += [(name, queue) for queue in names]
                continue
            for start in range(0, len(names), _AT_ONCE):
                some = names[start : start + _AT_ONCE]
                found += [(name, queue) for queue in some if listing.wants(queue)]
                await asyncio.sleep(0)
        if self._is_usual:
            return found[::-1] if listing.reverse else found
        keys = []
        for part in self._parts(found):
            keys += self._keys(part)
            await asyncio.sleep(0)
        return [(one["vhost"], one["name"]) for one in await listing.arranged(keys)]

    def _keys(self, places: Sequence[Place]) -> list[Item]:
        """What the order needs of queues."""
        if not self._has_stats or self.listing.sorts_by_only(_BASICS):
            return [item for item in map(self._described, places) if item]
        if not self.listing.sorts_by_only(_SHORT):
            return [item for item in map(self._full, places) if item]
        found = []
        for name, queue_name in places:
            queue = self._queue(name, queue_name)
            if queue is not None:
                lengths = lengths_of(queue.ready, queue.unacked)
                consumers = {"consumers": len(queue.consumers)}
                found.append({"vhost": name, "name": queue_name, **lengths, **consumers})
        return found

    def _shown(self, places: Sequence[Place]) -> list[Any]:
        columns = self.listing.columns
        is_described = columns is not None and _BASICS.issuperset(columns)
        make = self._full if self._has_stats and not is_described else self._described
        items = [make(place) for place in places]
        return self.listing.shown([item for item in items if item])

    def _queue(self, vhost: str, name: str) -> BrokerQueue | None:
        """A queue; None if it is gone meanwhile."""
        shard = self.vhosts[vhost].shard
        return shard.state.queues.named(name) if name in shard.vhost.queues else None

    def _described(self, place: Place) -> Item:
        """A queue as it is declared, with its length if totals are wanted; empty if it is gone."""
        queue = self._queue(*place)
        if queue is None:
            return {}
        item = queue_basics(place[0], queue.declaration)
        return (
            item if self._has_stats else _without_statistics(queue, item, totals=self._has_totals)
        )

    def _full(self, place: Place) -> Item:
        """A queue with its messages and rates; empty if it is gone."""
        vhost, name = place
        if self._queue(vhost, name) is None:
            return {}
        full = _full(self._asked, self.vhosts[vhost], name, self._ranges)
        if not self._detailed:
            for member in _ONLY_DETAILED:
                full.pop(member, None)
            for member in ("policy", "operator_policy"):
                if full[member] is None:
                    del full[member]
        return full


def _without_statistics(queue: BrokerQueue, item: Item, *, totals: bool) -> Item:
    """A queue as it is declared, with its length if `totals`."""
    found = {**item, "policy": queue.settings.policy}
    if queue.quorum:
        found |= {"leader": NODE, "members": [NODE], "online": [NODE]}
    elif totals:
        found["online"] = None
    return found | lengths_of(queue.ready, queue.unacked) if totals else found


def _full(asked: Asked, vhost: OpenVhost, name: str, wanted: tuple[Range, Range]) -> Item:
    queue = vhost.shard.state.queues.named(name)
    counting = asked.api.counting
    item = queue_item(vhost, queue)
    counts, series = counting.queue(vhost.name, name)
    rates, lengths = wanted
    now = lengths_of(queue.ready, queue.unacked)
    item |= with_rates(now, LENGTHS, series, counting.last_ms, lengths)
    if any(counts.values()):
        names = QUEUE_STATS if counts["deliver_get"] or counts["ack"] else ("publish",)
        item["message_stats"] = with_rates(counts, names, series, counting.last_ms, rates)
    return item


def _declared(asked: Asked) -> Queue:
    found = asked.vhost.shard.vhost.queues.get(asked.names["queue"])
    if found is None:
        raise missing()
    return found


async def one_queue(asked: Asked) -> Any:
    """A queue."""
    declaration = _declared(asked)
    vhost = asked.vhost
    wanted = Range(asked.query, "msg_rates"), Range(asked.query, "lengths")
    item = _full(asked, vhost, declaration.name, wanted)
    item |= queue_details(vhost, vhost.shard.state.queues.named(declaration.name))
    owner = _owner(vhost, declaration)
    if owner is not None:
        item["owner_pid_details"] = owner
    columns = columns_of(asked.query)
    return item if columns is None else only(item, columns)


def _owner(vhost: OpenVhost, declaration: Queue) -> Item | None:
    """The connection that an exclusive queue belongs to."""
    if not declaration.exclusive:
        return None
    owners = vhost.shard.state.channels.owners
    number = vhost.shard.vhost.queue_numbers[declaration.name]
    for connection in owners.connections():
        if number in owners.queues_of(connection.number):
            host, _, port = connection.name.partition(" -> ")[0].rpartition(":")
            return {
                "name": connection.name,
                "peer_host": host,
                "peer_port": int(port) if port.isdecimal() else 0,
            }
    return None


async def put_queue(asked: Asked) -> Response:
    """Declare a queue, of the vhost's default type unless it names one."""
    members, vhost, name = asked.members(), asked.vhost, asked.names["queue"]
    default = asked.front.info(vhost.name).default_queue_type
    queue = Queue(
        name,
        durable=members.flag("durable"),
        auto_delete=members.flag("auto_delete"),
        arguments=members.table("arguments"),
    ).of_default_type(default)
    new = name not in vhost.shard.vhost.queues
    if not name or (new and name.startswith(RESERVED_PREFIX)):
        raise not_authorised("Access refused.")
    await do(asked, vhost, commands.DeclareQueue(queue=queue))
    return created(new=new)


async def delete_queue(asked: Asked) -> Response:
    """Delete a queue with its messages."""
    command = commands.DeleteQueue(
        queue=_declared(asked).name,
        if_unused=asked.query.get("if-unused") == "true",
        if_empty=asked.query.get("if-empty") == "true",
    )
    await do(asked, asked.vhost, command)
    return done()


async def purge(asked: Asked) -> Response:
    """Remove the ready messages of a queue."""
    await do(asked, asked.vhost, commands.Purge(queue=_declared(asked).name))
    return done()


async def act(asked: Asked) -> Response:
    """Refuse an action: RabbitMQ 4.0 has none for these queues either."""
    _declared(asked)
    members = asked.members()
    members.need("action")
    raise bad_request(["unknown", members.get("action")])


RESOURCES: Final = [
    Resource("queues", anyone, {"GET": all_queues}),
    Resource("queues/detailed", anyone, {"GET": all_queues_detailed}),
    Resource("queues/{vhost}", of_vhost, {"GET": all_queues}),
    Resource(
        "queues/{vhost}/{queue}",
        of_vhost,
        {"GET": one_queue, "PUT": put_queue, "DELETE": delete_queue},
    ),
    Resource("queues/{vhost}/{queue}/contents", of_vhost, {"DELETE": purge}),
    Resource("queues/{vhost}/{queue}/get", of_vhost, {"POST": get}),
    Resource("queues/{vhost}/{queue}/actions", of_vhost, {"POST": act}),
    Resource("queues/{vhost}/{queue}/bindings", of_vhost, {"GET": queue_bindings}),
]
