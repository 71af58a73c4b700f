"""The keys of policies and operator policies, and what their values may be.

Keys of RabbitMQ's that have no meaning here (mirroring, placement, plugins) are accepted and have
no effect; any other key is refused, as RabbitMQ does.
"""

from collections.abc import Mapping

from topology.declarations import Policy
from topology.erlang_terms import erlang_binary, erlang_term
from topology.validation.arguments import DEAD_LETTER_STRATEGIES, OVERFLOWS
from topology.validation.constraints import (
    Check,
    at_least_zero,
    integer,
    lease_ms,
    one_of,
    text,
    time_ms,
)
from topology.values import AmqpValue, Compat

APPLY_TO = ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams")

_CHECKS: Mapping[str, tuple[Check, str]] = {
    "alternate-exchange": (text, "alternate exchange name"),
    "dead-letter-exchange": (text, "dead letter exchange name"),
    "dead-letter-routing-key": (text, "dead letter routing key"),
    "dead-letter-strategy": (one_of(DEAD_LETTER_STRATEGIES, ""), "dead letter strategy"),
    "delivery-limit": (integer, "delivery limit"),
    "expires": (lease_ms, "queue expiry"),
    "max-length": (at_least_zero, "maximum length"),
    "max-length-bytes": (at_least_zero, "maximum length in bytes"),
    "message-ttl": (time_ms, "message TTL"),
    "overflow": (one_of(OVERFLOWS, ""), "overflow value"),
    "queue-alternate-exchange": (text, "alternate exchange name"),
}
"""The keys with a meaning here: what they may be, and what RabbitMQ calls them."""

INERT = frozenset(
    {
        "consumer-timeout",
        "federation-upstream",
        "federation-upstream-pattern",
        "federation-upstream-set",
        "ha-mode",
        "ha-params",
        "ha-promote-on-failure",
        "ha-promote-on-shutdown",
        "ha-sync-batch-size",
        "ha-sync-mode",
        "initial-cluster-size",
        "max-age",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-priority",
        "queue-leader-locator",
        "queue-master-locator",
        "queue-mode",
        "queue-version",
        "routing-key",
        "shards-per-node",
        "stream-filter-size-bytes",
        "stream-max-segment-size-bytes",
        "target-group-size",
    }
)
"""RabbitMQ's and its plugins' keys that have no effect here."""

_OPERATOR = frozenset(
    {"delivery-limit", "expires", "max-length", "max-length-bytes", "message-ttl", "overflow"}
)

_KNOWN = {False: INERT | _CHECKS.keys(), True: INERT | _OPERATOR}


def known_keys(*, operator: bool) -> list[str]:
    """The keys that RabbitMQ recognises in a policy or operator policy, sorted."""
    return sorted(_KNOWN[operator])


def unrecognised(policy: Policy, *, operator: bool) -> list[tuple[str, AmqpValue]]:
    """The members of a policy's definition that RabbitMQ would not recognise, by key."""
    return [
        (key, value)
        for key, value in sorted(policy.definition.items())
        if key not in _KNOWN[operator]
    ]


def value_faults(policy: Policy, compat: Compat = "4.0") -> list[tuple[str, str]]:
    """Every unacceptable value of a policy's definition: its key and RabbitMQ's complaint."""
    found: list[tuple[str, str]] = []
    for key, value in sorted(policy.definition.items()):
        check, what = _CHECKS.get(key, (None, ""))
        if key == "delivery-limit" and compat == "3.10":
            check = at_least_zero
        if check is not None and check(value) is not None:
            found.append((key, f"{erlang_term(value)} is not a valid {what}"))
    return found


NOTHING_SET = "no policy provided"
"""RabbitMQ's complaint about a definition without members."""


def recognition_complaint(members: list[tuple[str, AmqpValue]]) -> str:
    """RabbitMQ's complaint about members that it does not recognise."""
    terms = ",".join(f"{{{erlang_binary(key)},{erlang_term(value)}}}" for key, value in members)
    return f"[{terms}] are not recognised policy settings"
