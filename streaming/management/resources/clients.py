"""Connections, channels and consumers."""

import time
from collections.abc import Iterator
from typing import Any, Final

from starlette.responses import Response

from streaming.amqp.channel import Channel
from streaming.amqp.connection import Connection
from streaming.amqp.vhosts import OpenVhost
from streaming.management.access import ADMINISTRATORS, MONITORS
from streaming.management.answers import done
from streaming.management.counting import DELIVER_STATS, PUBLISH_STATS, Range, with_rates
from streaming.management.errors import missing, not_authorised
from streaming.management.formats import (
    channel_item,
    connection_item,
    consumer_item,
)
from streaming.management.listing import (
    Item,
    Listing,
    has_no_statistics,
    refuse_without_statistics,
)
from streaming.management.routing import (
    BAD_REQUEST,
    Asked,
    Resource,
    administrator_or_self,
    anyone,
    monitor_or_self,
    of_vhost,
)

_WITHOUT_STATISTICS: Final = ("name", "vhost", "user", "node")
"""What is said of a connection with `disable_stats`."""

_CLOSED: Final = "Closed via management plugin"
_TEXTS: Final = (
    "peer_cert_issuer",
    "peer_cert_subject",
    "peer_cert_validity",
    "ssl_cipher",
    "ssl_hash",
    "ssl_key_exchange",
    "ssl_protocol",
)


def _connections(asked: Asked) -> list[Connection]:
    """The open connections that the user may see, of the vhost in the path or of all."""
    vhosts = {vhost.name for vhost in asked.one_or_all(MONITORS)}
    return [
        one
        for one in list(asked.front.server.connections)
        if one.vhost is not None
        and one.vhost.name in vhosts
        and (asked.has(MONITORS) or one.user == asked.user.name)
    ]


def _item(asked: Asked, connection: Connection) -> Item:
    age_s = time.monotonic() - connection.connected_at_s
    item = connection_item(connection, asked.front.now_ms(), age_s)
    counting = asked.api.counting
    counts, series = counting.connection(connection)
    wanted = Range(asked.query, "data_rates")
    return item | with_rates(counts, counts, series, counting.last_ms, wanted)


async def all_connections(asked: Asked) -> Any:
    """The connections that the user may see."""
    in_vhost = "vhost" in asked.names
    items = (_item(asked, one) for one in _connections(asked))
    if not in_vhost and has_no_statistics(asked.query):
        items = ({name: item[name] for name in _WITHOUT_STATISTICS} for item in items)
    return await Listing(asked.query, has_pages=not in_vhost).reply(items)


def _connection(asked: Asked) -> Connection:
    """The connection in the path; 401 if it is that of somebody else."""
    for one in list(asked.front.server.connections):
        if one.vhost is not None and one.name == asked.names["connection"]:
            tags = ADMINISTRATORS if asked.method == "DELETE" else MONITORS
            if not asked.has(tags) and one.user != asked.user.name:
                raise not_authorised("User not authorised to access object")
            return one
    raise missing()


async def one_connection(asked: Asked) -> Any:
    """A connection."""
    item = _item(asked, _connection(asked))
    item |= {name: item[name] or "" for name in _TEXTS}
    return {"name": item["name"]} if has_no_statistics(asked.query) else item


async def close_connection(asked: Asked) -> Response:
    """Close a connection; the header X-Reason is what its client is told."""
    connection = _connection(asked)
    reason = asked.headers.get("x-reason") or _CLOSED
    await asked.front.close_connection(connection.name, reason)
    return done()


async def connections_of_user(asked: Asked) -> Any:
    """The names of a user's connections."""
    items = [
        {"name": one.name, "vhost": item["vhost"], "user": one.user, "node": item["node"]}
        for one in _connections(asked)
        if one.user == asked.names["user"]
        for item in [_item(asked, one)]
    ]
    return await Listing(asked.query).reply(items)


async def close_connections_of_user(asked: Asked) -> Response:
    """Close all connections of a user."""
    reason = asked.headers.get("x-reason") or _CLOSED
    for one in list(asked.front.server.connections):
        if one.user == asked.names["user"]:
            await asked.front.close_connection(one.name, reason)
    return done()


