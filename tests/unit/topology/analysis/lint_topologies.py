"""Topologies for the tests of lint."""

from topology.declarations import Binding, Definitions, Exchange, Queue


def a_topology(*items, **more):
    """Definitions with the given objects; exchanges and queues are bound by default."""
    return Definitions(
        exchanges=tuple(item for item in items if isinstance(item, Exchange)),
        queues=tuple(item for item in items if isinstance(item, Queue)),
        bindings=tuple(item for item in items if isinstance(item, Binding)),
        **more,
    )


def a_queue(name, **arguments):
    """A queue; `ttl_ms=1` stands for x-message-ttl, `dlx` and `key` for its dead-letter target."""
    names = {
        "ttl_ms": "x-message-ttl",
        "dlx": "x-dead-letter-exchange",
        "key": "x-dead-letter-routing-key",
        "max_length": "x-max-length",
    }
    return Queue(
        name,
        arguments={
            names.get(argument) or "x-" + argument.replace("_", "-"): value
            for argument, value in arguments.items()
        },
    )


ORDERS = Exchange("orders", "direct")
WORK = Binding("orders", "work", routing_key="new")
DEAD = Exchange("dead", "fanout")
BURIED = (DEAD, Queue("buried"), Binding("dead", "buried"))
