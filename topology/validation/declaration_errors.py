"""What is wrong with a single declaration: the one validator behind `refuse` and `problems`.

Each function yields every error, in the order in which RabbitMQ finds them. `refuse` replies with
the first one; `problems` lists all of them with their paths.
"""

from collections.abc import Iterator

import msgspec

from topology.declarations import (
    RESERVED_PREFIX,
    Binding,
    Exchange,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    too_long,
)
from topology.erlang_terms import erlang_binary, erlang_term
from topology.errors import UnsupportedPatternError
from topology.patterns import Pattern
from topology.refusals import (
    Refusal,
    default_exchange,
    exchange_in,
    precondition_failed,
    queue_in,
    reserved_name,
    unknown_exchange_type,
)
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.routing.headers_exchange import X_MATCH
from topology.routing.topic_exchange import split_words
from topology.sentences import say
from topology.suggestions import did_you_mean
from topology.validation.arguments import (
    APPLY_TO,
    argument_errors,
    arguments_of_other_types,
    policy_keys,
    policy_value_errors,
    unrecognised_keys,
)
from topology.values import Compat, Table, amqp_type, type_in_words

MAX_HASHES = 10
"""Limit of `#` in one binding key of a topic exchange: more only make matching slow."""

SINGLE_ACTIVE_CONSUMER = "x-single-active-consumer"

_RABBITMQ_CHOICES = "'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'"
_PRIORITIES = range(-(2**63), 2**63)
_QUORUM_PROPERTIES = {
    "auto-delete": ("auto_delete", say("auto-delete")),
    "exclusive-owner": ("exclusive", say("exclusive")),
    "non-durable": ("durable", say("transient")),
}
"""RabbitMQ's name of a property that quorum queues cannot have: its member, and a word for it."""


class DeclarationError(msgspec.Struct, frozen=True):
    """One thing wrong with a declaration.

    Attributes:
        member: the path inside the declaration, such as `arguments.x-expires`.
        words: what is wrong, for people.
    """

    member: str
    words: str
    refusal: Refusal


def exchange_errors(
    exchange: Exchange, vhost: str, compat: Compat = "4.0"
) -> Iterator[DeclarationError]:
    """Yield what is wrong with an exchange."""
    if exchange.type not in EXCHANGE_TYPES:
        hint = did_you_mean(exchange.type, EXCHANGE_TYPES)
        words = say(
            "no exchange type is named %(type)s%(hint)s", type=repr(exchange.type), hint=hint
        )
        reply = unknown_exchange_type(exchange.type, compat)
        yield DeclarationError("type", words, reply)
    yield from _name_errors("exchange", exchange.name, default_exchange())
    named = exchange_in(exchange.name, vhost)
    yield from _text_errors(exchange.arguments, ("alternate-exchange",), named)


def queue_errors(queue: Queue, vhost: str, compat: Compat = "4.0") -> Iterator[DeclarationError]:
    """Yield what is wrong with a queue (R-POL-11)."""
    unnamed = precondition_failed("a queue needs a name: server-named queues are not supported")
    yield from _name_errors("queue", queue.name, unnamed)
    named = queue_in(queue.name, vhost)
    exchanges = ("x-dead-letter-exchange", "x-alternate-exchange")
    yield from _text_errors(queue.arguments, exchanges, named)
    for argument, error in argument_errors(queue, compat):
        if argument not in exchanges:
            reply = precondition_failed(f"invalid arg '{argument}' for {named}: {error.reason}")
            yield DeclarationError(f"arguments.{argument}", error.words, reply)
        if argument == "x-queue-type":
            return
    queue_type = queue.queue_type
    for argument in arguments_of_other_types(queue):
        of_type = f"{named} of queue type rabbit_{queue_type}_queue"
        reply = precondition_failed(f"invalid arg '{argument}' for {of_type}")
        words = say("is not an argument of %(type)s queues", type=queue_type)
        yield DeclarationError(f"arguments.{argument}", words, reply)
    if queue_type == "quorum":
        asked_for = (queue.auto_delete, queue.exclusive, not queue.durable)
        for name, wrong in zip(_QUORUM_PROPERTIES, asked_for, strict=True):
            if wrong:
                member, word = _QUORUM_PROPERTIES[name]
                reply = precondition_failed(f"invalid property '{name}' for {named}")
                words = say("a quorum queue cannot be %(property)s", property=word)
                yield DeclarationError(member, words, reply)


def binding_errors(binding: Binding, source_type: str | None) -> Iterator[DeclarationError]:
    """Yield what is wrong with a binding whose ends exist.

    Args:
        source_type: type of the source exchange; None if unknown. Only headers exchanges check
            `x-match` (R-HDR-8), only topic exchanges limit the number of `#`.
    """
    for member, name in (("source", binding.source), ("destination", binding.destination)):
        if not name and (member == "source" or binding.destination_type == "exchange"):
            fault = say("the default exchange cannot be bound")
            yield DeclarationError(member, fault, default_exchange())
    if words := too_long(binding.routing_key):
        reply = precondition_failed(f"routing key {words}")
        yield DeclarationError("routing_key", words, reply)
    if source_type == "headers":
        yield from _x_match_errors(binding.arguments)
    if source_type == "topic" and (words := _hashes_complaint(binding.routing_key)):
        yield DeclarationError("routing_key", words, precondition_failed(words))


