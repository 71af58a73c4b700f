"""Policies and arguments: the effective settings of a queue (docs/semantics.md section 7).

At most one policy and one operator policy apply to an object: of those that match it, the one with
the highest priority; among equals, where RabbitMQ leaves it open, the first by name (R-POL-9). A
policy with a key that the queue's type lacks does not match that queue (R-POL-10). The two are
merged; of two numbers the smaller counts (R-POL-7). The result is merged with the queue's
arguments: of two numbers the smaller counts, else the argument (R-POL-2, R-POL-3; R-POL-12).
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar, cast

import msgspec

from topology.declarations import Exchange, Policy, Queue
from topology.patterns import Pattern
from topology.values import AmqpValue, Compat, Table, Timestamp

Value = TypeVar("Value")
Overflow = Literal["drop-head", "reject-publish", "reject-publish-dlx"]

DEFAULT_DELIVERY_LIMIT = 20
"""For quorum queues on 4.0 if neither argument nor policy sets a limit (R-DLV-5)."""

NO_TIMEOUT_MS = 1 << 62
"""The consumer timeout of a queue whose deliveries may be unsettled for ever."""

UNSUPPORTED_KEYS: Mapping[str, frozenset[str]] = {
    "classic": frozenset(
        {
            "dead-letter-strategy",
            "delivery-limit",
            "initial-cluster-size",
            "max-age",
            "stream-max-segment-size-bytes",
        }
    ),
    "quorum": frozenset(
        {
            "ha-mode",
            "ha-params",
            "ha-promote-on-failure",
            "ha-promote-on-shutdown",
            "ha-sync-mode",
            "initial-cluster-size",
            "max-age",
            "max-priority",
            "queue-master-locator",
            "queue-mode",
            "stream-max-segment-size-bytes",
        }
    ),
}
"""A policy with one of these keys does not match queues of that type (R-POL-10)."""


class QueueSettings(msgspec.Struct, frozen=True):
    """The effective settings of one queue: arguments and policies combined.

    Attributes:
        at_least_once: whether dead letters await confirmation (R-ALO-1).
        overflow: as the queue type understands it (R-LEN-14).
        message_ttl_ms, expires_ms: milliseconds; None for no limit.
        max_length, max_length_bytes: ready messages and their body bytes; None for no limit.
        delivery_limit: how often a message may be returned; None for no limit.
        max_priority: highest effective priority; None if priorities are ignored (R-PRI-6).
        consumer_timeout_ms: of deliveries; None: that of the vhost counts (R-SET-13).
        alternate_exchange: where rejected and orphaned messages go (R-QPID-1).
        reroute_once: whether a message that was rerouted before is discarded instead (R-QPID-5).
        single_lane: in a vhost of several lanes, whether the queue is on one of them only.
        policy, operator_policy: names of the applied policies.
    """

    queue_type: str
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    at_least_once: bool = False
    overflow: Overflow = "drop-head"
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    delivery_limit: int | None = None
    max_priority: int | None = None
    consumer_timeout_ms: int | None = None
    alternate_exchange: str | None = None
    reroute_once: bool = True
    single_lane: bool = False
    policy: str | None = None
    operator_policy: str | None = None

    @property
    def has_length_limit(self) -> bool:
        """Whether the queue can be full."""
        return self.max_length is not None or self.max_length_bytes is not None

    @property
    def refuses_when_full(self) -> bool:
        """Whether a full queue refuses messages instead of dropping its oldest."""
        return self.has_length_limit and self.overflow == "reject-publish"


class PolicyTable:
    """The policies and operator policies of one vhost.

    Attributes:
        changes: grows with every change, so that derived values know when they are outdated.
    """

    def __init__(self) -> None:
        self._rankings = {False: _Ranking(), True: _Ranking()}  # ordinary, operator
        self.changes = 0

    def set(self, policy: Policy, *, operator: bool = False) -> None:
        """Add a policy, or replace the one of the same name; as `load`."""
        self.load((policy,), operator=operator)

    def load(self, policies: Iterable[Policy], *, operator: bool = False) -> None:
        """Add policies, replacing those of the same names.

        Raises:
            UnsupportedPatternError: a pattern cannot be used; nothing has changed.
        """
        self._rankings[operator].load(policies)
        self.changes += 1

    def clear(self, name: str, *, operator: bool = False) -> bool:
        """Remove a policy; False if there was none of that name."""
        self.changes += 1
        return self._rankings[operator].clear(name)

    def policies(self, *, operator: bool = False) -> list[Policy]:
        """The policies, by name."""
        return self._rankings[operator].by_name()

    def applying_to(self, item: Queue | Exchange, *, operator: bool = False) -> Policy | None:
        """The policy that applies to a queue or exchange; never one to the default exchange."""
        return self._rankings[operator].applying_to(item)

    def effective(self, item: Queue) -> Table:
        """The keys that apply to a queue: of its policy and its operator policy."""
        return _merged(self.applying_to(item), self.applying_to(item, operator=True))

    def exchange_alternate(self, exchange: Exchange) -> str | None:
        """The effective alternate exchange of an exchange: argument, else policy (R-AE-5)."""
        argument = exchange.arguments.get("alternate-exchange")
        if isinstance(argument, str):
            return argument
        policy = self.applying_to(exchange)
        return _text(policy.definition if policy else {}, "alternate-exchange")

    def queue_settings(
        self, queue: Queue, compat: Compat = "4.0", default_delivery_limit: int | None = None
    ) -> QueueSettings:
        """Compute the effective settings of a queue.

        Args:
            default_delivery_limit: for quorum queues without a limit; -1 for no limit; None for
                that of `compat` (R-DLV-5).
        """
        policy = self.applying_to(queue)
        operator_policy = self.applying_to(queue, operator=True)
        merged = _merged(policy, operator_policy)
        quorum = queue.queue_type == "quorum"
        arguments = queue.arguments
        overflow = _overflow(arguments, merged, quorum=quorum)
        dead_letter_exchange = _text_of(arguments, merged, "dead-letter-exchange")
        expires_ms = _smaller(arguments, merged, "expires")
        delivery_limit = None
        if quorum:
            delivery_limit = _delivery_limit(arguments, merged, compat, default_delivery_limit)
        if quorum and compat == "3.10":
            expires_ms = _first(_integer(merged, "expires"), expires_ms)
        return QueueSettings(
            queue_type=queue.queue_type,
            dead_letter_exchange=dead_letter_exchange,
            dead_letter_routing_key=_text_of(arguments, merged, "dead-letter-routing-key"),
            at_least_once=quorum
            and _text_of(arguments, merged, "dead-letter-strategy") == "at-least-once"
            and dead_letter_exchange is not None
            and overflow == "reject-publish",
            overflow=overflow,
            message_ttl_ms=_smaller(arguments, merged, "message-ttl"),
            expires_ms=expires_ms,
            max_length=_smaller(arguments, merged, "max-length"),
            max_length_bytes=_smaller(arguments, merged, "max-length-bytes"),
            delivery_limit=delivery_limit,
            max_priority=None if quorum else _integer(arguments, "x-max-priority"),
            consumer_timeout_ms=None if compat == "3.10" else _consumer_timeout(arguments, merged),
            alternate_exchange=_first(
                _text(arguments, "x-alternate-exchange"), _text(merged, "queue-alternate-exchange")
            ),
            reroute_once=_first(
                _flag(arguments, "x-reroute-once"), _flag(merged, "queue-reroute-once")
            )
            is not False,
            single_lane=_first(_flag(arguments, "x-single-lane"), _flag(merged, "single-lane"))
            is True,
            policy=policy.name if policy else None,
            operator_policy=operator_policy.name if operator_policy else None,
        )


class _Ranking:
    def __init__(self) -> None:
        self._by_name: dict[str, tuple[Policy, Pattern]] = {}
        self._ranked: list[tuple[Policy, Pattern]] = []

    def load(self, policies: Iterable[Policy]) -> None:
        self._by_name |= {policy.name: (policy, Pattern(policy.pattern)) for policy in policies}
        self._rank()

    def clear(self, name: str) -> bool:
        existed = self._by_name.pop(name, None) is not None
        self._rank()
        return existed

    def by_name(self) -> list[Policy]:
        return [self._by_name[name][0] for name in sorted(self._by_name)]

    def applying_to(self, item: Queue | Exchange) -> Policy | None:
        if not item.name or not self._ranked:
            return None
        scopes = {"all", "exchanges"}
        unsupported: frozenset[str] = frozenset()
        if isinstance(item, Queue):
            scopes = {"all", "queues", f"{item.queue_type}_queues"}
            unsupported = UNSUPPORTED_KEYS.get(item.queue_type, unsupported)
        for policy, pattern in self._ranked:
            if (
                policy.apply_to in scopes
                and unsupported.isdisjoint(policy.definition)
                and pattern.search(item.name)
            ):
                return policy
        return None

    def _rank(self) -> None:
        ranked = sorted(self.by_name(), key=lambda policy: -policy.priority)
        self._ranked = [self._by_name[policy.name] for policy in ranked]


def _merged(policy: Policy | None, operator_policy: Policy | None) -> Table:
    """The keys of both: of two numbers the smaller counts, else the operator's (R-POL-7)."""
    definition = policy.definition if policy else {}
    operator_definition = operator_policy.definition if operator_policy else {}
    merged = definition | operator_definition
    for key in operator_definition:
        ours, theirs = _integer(definition, key), _integer(operator_definition, key)
        if ours is not None and theirs is not None:
            merged[key] = _tighter(ours, theirs)
    return merged


