"""Which arguments queues may have and which keys policies may have, and what their values may be.

Unknown queue arguments are accepted and ignored, as in RabbitMQ; an argument of the other queue
type is refused (R-POL-11). Policy keys that RabbitMQ knows but that have no effect here (mirroring,
placement, plugins) are accepted; unknown policy keys are refused.
"""

from collections.abc import Callable, Mapping

import msgspec

from topology.declarations import Policy, Queue
from topology.erlang_terms import erlang_term
from topology.sentences import say
from topology.suggestions import did_you_mean
from topology.values import AmqpValue, Compat, amqp_type, type_in_words


class ArgumentError(msgspec.Struct, frozen=True):
    """One unacceptable value: the reason in RabbitMQ's reply, and the words for people."""

    reason: str
    words: str


Check = Callable[[AmqpValue], ArgumentError | None]


def integer(
    least: int | None = None,
    most: int | None = None,
    too_large: str = "value_too_large",
    unit: str = "",
) -> Check:
    """An integer, but not a boolean, from `least` (0 or 1) to `most`.

    Args:
        least, most: the bounds; None for none.
        too_large: RabbitMQ's name for the error of a larger value.
        unit: follows the largest value in the message.
    """

    def check(value: AmqpValue) -> ArgumentError | None:
        if not isinstance(value, int) or isinstance(value, bool):
            return ArgumentError(
                f'"expected integer, got {amqp_type(value)}"',
                say(
                    "expected %(wanted)s, got %(given)s",
                    wanted=say("an integer"),
                    given=type_in_words(value),
                ),
            )
        if least is not None and value < 0:
            words = say("must not be negative, but is %(value)s", value=str(value))
            return ArgumentError(f"{{value_negative,{value}}}", words)
        if least and value < least:
            return ArgumentError("{value_zero,0}", say("must not be zero"))
        if most is not None and value > most:
            words = say(
                "must be at most %(most)s%(unit)s, but is %(value)s",
                most=str(most),
                unit=unit,
                value=str(value),
            )
            return ArgumentError(f"{{{too_large},{value}}}", words)
        return None

    return check


def flag(value: AmqpValue) -> ArgumentError | None:
    """True or false."""
    return None if isinstance(value, bool) else _unacceptable(value, say("a boolean"))


def text(value: AmqpValue) -> ArgumentError | None:
    """A string."""
    return None if isinstance(value, str) else _unacceptable(value, say("a string"))


def one_of(choices: tuple[str, ...], reason: str) -> Check:
    """One of these strings; `reason` is RabbitMQ's reply to any other string."""

    def check(value: AmqpValue) -> ArgumentError | None:
        if not isinstance(value, str):
            return _unacceptable(value, say("a string"))
        if value in choices:
            return None
        hint = did_you_mean(value, choices)
        given = say(
            "expected one of %(choices)s, got %(given)s%(hint)s",
            choices=", ".join(choices),
            given=repr(value),
            hint=hint,
        )
        return ArgumentError(reason.replace("VALUE", value), given)

    return check


CONSUMER_CHECKS: Mapping[Compat, Mapping[str, Check]] = {
    "3.10": {"x-priority": integer(), "x-cancel-on-ha-failover": flag},
    "4.0": {"x-priority": integer()},
}
"""The arguments of consumers that have a meaning; others are accepted and ignored."""

OF_STREAMS = "x-stream-offset"
"""Consumers of queues that are no streams must not have it; 3.10 does not mind."""


def errors_in(
    table: Mapping[str, AmqpValue], checks: Mapping[str, Check]
) -> list[tuple[str, ArgumentError]]:
    """Every error in a table, in the order of the checks; members without a check have none."""
    found = ((key, check(table[key])) for key, check in checks.items() if key in table)
    return [(key, error) for key, error in found if error is not None]


def _unacceptable(value: AmqpValue, wanted: str) -> ArgumentError:
    words = say("expected %(wanted)s, got %(given)s", wanted=wanted, given=type_in_words(value))
    return ArgumentError(f"{{unacceptable_type,{amqp_type(value)}}}", words)


