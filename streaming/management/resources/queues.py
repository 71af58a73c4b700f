"""Queues: lists of many, and everything about one."""

import asyncio
from typing import Any, Final

from starlette.responses import Response

from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.management.answers import created, done, json_bytes, long_encoded
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

_MANY: Final = 1_000
_AT_ONCE: Final = 50
"""Queues that are written before others are served."""

_BASICS: Final = frozenset(
    {"arguments", "auto_delete", "durable", "exclusive", "name", "node", "state", "type", "vhost"}
)
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
    listing = Listing(asked.query)
    vhosts = {vhost.name: vhost for vhost in asked.one_or_all()}
    total = sum(len(vhost.shard.vhost.queues) for vhost in vhosts.values())
    if listing.page is not None or total < _MANY:
        return await _made(asked, listing, vhosts, detailed=detailed)
    seen = tuple((id(vhost), vhost.shard.vhost.version) for vhost in vhosts.values())

    async def make() -> bytes:
        return await long_encoded(await _made(asked, listing, vhosts, detailed=detailed))

    key = seen, tuple(sorted(asked.query.items())), detailed
    return json_bytes(await asked.api.queues.get(key, make))


async def _made(
    asked: Asked, listing: Listing, vhosts: dict[str, OpenVhost], *, detailed: bool
) -> Any:
    """Order and cut before queues are written in full, if the order allows it."""
    items: list[Item] = [
        {"vhost": name, "name": queue}
        for name, vhost in vhosts.items()
        for queue in sorted(vhost.shard.vhost.queues)
    ]
    total = len(items)
    if not listing.sorts_by_only({"vhost", "name"}):
        items = _basics(vhosts, items)
    columns = listing.columns
    if asked.query.get("disable_stats") == "true":
        totals = asked.query.get("enable_queue_totals") == "true"
        items = [
            _without_statistics(vhosts[item["vhost"]], item, totals=totals)
            for item in _basics(vhosts, items)
        ]
        ordered = listing.ordered(items)
        return listing.wrapped(listing.shown(listing.cut(ordered)), len(ordered), total)
    if listing.sorts_by_only(_BASICS):
        ordered = items if listing.is_plain else listing.ordered(items)
        chosen = listing.cut(ordered)
        if columns is not None and _BASICS.issuperset(columns):
            chosen = _basics(vhosts, chosen)
        else:
            chosen = await _in_full(asked, vhosts, chosen, detailed=detailed)
    else:
        ordered = listing.ordered(await _in_full(asked, vhosts, items, detailed=detailed))
        chosen = listing.cut(ordered)
    return listing.wrapped(listing.shown(chosen), len(ordered), total)


def _basics(vhosts: dict[str, OpenVhost], items: list[Item]) -> list[Item]:
    """Queues as they are declared."""
    return [
        queue_basics(item["vhost"], vhosts[item["vhost"]].shard.vhost.queues[item["name"]])
        for item in items
    ]


def _without_statistics(vhost: OpenVhost, item: Item, *, totals: bool) -> Item:
    """A queue as it is declared, with its length if `totals`."""
    queue = vhost.shard.state.queues.named(item["name"])
    found = {**item, "policy": queue.settings.policy}
    if queue.quorum:
        found |= {"leader": NODE, "members": [NODE], "online": [NODE]}
    elif totals:
        found["online"] = None
    return found | lengths_of(queue.ready, queue.unacked) if totals else found


async def _in_full(
    asked: Asked, vhosts: dict[str, OpenVhost], items: list[Item], *, detailed: bool
) -> list[Item]:
    """Queues with their messages and rates; those that are gone meanwhile are left out."""
    found = []
    wanted = Range(asked.query, "msg_rates"), Range(asked.query, "lengths")
    for done_so_far, item in enumerate(items):
        vhost, name = vhosts[item["vhost"]], item["name"]
        if name in vhost.shard.vhost.queues:
            full = _full(asked, vhost, name, wanted)
            if not detailed:
                for member in _ONLY_DETAILED:
                    full.pop(member, None)
                for member in ("policy", "operator_policy"):
                    if full[member] is None:
                        del full[member]
            found.append(full)
        if not done_so_far % _AT_ONCE:
            await asyncio.sleep(0)
    return found


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
