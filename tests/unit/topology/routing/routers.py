"""Routers in short form."""

from topology.declarations import Binding, Exchange
from topology.routing.router import Router


def a_router(exchanges=(), queues=(), bindings=(), alternates=(), compat="4.0"):
    """A router from short forms: exchange (name, type), binding (source, destination, key)."""
    router = Router(compat)
    for name, exchange_type in exchanges:
        router.declare_exchange(Exchange(name, exchange_type))
    for name in queues:
        router.declare_queue(name)
    for source, destination, key in bindings:
        assert router.bind(bound(source, destination, key, router))
    for name, alternate in alternates:
        router.set_alternate(name, alternate)
    return router


def bound(source, destination, key, router):
    if destination in router.queues:
        return Binding(source, destination, "queue", key)
    return Binding(source, destination, "exchange", key)


def reached(router, exchange, *keys, headers=None):
    return router.route(exchange, keys, headers).queues