OVERFLOWS = ("drop-head", "reject-publish", "reject-publish-dlx")
DEAD_LETTER_STRATEGIES = ("at-most-once", "at-least-once")
QUEUE_TYPES = ("classic", "quorum")
_LEADER_LOCATORS = ("client-local", "balanced", "random", "least-leaders", "min-masters")
_VERSIONS = (1, 2)
APPLY_TO = ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams")

MAX_TTL_MS = 315_360_000_000
"""Ten years: the longest time that RabbitMQ accepts."""

_at_least_zero = integer(0)
_at_least_one = integer(1)
_TEN_YEARS = say(" ms (ten years)")
_time_ms = integer(0, MAX_TTL_MS, unit=_TEN_YEARS)
_lease_ms = integer(1, MAX_TTL_MS, unit=_TEN_YEARS)


def _version(value: AmqpValue) -> ArgumentError | None:
    """The version of a classic queue's storage."""
    error = _at_least_zero(value)
    if error is None and value not in _VERSIONS:
        error = ArgumentError(
            f"\"unsupported queue version '{value!r}'\"",
            say("must be 1 or 2, but is %(value)s", value=repr(value)),
        )
    return error


_QUEUE_CHECKS: Mapping[str, Check] = {
    "x-expires": _lease_ms,
    "x-message-ttl": _time_ms,
    "x-dead-letter-exchange": text,
    "x-dead-letter-routing-key": text,
    "x-dead-letter-strategy": one_of(DEAD_LETTER_STRATEGIES, "invalid_dlx_strategy"),
    "x-delivery-limit": integer(),
    "x-max-length": _at_least_zero,
    "x-max-length-bytes": _at_least_zero,
    "x-max-in-memory-length": _at_least_zero,
    "x-max-in-memory-bytes": _at_least_zero,
    "x-max-priority": integer(0, 255, "max_value_exceeded"),
    "x-overflow": one_of(OVERFLOWS, "invalid_overflow"),
    "x-queue-mode": one_of(("default", "lazy"), "\"unsupported queue mode 'VALUE'\""),
    "x-queue-version": _version,
    "x-single-active-consumer": flag,
    "x-queue-type": one_of(QUEUE_TYPES, "\"unsupported queue type 'VALUE'\""),
    "x-quorum-initial-group-size": _at_least_one,
    "x-queue-leader-locator": one_of(_LEADER_LOCATORS, "invalid_queue_locator_arg"),
    "x-queue-master-locator": text,
    "x-alternate-exchange": text,
    "x-reroute-once": flag,
    "x-single-lane": flag,
}
"""Every argument of classic and quorum queues, in the order in which RabbitMQ checks them."""

_CLASSIC_ONLY = {"x-max-priority", "x-queue-master-locator", "x-queue-mode", "x-queue-version"}
_QUORUM_ONLY = {
    "x-dead-letter-strategy",
    "x-delivery-limit",
    "x-max-in-memory-bytes",
    "x-max-in-memory-length",
    "x-quorum-initial-group-size",
}
_STREAM_ONLY = {
    "x-initial-cluster-size",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
}

ARGUMENTS_OF_TYPE: Mapping[str, frozenset[str]] = {
    "classic": frozenset(_QUEUE_CHECKS.keys() - _QUORUM_ONLY),
    "quorum": frozenset(_QUEUE_CHECKS.keys() - _CLASSIC_ONLY),
}
"""The arguments that each queue type understands."""

_COMPARED_FIRST: Mapping[str, tuple[str, ...]] = {
    "classic": (
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        "x-queue-type",
        "x-queue-master-locator",
    ),
    "quorum": (
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        "x-single-active-consumer",
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-delivery-limit",
        "x-message-ttl",
        "x-queue-leader-locator",
    ),
}
COMPARED_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    queue_type: (*first, *sorted(ARGUMENTS_OF_TYPE[queue_type].difference(first)))
    for queue_type, first in _COMPARED_FIRST.items()
}
"""The arguments of each queue type in the order in which RabbitMQ compares two declarations."""

_OF_SOME_TYPE = {*_QUEUE_CHECKS, *_STREAM_ONLY}
_NOT_CHECKED = {"x-consumer-timeout", "x-quorum-target-group-size", "x-stream-filter-size-bytes"}
"""What RabbitMQ takes for any type of queue and with any value, and does not compare."""

QUEUE_ARGUMENTS = tuple(sorted(_OF_SOME_TYPE | _NOT_CHECKED))
"""Every queue argument that RabbitMQ knows."""