def _channel(asked: Asked, connection: Connection, channel: Channel) -> Item:
    item = channel_item(connection, channel)
    counting = asked.api.counting
    counts, series = counting.channel(item["vhost"], channel.name)
    names = [*(PUBLISH_STATS if counts["publish"] else ())]
    if counts["deliver_get"] or counts["ack"] or counts["get_empty"]:
        names += DELIVER_STATS
    if names:
        rates = Range(asked.query, "msg_rates")
        item["message_stats"] = with_rates(counts, names, series, counting.last_ms, rates)
    return item


def _channels(asked: Asked, connections: list[Connection]) -> Iterator[Item]:
    return (
        _channel(asked, connection, channel)
        for connection in connections
        for channel in list(connection.channels.values())
        if not channel.closing
        and connection.vhost is not None
        and asked.api.counting.watches(connection.vhost)
    )


async def all_channels(asked: Asked) -> Any:
    """The channels that the user may see."""
    refuse_without_statistics(asked.query)
    listing = Listing(asked.query, has_pages="vhost" not in asked.names)
    return await listing.reply(_channels(asked, _connections(asked)))


async def channels_of_connection(asked: Asked) -> Any:
    """The channels of a connection."""
    items = _channels(asked, [_connection(asked)])
    return await Listing(asked.query, has_pages=False).reply(items)


async def one_channel(asked: Asked) -> Any:
    """A channel, with its consumers."""
    refuse_without_statistics(asked.query)
    for item in _channels(asked, list(asked.front.server.connections)):
        if item["name"] == asked.names["channel"]:
            if not asked.has(MONITORS) and item["user"] != asked.user.name:
                raise not_authorised("User not authorised to access object")
            consumers = [
                one
                for one in _consumers(asked, [asked.front.server.vhosts[item["vhost"]]])
                if one["channel_details"]["name"] == item["name"]
            ]
            return item | {"consumer_details": consumers, "deliveries": [], "publishes": []}
    raise missing()


def _consumers(asked: Asked, vhosts: list[OpenVhost]) -> Iterator[Item]:
    sees_all = asked.has(MONITORS)
    for vhost in vhosts:
        state, queues = vhost.shard.state, vhost.shard.vhost.queues
        for name in list(queues):
            if name not in queues:
                continue
            queue = state.queues.named(name)
            for key in list(queue.line.consumers):
                if key not in queue.line.consumers:
                    continue
                item = consumer_item(vhost, queue, state.channels.consumer(key))
                if sees_all or item["channel_details"]["user"] == asked.user.name:
                    yield item


async def all_consumers(asked: Asked) -> Any:
    """The consumers that the user may see, of the vhost in the path or of all."""
    refuse_without_statistics(asked.query)
    items = _consumers(asked, asked.one_or_all(MONITORS))
    return await Listing(asked.query, ("consumer_tag",), has_pages=False).reply(items)


RESOURCES: Final = [
    Resource("connections", anyone, {"GET": all_connections}, no_range=BAD_REQUEST),
    Resource(
        "connections/{connection}",
        anyone,
        {"GET": one_connection, "DELETE": close_connection},
        has_columns=False,
        no_range=BAD_REQUEST,
    ),
    Resource(
        "connections/{connection}/channels",
        anyone,
        {"GET": channels_of_connection},
        no_range=BAD_REQUEST,
    ),
    Resource(
        "connections/username/{user}",
        monitor_or_self,
        {"GET": connections_of_user, "DELETE": close_connections_of_user},
        rules={"DELETE": administrator_or_self},
    ),
    Resource(
        "vhosts/{vhost}/connections", of_vhost, {"GET": all_connections}, no_range=BAD_REQUEST
    ),
    Resource("channels", anyone, {"GET": all_channels}, no_range=BAD_REQUEST),
    Resource("channels/{channel}", anyone, {"GET": one_channel}, no_range=BAD_REQUEST),
    Resource("vhosts/{vhost}/channels", of_vhost, {"GET": all_channels}, no_range=BAD_REQUEST),
    Resource("consumers", anyone, {"GET": all_consumers}),
    Resource("consumers/{vhost}", anyone, {"GET": all_consumers}),
]
