"""RabbitMQ's refusals that need no look at arguments: missing, reserved, locked, in use."""

from topology.errors import (
    Refusal,
    access_refused,
    not_found,
    precondition_failed,
    resource_locked,
)
from topology.names import RESERVED_PREFIX


def no_exchange(name: str, vhost: str) -> Refusal:
    """404: there is no such exchange (R-ROUTE-10)."""
    return not_found(f"no {exchange_in(name, vhost)}")


def no_queue(name: str, vhost: str) -> Refusal:
    """404: there is no such queue."""
    return not_found(f"no {queue_in(name, vhost)}")


def internal_exchange(name: str, vhost: str) -> Refusal:
    """403: clients may not publish to an internal exchange (R-ROUTE-8)."""
    return access_refused(f"cannot publish to internal {exchange_in(name, vhost)}")


def default_exchange() -> Refusal:
    """403: the default exchange is not configurable (R-ROUTE-1)."""
    return access_refused("operation not permitted on the default exchange")


def reserved_name(kind: str, name: str) -> Refusal:
    """403: names that begin with `amq.` are the broker's."""
    return access_refused(f"{kind} name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'")


def exclusive_queue(name: str, vhost: str) -> Refusal:
    """405: the queue is exclusive to somebody else."""
    return resource_locked(
        f"cannot obtain exclusive access to locked {queue_in(name, vhost)}. It could be originally"
        " declared on another connection or the exclusive property value does not match that of"
        " the original declaration."
    )


def exchange_in_use(name: str, vhost: str) -> Refusal:
    """406: a deletion that asked for an unused exchange found bindings."""
    return precondition_failed(f"{exchange_in(name, vhost)} in use")


def queue_in_use(name: str, vhost: str) -> Refusal:
    """406: a deletion that asked for an unused queue found consumers."""
    return precondition_failed(f"{queue_in(name, vhost)} in use")


def queue_not_empty(name: str, vhost: str) -> Refusal:
    """406: a deletion that asked for an empty queue found messages."""
    return precondition_failed(f"{queue_in(name, vhost)} not empty")


def unknown_delivery(ref: str) -> Refusal:
    """406: nothing of that delivery tag, here of that ref or id, is unacked."""
    return precondition_failed(f"unknown delivery tag {ref}")


def refuse_exchange_deletion(name: str, vhost: str) -> Refusal | None:
    """403 for the exchanges that every vhost has; None where deletion may go on."""
    if not name:
        return default_exchange()
    if name.startswith(RESERVED_PREFIX):
        return access_refused(f"deletion of system {exchange_in(name, vhost)} not allowed")
    return None


def exchange_in(name: str, vhost: str) -> str:
    """An exchange as RabbitMQ names it in replies."""
    return f"exchange '{name}' in vhost '{vhost}'"


def queue_in(name: str, vhost: str) -> str:
    """A queue as RabbitMQ names it in replies."""
    return f"queue '{name}' in vhost '{vhost}'"