_POLICY_CHECKS: Mapping[str, tuple[Check, str]] = {
    "alternate-exchange": (text, "alternate exchange name"),
    "consumer-timeout": (_at_least_zero, "consumer timeout"),
    "dead-letter-exchange": (text, "dead letter exchange name"),
    "dead-letter-routing-key": (text, "dead letter routing key"),
    "dead-letter-strategy": (one_of(DEAD_LETTER_STRATEGIES, ""), "dead letter strategy"),
    "delivery-limit": (integer(), "delivery limit"),
    "expires": (_lease_ms, "queue expiry"),
    "max-length": (_at_least_zero, "maximum length"),
    "max-length-bytes": (_at_least_zero, "maximum length in bytes"),
    "message-ttl": (_time_ms, "message TTL"),
    "overflow": (one_of(OVERFLOWS, ""), "overflow value"),
    "queue-alternate-exchange": (text, "alternate exchange name"),
    "queue-reroute-once": (flag, "reroute-once flag"),
    "single-lane": (flag, "single-lane flag"),
}
"""The policy keys with an effect here: the check of their values, and RabbitMQ's name for them."""

INERT_POLICY_KEYS = frozenset(
    {
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
"""Policy keys of RabbitMQ and its plugins that have no effect here."""

_OPERATOR_KEYS = frozenset(
    {"delivery-limit", "expires", "max-length", "max-length-bytes", "message-ttl", "overflow"}
)
_POLICY_KEYS = {
    False: INERT_POLICY_KEYS | _POLICY_CHECKS.keys(),
    True: INERT_POLICY_KEYS | _OPERATOR_KEYS,
}


def argument_errors(queue: Queue, compat: Compat = "4.0") -> list[tuple[str, ArgumentError]]:
    """Every unacceptable argument of a queue, in the order in which RabbitMQ finds them."""
    if wrong_type := errors_in(queue.arguments, {"x-queue-type": _QUEUE_CHECKS["x-queue-type"]}):
        return wrong_type
    known = ARGUMENTS_OF_TYPE[queue.queue_type]
    checks = {name: check for name, check in _QUEUE_CHECKS.items() if name in known}
    if compat == "3.10" and "x-delivery-limit" in checks:
        checks["x-delivery-limit"] = _at_least_zero
    if "x-dead-letter-exchange" not in queue.arguments:
        checks["x-dead-letter-routing-key"] = _needs_exchange
    return errors_in(queue.arguments, checks)


def arguments_of_other_types(queue: Queue) -> list[str]:
    """The arguments that RabbitMQ knows, but not for queues of this type; in the order given."""
    known = ARGUMENTS_OF_TYPE[queue.queue_type]
    return [name for name in queue.arguments if name in _OF_SOME_TYPE and name not in known]


def policy_keys(*, operator: bool) -> list[str]:
    """The keys that RabbitMQ recognises in a policy or operator policy, sorted."""
    return sorted(_POLICY_KEYS[operator])


def unrecognised_keys(policy: Policy, *, operator: bool) -> list[str]:
    """The keys of a policy's definition that RabbitMQ does not recognise, sorted."""
    return sorted(policy.definition.keys() - _POLICY_KEYS[operator])


def policy_value_errors(policy: Policy, compat: Compat = "4.0") -> list[tuple[str, ArgumentError]]:
    """Every unacceptable value of a policy's definition: its key, and RabbitMQ's complaint."""
    found: list[tuple[str, ArgumentError]] = []
    for key, value in sorted(policy.definition.items()):
        check, name = _POLICY_CHECKS.get(key, (None, ""))
        if key == "delivery-limit" and compat == "3.10":
            check = _at_least_zero
        if key == "consumer-timeout" and compat == "3.10":
            check = None  # it does not know this key, which has no effect then
        error = None if check is None else check(value)
        if error is not None:
            reply = f"{erlang_term(value)} is not a valid {name}"
            found.append((key, ArgumentError(reply, error.words)))
    return found


def _needs_exchange(value: AmqpValue) -> ArgumentError | None:
    return text(value) or ArgumentError(
        "routing_key_but_no_dlx_defined", say("needs x-dead-letter-exchange beside it")
    )
