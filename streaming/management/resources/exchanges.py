"""Exchanges."""

from typing import Any, Final

from starlette.responses import Response

from streaming.amqp.declaring import on_one_line
from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.management.answers import created, done
from streaming.management.bodies import MAX_BODY_BYTES
from streaming.management.counting import Range, with_rates
from streaming.management.errors import bad_request, missing, not_authorised, term
from streaming.management.formats import exchange_item
from streaming.management.listing import Item, Listing, has_no_statistics
from streaming.management.resources.bindings import exchange_destination, exchange_source
from streaming.management.resources.doing import do, refused
from streaming.management.resources.messages import publish
from streaming.management.routing import BAD_REQUEST, NO_RANGE, Asked, Resource, anyone, of_vhost
from topology.declarations import Exchange
from topology.refusals import unknown_exchange_type
from topology.routing.exchanges import EXCHANGE_TYPES


async def all_exchanges(asked: Asked) -> Any:
    """The exchanges of the vhost in the path, or of all that the user sees."""
    items = (
        _with_traffic(asked, vhost, exchange)
        for vhost in asked.one_or_all()
        for exchange in list(vhost.shard.vhost.router.exchanges.values())
        if asked.api.counting.watches(vhost)
    )
    return await Listing(asked.query).reply(items)


def _with_traffic(asked: Asked, vhost: OpenVhost, exchange: Exchange) -> Item:
    item = exchange_item(vhost, exchange)
    counting = asked.api.counting
    counts, series = counting.exchange(vhost.name, exchange.name)
    names = [name for name, count in counts.items() if count]
    if names and not has_no_statistics(asked.query):
        rates = Range(asked.query, "msg_rates")
        item["message_stats"] = with_rates(counts, names, series, counting.last_ms, rates)
    return item


async def one_exchange(asked: Asked) -> Any:
    """An exchange."""
    item = _with_traffic(asked, asked.vhost, _exchange(asked)) | {"incoming": [], "outgoing": []}
    return dict(sorted(item.items()))


def _exchange(asked: Asked) -> Exchange:
    found = asked.vhost.shard.vhost.router.exchanges.get(asked.name_of("exchange"))
    if found is None:
        raise missing()
    return found


async def put_exchange(asked: Asked) -> Response:
    """Declare an exchange."""
    vhost, members, name = asked.vhost, asked.members(), on_one_line(asked.name_of("exchange"))
    kind = members.document.get("type", "direct")
    if not isinstance(kind, str) or not kind:
        shown = term(kind) if kind is None or isinstance(kind, bool) else kind
        raise bad_request(f"invalid exchange type '{shown}'")
    exchange = Exchange(
        name,
        kind,
        members.flag("durable"),
        members.flag("auto_delete"),
        members.flag("internal"),
        members.table("arguments"),
    )
    new = name not in vhost.shard.vhost.router.exchanges
    if not name:
        if kind not in EXCHANGE_TYPES:
            raise refused(unknown_exchange_type(kind, vhost.config.compat))
        raise not_authorised("Access refused.")
    await do(asked, vhost, commands.DeclareExchange(exchange=exchange))
    return created(new=new)


async def delete_exchange(asked: Asked) -> Response:
    """Delete an exchange."""
    exchange = _exchange(asked)
    command = commands.DeleteExchange(
        exchange=exchange.name, if_unused=asked.query.get("if-unused") == "true"
    )
    await do(asked, asked.vhost, command)
    return done()


RESOURCES: Final = [
    Resource("exchanges", anyone, {"GET": all_exchanges}, no_range=NO_RANGE),
    Resource("exchanges/{vhost}", of_vhost, {"GET": all_exchanges}, no_range=NO_RANGE),
    Resource(
        "exchanges/{vhost}/{exchange}",
        of_vhost,
        {"GET": one_exchange, "PUT": put_exchange, "DELETE": delete_exchange},
        no_range=BAD_REQUEST,
    ),
    Resource(
        "exchanges/{vhost}/{exchange}/publish",
        of_vhost,
        {"POST": publish},
        most_bytes=MAX_BODY_BYTES,
    ),
    Resource("exchanges/{vhost}/{exchange}/bindings/source", of_vhost, {"GET": exchange_source}),
    Resource(
        "exchanges/{vhost}/{exchange}/bindings/destination",
        of_vhost,
        {"GET": exchange_destination},
    ),
]