def _tighter(one: int, other: int) -> int:
    """The smaller limit; a negative one means no limit (R-POL-3)."""
    return max(one, other) if min(one, other) < 0 else min(one, other)


def _overflow(arguments: Table, policy: Table, *, quorum: bool) -> Overflow:
    from_argument, from_policy = _text(arguments, "x-overflow"), _text(policy, "overflow")
    if quorum:
        overflow = _first(from_policy, from_argument)
        return "reject-publish" if overflow == "reject-publish" else "drop-head"
    return cast("Overflow", _first(from_argument, from_policy) or "drop-head")


def _delivery_limit(
    arguments: Table, policy: Table, compat: Compat, default: int | None
) -> int | None:
    """The effective limit of a quorum queue (R-DLV-4, R-DLV-5, R-POL-3)."""
    argument = _integer(arguments, "x-delivery-limit")
    set_by_policy = _integer(policy, "delivery-limit")
    if argument is not None and set_by_policy is not None:
        limit = _tighter(argument, set_by_policy)
    else:
        of_version = -1 if compat == "3.10" else DEFAULT_DELIVERY_LIMIT
        limits = (argument, set_by_policy, default, of_version)
        limit = next(limit for limit in limits if limit is not None)
    return None if limit < 0 else limit


def _consumer_timeout(arguments: Table, policy: Table) -> int | None:
    """The smaller of argument and policy; RabbitMQ compares them as terms of Erlang (R-SET-13).

    There a number is less than whatever is none, and what is no integer is no timeout.
    """
    argument, set_by_policy = (
        arguments.get("x-consumer-timeout"),
        _integer(policy, "consumer-timeout"),
    )
    if isinstance(argument, Timestamp):
        argument = argument.seconds
    if argument is None:
        return set_by_policy
    if isinstance(argument, int) and not isinstance(argument, bool):
        return argument if set_by_policy is None else min(argument, set_by_policy)
    if set_by_policy is None or (isinstance(argument, float) and argument < set_by_policy):
        return NO_TIMEOUT_MS
    return set_by_policy


def _smaller(arguments: Table, policy: Table, key: str) -> int | None:
    """The smaller of argument and policy, if any (R-POL-3)."""
    numbers = [_integer(arguments, f"x-{key}"), _integer(policy, key)]
    return min((number for number in numbers if number is not None), default=None)


def _text_of(arguments: Table, policy: Table, key: str) -> str | None:
    """The argument, else the policy's value (R-POL-2)."""
    return _first(_text(arguments, f"x-{key}"), _text(policy, key))


def _first(preferred: Value | None, other: Value | None) -> Value | None:
    return other if preferred is None else preferred


def _integer(table: Mapping[str, AmqpValue], key: str) -> int | None:
    value = table.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(table: Mapping[str, AmqpValue], key: str) -> str | None:
    value = table.get(key)
    return value if isinstance(value, str) else None


def _flag(table: Mapping[str, AmqpValue], key: str) -> bool | None:
    value = table.get(key)
    return value if isinstance(value, bool) else None
