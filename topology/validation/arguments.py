"""The arguments of queues: which there are, what they may be, which queue type knows them.

An argument that RabbitMQ has never heard of is accepted and ignored, as there; one that belongs to
the other queue type is refused (R-POL-11).
"""

from collections.abc import Mapping

from topology.declarations import Queue
from topology.validation.constraints import (
    Check,
    Fault,
    at_least_one,
    at_least_zero,
    faults_of,
    flag,
    integer,
    lease_ms,
    one_of,
    priorities,
    text,
    time_ms,
)
from topology.values import AmqpValue, Compat

OVERFLOWS = ("drop-head", "reject-publish", "reject-publish-dlx")
DEAD_LETTER_STRATEGIES = ("at-most-once", "at-least-once")
QUEUE_TYPES = ("classic", "quorum")

CHECKS: Mapping[str, Check] = {
    "x-expires": lease_ms,
    "x-message-ttl": time_ms,
    "x-dead-letter-exchange": text,
    "x-dead-letter-routing-key": text,
    "x-dead-letter-strategy": one_of(DEAD_LETTER_STRATEGIES, "invalid_dlx_strategy"),
    "x-delivery-limit": integer,
    "x-max-length": at_least_zero,
    "x-max-length-bytes": at_least_zero,
    "x-max-in-memory-length": at_least_zero,
    "x-max-in-memory-bytes": at_least_zero,
    "x-max-priority": priorities,
    "x-overflow": one_of(OVERFLOWS, "invalid_overflow"),
    "x-queue-mode": one_of(("default", "lazy"), "\"unsupported queue mode 'VALUE'\""),
    "x-queue-version": at_least_one,
    "x-single-active-consumer": flag,
    "x-queue-type": one_of(QUEUE_TYPES, "\"unsupported queue type 'VALUE'\""),
    "x-quorum-initial-group-size": at_least_one,
    "x-quorum-target-group-size": at_least_one,
    "x-queue-leader-locator": text,
    "x-queue-master-locator": text,
    "x-alternate-exchange": text,
}
"""Every argument of classic and quorum queues, in the order in which they are checked."""

_BOTH = {
    "x-alternate-exchange",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-message-ttl",
    "x-overflow",
    "x-queue-leader-locator",
    "x-queue-type",
    "x-single-active-consumer",
}

KNOWN: Mapping[str, frozenset[str]] = {
    "classic": frozenset(
        _BOTH | {"x-max-priority", "x-queue-master-locator", "x-queue-mode", "x-queue-version"}
    ),
    "quorum": frozenset(
        _BOTH
        | {
            "x-dead-letter-strategy",
            "x-delivery-limit",
            "x-max-in-memory-bytes",
            "x-max-in-memory-length",
            "x-quorum-initial-group-size",
            "x-quorum-target-group-size",
        }
    ),
}
"""The arguments that each queue type understands."""

STREAM_ONLY = frozenset(
    {
        "x-initial-cluster-size",
        "x-max-age",
        "x-stream-filter-size-bytes",
        "x-stream-max-segment-size-bytes",
    }
)

EVERY_ARGUMENT = tuple(sorted({*CHECKS, *STREAM_ONLY}))


def argument_faults(queue: Queue, compat: Compat = "4.0") -> list[tuple[str, Fault]]:
    """Every unacceptable argument of a queue, in the order in which RabbitMQ finds them."""
    if wrong_type := faults_of(queue.arguments, {"x-queue-type": CHECKS["x-queue-type"]}):
        return wrong_type
    known = KNOWN[queue.queue_type]
    checks = {name: check for name, check in CHECKS.items() if name in known}
    if compat == "3.10" and "x-delivery-limit" in checks:
        checks["x-delivery-limit"] = at_least_zero
    if "x-dead-letter-exchange" not in queue.arguments:
        checks["x-dead-letter-routing-key"] = _needs_exchange
    return faults_of(queue.arguments, checks)


def foreign_arguments(queue: Queue) -> list[str]:
    """The arguments that RabbitMQ knows, but not for a queue of this type; in the order given."""
    known = KNOWN[queue.queue_type]
    return [name for name in queue.arguments if name in EVERY_ARGUMENT and name not in known]


def unsuitable_properties(queue: Queue) -> list[str]:
    """What a quorum queue cannot be: auto-delete, exclusive or transient."""
    if queue.queue_type != "quorum":
        return []
    properties = {
        "auto-delete": queue.auto_delete,
        "exclusive-owner": queue.exclusive,
        "non-durable": not queue.durable,
    }
    return [name for name, asked_for in properties.items() if asked_for]


def _needs_exchange(value: AmqpValue) -> Fault | None:
    return text(value) or Fault(
        "routing_key_but_no_dlx_defined", "needs x-dead-letter-exchange beside it"
    )
