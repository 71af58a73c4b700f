"""Would RabbitMQ accept this declaration? Its refusal if not, None if it would.

RabbitMQ looks for an existing object of the same name first: use `inequivalent_*` if there is one
(R-DEF-4), `refuse_*` if there is none.
"""

from collections.abc import Iterable, Iterator

from topology.declarations import Binding, Exchange, Policy, Queue
from topology.erlang_terms import erlang_term, readable
from topology.refusals import (
    Refusal,
    default_exchange,
    exchange_in,
    exclusive_queue,
    precondition_failed,
    queue_in,
    unknown_exchange_type,
)
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.validation.arguments import COMPARED_ARGUMENTS
from topology.validation.declaration_errors import (
    DeclarationError,
    binding_errors,
    exchange_errors,
    policy_errors,
    queue_errors,
)
from topology.values import AmqpValue, Compat, Table, amqp_type, match_key


def refuse_exchange(exchange: Exchange, vhost: str, compat: Compat = "4.0") -> Refusal | None:
    """Check an exchange that does not exist yet."""
    return _first(exchange_errors(exchange, vhost, compat))


def refuse_queue(
    queue: Queue, vhost: str, compat: Compat = "4.0", *, server_named: bool = False
) -> Refusal | None:
    """Check a queue that does not exist yet.

    Args:
        server_named: the broker chose the name, so it may begin with `amq.`.
    """
    errors = queue_errors(queue, vhost, compat)
    return _first(error for error in errors if not (server_named and error.member == "name"))


def refuse_binding(binding: Binding, source_type: str) -> Refusal | None:
    """Check a binding between an exchange of that type and a destination that exists."""
    return _first(binding_errors(binding, source_type))


def refuse_policy(policy: Policy, compat: Compat = "4.0", *, operator: bool) -> Refusal | None:
    """Check a policy, or an operator policy."""
    return _first(policy_errors(policy, compat, operator=operator))


def inequivalent_exchange(
    old: Exchange, new: Exchange, vhost: str, compat: Compat = "4.0"
) -> Refusal | None:
    """Check a second declaration, `new`, of an exchange that exists as `old`."""
    if new.type not in EXCHANGE_TYPES:
        return unknown_exchange_type(new.type, compat)
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


def inequivalent_queue(
    old: Queue, new: Queue, vhost: str, compat: Compat = "4.0"
) -> Refusal | None:
    """Check a second declaration, `new`, of a queue that exists as `old`.

    Arguments that the queue type does not know are not compared.
    """
    if old.exclusive != new.exclusive:
        return exclusive_queue(new.name, vhost)
    named = queue_in(new.name, vhost)
    fields: tuple[tuple[str, AmqpValue, AmqpValue], ...] = (
        ("durable", old.durable, new.durable),
        ("auto_delete", old.auto_delete, new.auto_delete),
    )
    before, after = old.arguments, new.arguments
    if compat != "3.10":  # later versions know the type of every queue
        before = {"x-queue-type": "classic", **before}
        after = {"x-queue-type": "classic", **after}
    return _different_field(fields, named) or _different_argument(
        before, after, COMPARED_ARGUMENTS[old.queue_type], named
    )


def _first(errors: Iterator[DeclarationError]) -> Refusal | None:
    error = next(errors, None)
    return None if error is None else error.refusal


def _different_field(
    fields: Iterable[tuple[str, AmqpValue, AmqpValue]], named: str
) -> Refusal | None:
    for name, old, new in fields:
        if old != new:
            return _inequivalent(name, named, f"'{_plain(new)}'", f"'{_plain(old)}'")
    return None


def _different_argument(old: Table, new: Table, names: Iterable[str], named: str) -> Refusal | None:
    for name in names:
        if name == "x-queue-type" and old.get(name, "classic") == new.get(name, "classic"):
            continue  # a classic queue need not say so
        both_or_none = (name in old) == (name in new)
        if both_or_none and match_key(old.get(name)) == match_key(new.get(name)):
            continue
        if both_or_none:
            return _inequivalent(name, named, f"'{_plain(new[name])}'", f"'{_plain(old[name])}'")
        return _inequivalent(name, named, _typed(new, name), _typed(old, name))
    return None


def _inequivalent(name: str, named: str, received: str, current: str) -> Refusal:
    return precondition_failed(
        f"inequivalent arg '{name}' for {named}: received {received} but current is {current}"
    )


def _typed(table: Table, name: str) -> str:
    if name not in table:
        return "none"
    return f"the value '{_plain(table[name])}' of type '{amqp_type(table[name])}'"


def _plain(value: AmqpValue) -> str:
    """Print a value without the marks that tell a text from other Erlang terms."""
    match value:
        case str():
            return value
        case bytes():
            return readable(value)
    return erlang_term(value)
