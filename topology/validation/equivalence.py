"""Is a second declaration of the same name the same declaration (R-DEF-4)?"""

from collections.abc import Iterable

from topology.declarations import Exchange, Queue
from topology.erlang_terms import erlang_term
from topology.errors import Refusal, command_invalid, precondition_failed
from topology.refusals import default_exchange, exchange_in, exclusive_queue, queue_in
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.validation.arguments import KNOWN
from topology.values import AmqpValue, Table, amqp_type, match_key


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
