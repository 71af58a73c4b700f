"""Routes a message that the broker knows without its headers (D12).

Only headers exchanges look at headers, so a route is first looked up without. If it reaches a
headers exchange, the message's headers are read, and it is looked up again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from streaming.broker.context import ShardContext
from streaming.broker.dead_letters.x_death import matching_headers
from streaming.broker.message import Envelope, Message, PublishedHeaders
from topology.routing.router import Route


def route_of(context: ShardContext, envelope: Envelope, message: Message) -> Route:
    """The route of a message from the exchange of its envelope."""
    return route_with(context, envelope, partial(context.published, message))


def route_with(
    context: ShardContext, envelope: Envelope, published: Callable[[], PublishedHeaders]
) -> Route:
    """The route of a message whose headers can be read if they are needed."""
    router = context.vhost.router
    route = router.route(envelope.exchange, envelope.routing_keys)
    if route.keyed_only:
        return route
    headers = matching_headers(envelope, published())
    return router.route(envelope.exchange, envelope.routing_keys, headers)


def headers_for(
    context: ShardContext, exchange: str, envelope: Envelope, message: Message
) -> dict[str, Any] | None:
    """The headers that the route from an exchange depends on; None if it depends on none."""
    if context.vhost.router.route(exchange, envelope.routing_keys).keyed_only:
        return None
    return matching_headers(envelope, context.published(message))
