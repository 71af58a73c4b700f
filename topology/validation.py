"""Would RabbitMQ accept this declaration, and if not, with which reply?

`refuse_*` judge a declaration on its own, `inequivalent_*` one that meets an object of its name
(R-DEF-4). All answer with RabbitMQ's code and text, or None. RabbitMQ looks for the existing object
first: where it exists, ask `inequivalent_*` only.
"""

from collections.abc import Iterable

from topology.declarations import Binding, Exchange, Policy, Queue
from topology.erlang_terms import erlang_term
from topology.errors import (
    Refusal,
    UnsupportedPatternError,
    command_invalid,
    precondition_failed,
)
from topology.exchanges import EXCHANGE_TYPES
from topology.headers import X_MATCH
from topology.patterns import compile_pattern
from topology.policy_keys import APPLY_TO, recognition_complaint, unrecognised, value_faults
from topology.queue_arguments import KNOWN, argument_faults, foreign_arguments
from topology.refusals import (
    RESERVED_PREFIX,
    default_exchange,
    exchange_in,
    exclusive_queue,
    queue_in,
    reserved_name,
)
from topology.topic import split_words
from topology.values import AmqpValue, Compat, Table, amqp_type, match_key

MOST_NAME_BYTES = 255
"""Of names and keys: AMQP writes their length into one byte."""

MOST_HASHES = 10
"""`#` in one binding key of a topic exchange: more only make matching slow."""


def refuse_exchange(exchange: Exchange, vhost: str) -> Refusal | None:
    """Why an exchange that does not exist yet may not be declared so; None if it may."""
    if exchange.type not in EXCHANGE_TYPES:
        return command_invalid(f"unknown exchange type '{exchange.type}'")
    if not exchange.name:
        return default_exchange()
    if exchange.name.startswith(RESERVED_PREFIX):
        return reserved_name("exchange", exchange.name)
    if refusal := _too_long("exchange name", exchange.name):
        return refusal
    return _not_text(exchange.arguments, "alternate-exchange", exchange_in(exchange.name, vhost))


def refuse_queue(queue: Queue, vhost: str, compat: Compat = "4.0") -> Refusal | None:
    """Why a queue that does not exist yet may not be declared so; None if it may (R-POL-11)."""
    if not queue.name:
        return precondition_failed("a queue needs a name: server-named queues are not supported")
    if queue.name.startswith(RESERVED_PREFIX):
        return reserved_name("queue", queue.name)
    if refusal := _too_long("queue name", queue.name):
        return refusal
    named = queue_in(queue.name, vhost)
    for argument in ("x-dead-letter-exchange", "x-alternate-exchange"):
        if refusal := _not_text(queue.arguments, argument, named):
            return refusal
    for argument, fault in argument_faults(queue, compat):
        return precondition_failed(f"invalid arg '{argument}' for {named}: {fault.reason}")
    for argument in foreign_arguments(queue):
        module = f"rabbit_{queue.queue_type}_queue"
        return precondition_failed(f"invalid arg '{argument}' for {named} of queue type {module}")
    for unsuitable in unsuitable_properties(queue):
        return precondition_failed(f"invalid property '{unsuitable}' for {named}")
    return None


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


def refuse_binding(binding: Binding, vhost: str, source_type: str | None = None) -> Refusal | None:
    """Why a binding between things that exist may not be made; None if it may.

    Args:
        binding: the binding.
        vhost: its vhost; unused so far, as RabbitMQ's texts do not name it here.
        source_type: type of the source exchange. Only headers exchanges check `x-match` (R-HDR-8),
            only topic exchanges limit the number of `#`. Unknown: both are checked.
    """
    del vhost
    if not binding.source or (binding.destination_type == "exchange" and not binding.destination):
        return default_exchange()
    if refusal := _too_long("routing key", binding.routing_key):
        return refusal
    if source_type in {"headers", None} and (complaint := x_match_complaint(binding)):
        return precondition_failed(complaint)
    if source_type in {"topic", None} and (complaint := hashes_complaint(binding)):
        return precondition_failed(complaint)
    return None


def x_match_complaint(binding: Binding) -> str | None:
    """RabbitMQ's complaint about a headers binding's `x-match` (R-HDR-8)."""
    if "x-match" not in binding.arguments:
        return None
    x_match = binding.arguments["x-match"]
    if not isinstance(x_match, str):
        return (
            f"Invalid x-match field type {amqp_type(x_match)} (value {erlang_term(x_match)});"
            " expected longstr"
        )
    if x_match not in X_MATCH:
        return (
            f"Invalid x-match field value {erlang_term(x_match)};"
            " expected all, any, all-with-x, or any-with-x"
        )
    return None