def policy_errors(
    policy: Policy, compat: Compat = "4.0", *, operator: bool
) -> Iterator[DeclarationError]:
    """Yield what is wrong with a policy or an operator policy."""
    yield from pattern_errors("pattern", policy.pattern)
    if policy.priority not in _PRIORITIES:
        words = say("priority %(priority)s is not a 64-bit integer", priority=str(policy.priority))
        yield _invalid_policy("priority", words, words)
    if policy.apply_to not in APPLY_TO:
        choices = ", ".join(APPLY_TO)
        hint = did_you_mean(policy.apply_to, APPLY_TO)
        yield _invalid_policy(
            "apply-to",
            say(
                "must be one of %(choices)s, not %(given)s%(hint)s",
                choices=choices,
                given=repr(policy.apply_to),
                hint=hint,
            ),
            f"apply-to '{policy.apply_to}' unrecognised; should be one of: {_RABBITMQ_CHOICES}",
        )
    if not policy.definition:
        words = say("must have at least one key")
        yield _invalid_policy("definition", words, "no policy provided")
    unrecognised = unrecognised_keys(policy, operator=operator)
    terms = ",".join(
        f"{{{erlang_binary(key)},{erlang_term(policy.definition[key])}}}" for key in unrecognised
    )
    for key in unrecognised:
        hint = did_you_mean(key, policy_keys(operator=operator))
        yield _invalid_policy(
            f"definition.{key}",
            say("is not a key of an operator policy%(hint)s", hint=hint)
            if operator
            else say("is not a key of a policy%(hint)s", hint=hint),
            f"[{terms}] are not recognised policy settings",
        )
    for key, error in policy_value_errors(policy, compat):
        yield _invalid_policy(f"definition.{key}", error.words, error.reason)


def permission_errors(permission: Permission) -> Iterator[DeclarationError]:
    """Yield what is wrong with a permission."""
    yield from pattern_errors("configure", permission.configure)
    yield from pattern_errors("write", permission.write)
    yield from pattern_errors("read", permission.read)


def topic_permission_errors(permission: TopicPermission) -> Iterator[DeclarationError]:
    """Yield what is wrong with a topic permission."""
    named = {"{username}": permission.user, "{vhost}": "vhost"}
    for member in ("write", "read"):
        text = getattr(permission, member)
        for variable, name in named.items():
            text = text.replace(variable, name)
        yield from pattern_errors(member, text)


def pattern_errors(member: str, pattern: str) -> Iterator[DeclarationError]:
    """Yield the error if a pattern cannot be used."""
    try:
        Pattern(pattern)
    except UnsupportedPatternError as error:
        words = say(
            "pattern %(pattern)s %(reason)s", pattern=repr(error.pattern), reason=error.reason
        )
        yield _invalid_policy(member, words, str(error))


def _invalid_policy(member: str, words: str, reply: str) -> DeclarationError:
    return DeclarationError(member, words, precondition_failed(f"Validation failed: {reply}"))


def _name_errors(kind: str, name: str, unnamed: Refusal) -> Iterator[DeclarationError]:
    if not name:
        yield DeclarationError("name", say("must not be empty"), unnamed)
    if name.startswith(RESERVED_PREFIX):
        reserved = say(
            "%(name)s begins with the reserved %(prefix)s",
            name=repr(name),
            prefix=repr(RESERVED_PREFIX),
        )
        yield DeclarationError("name", reserved, reserved_name(kind, name))
    if words := too_long(name):
        yield DeclarationError("name", words, precondition_failed(f"{kind} name {words}"))


def _text_errors(
    table: Table, arguments: tuple[str, ...], named: str
) -> Iterator[DeclarationError]:
    for argument in arguments:
        value = table.get(argument, "")
        if not isinstance(value, str):
            kind = amqp_type(value)
            reply = precondition_failed(f"invalid type '{kind}' for arg '{argument}' in {named}")
            words = say(
                "expected %(wanted)s, got %(given)s",
                wanted=say("a string"),
                given=type_in_words(value),
            )
            yield DeclarationError(f"arguments.{argument}", words, reply)


def _x_match_errors(arguments: Table) -> Iterator[DeclarationError]:
    """Yield the error if the `x-match` of a headers binding cannot be used (R-HDR-8)."""
    x_match = arguments.get("x-match", X_MATCH[0])
    if x_match in X_MATCH:
        return
    if isinstance(x_match, str):
        words = say(
            "must be one of %(choices)s, not %(given)s%(hint)s",
            choices=", ".join(X_MATCH),
            given=repr(x_match),
            hint=did_you_mean(x_match, X_MATCH),
        )
        reply = (
            f"Invalid x-match field value {erlang_term(x_match)};"
            " expected all, any, all-with-x, or any-with-x"
        )
    else:
        words = say(
            "expected %(wanted)s, got %(given)s",
            wanted=say("a string"),
            given=type_in_words(x_match),
        )
        reply = (
            f"Invalid x-match field type {amqp_type(x_match)} (value {erlang_term(x_match)});"
            " expected longstr"
        )
    yield DeclarationError("arguments.x-match", words, precondition_failed(reply))


def _hashes_complaint(binding_key: str) -> str | None:
    hashes = split_words(binding_key).count("#")
    if hashes <= MAX_HASHES:
        return None
    return say(
        "binding key '%(key)s' has %(hashes)s '#', more than %(most)s",
        key=binding_key,
        hashes=str(hashes),
        most=MAX_HASHES,
    )