def hashes_complaint(binding: Binding) -> str | None:
    """The complaint about a topic binding key with too many `#`."""
    hashes = split_words(binding.routing_key).count("#")
    if hashes <= MOST_HASHES:
        return None
    return f"binding key '{binding.routing_key}' has {hashes} '#', more than {MOST_HASHES}"


def refuse_policy(
    policy: Policy,
    operator: bool,  # noqa: FBT001 - it reads well: refuse_policy(policy, operator, vhost)
    vhost: str,
    compat: Compat = "4.0",
) -> Refusal | None:
    """Why a policy, or an operator policy, may not be set; None if it may.

    Args:
        policy: the policy.
        operator: whether it is to be an operator policy.
        vhost: its vhost; unused so far, as RabbitMQ's texts do not name it here.
        compat: 3.10 refuses a negative delivery limit.
    """
    del vhost
    for complaint in _policy_complaints(policy, compat, operator=operator):
        return precondition_failed(f"Validation failed: {complaint}")
    return None


def _policy_complaints(policy: Policy, compat: Compat, *, operator: bool) -> Iterable[str]:
    try:
        compile_pattern(policy.pattern)
    except UnsupportedPatternError as error:
        yield str(error)
    if policy.apply_to not in APPLY_TO:
        yield (
            f"apply-to '{policy.apply_to}' unrecognised; should be one of: {', '.join(APPLY_TO)}"
        )
    if unknown := unrecognised(policy, operator=operator):
        yield recognition_complaint(unknown)
    for _key, complaint in value_faults(policy, compat):
        yield complaint


def inequivalent_exchange(old: Exchange, new: Exchange, vhost: str) -> Refusal | None:
    """Why an exchange that exists as `old` may not be declared as `new`; None if it may."""
    if new.type not in EXCHANGE_TYPES:
        return command_invalid(f"unknown exchange type '{new.type}'")
    if not new.name:
        return default_exchange()
    named = exchange_in(new.name, vhost)
    fields: tuple[tuple[str, AmqpValue, AmqpValue], ...] = (
        ("type", old.type, new.type),
        ("durable", old.durable, new.durable),
        ("auto_delete", old.auto_delete, new.auto_delete),
        ("internal", old.internal, new.internal),
    )
    return _different_field(fields, named) or _different_argument(
        old.arguments, new.arguments, ("alternate-exchange",), named
    )


def inequivalent_queue(old: Queue, new: Queue, vhost: str) -> Refusal | None:
    """Why a queue that exists as `old` may not be declared as `new`; None if it may.

    Arguments that the queue type does not know are not compared.
    """
    if old.exclusive != new.exclusive:
        return exclusive_queue(new.name, vhost)
    named = queue_in(new.name, vhost)
    fields: tuple[tuple[str, AmqpValue, AmqpValue], ...] = (
        ("durable", old.durable, new.durable),
        ("auto_delete", old.auto_delete, new.auto_delete),
    )
    return _different_field(fields, named) or _different_argument(
        old.arguments, new.arguments, sorted(KNOWN[old.queue_type]), named
    )


def _different_field(
    fields: Iterable[tuple[str, AmqpValue, AmqpValue]], named: str
) -> Refusal | None:
    for name, old, new in fields:
        if old != new:
            return precondition_failed(
                f"inequivalent arg '{name}' for {named}: "
                f"received '{_plain(new)}' but current is '{_plain(old)}'"
            )
    return None


def _different_argument(old: Table, new: Table, names: Iterable[str], named: str) -> Refusal | None:
    for name in names:
        if name == "x-queue-type" and old.get(name, "classic") == new.get(name, "classic"):
            continue  # a classic queue need not say so
        both_or_none = (name in old) == (name in new)
        if both_or_none and match_key(old.get(name)) == match_key(new.get(name)):
            continue
        return precondition_failed(
            f"inequivalent arg '{name}' for {named}: "
            f"received {_typed(new, name)} but current is {_typed(old, name)}"
        )
    return None


def _typed(table: Table, name: str) -> str:
    if name not in table:
        return "none"
    return f"the value '{_plain(table[name])}' of type '{amqp_type(table[name])}'"


def _plain(value: AmqpValue) -> str:
    """A value without the marks that tell a string from other terms."""
    return value if isinstance(value, str) else erlang_term(value)


def _not_text(table: Table, argument: str, named: str) -> Refusal | None:
    if argument not in table or isinstance(table[argument], str):
        return None
    return precondition_failed(
        f"invalid type '{amqp_type(table[argument])}' for arg '{argument}' in {named}"
    )


def _too_long(what: str, text: str) -> Refusal | None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= MOST_NAME_BYTES:
        return None
    return precondition_failed(f"{what} of {size} bytes is longer than {MOST_NAME_BYTES}")
