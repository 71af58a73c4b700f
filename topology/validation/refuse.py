"""Would RabbitMQ accept this declaration, and if not, with which reply?

`refuse_*` judge a declaration on its own, `inequivalent_*` one that meets an object of its name.
They answer with RabbitMQ's code and text, or None. RabbitMQ looks for the existing object first:
where it exists, ask `inequivalent_*` only. `check_definitions` collects everything that is wrong
with the definitions of a vhost.
"""

from collections.abc import Iterable

from topology.declarations import Binding, Exchange, Policy, Queue
from topology.errors import (
    Refusal,
    UnsupportedPatternError,
    command_invalid,
    precondition_failed,
)
from topology.names import RESERVED_PREFIX, too_long
from topology.patterns import compile_pattern
from topology.refusals import default_exchange, exchange_in, queue_in, reserved_name
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.validation.arguments import argument_faults, foreign_arguments, unsuitable_properties
from topology.validation.bindings import hashes_complaint, x_match_complaint
from topology.validation.equivalence import inequivalent_exchange, inequivalent_queue
from topology.validation.policy_keys import (
    APPLY_TO,
    NOTHING_SET,
    recognition_complaint,
    unrecognised,
    value_faults,
)
from topology.validation.problems import check_definitions
from topology.values import Compat, Table, amqp_type

__all__ = [
    "check_definitions",
    "inequivalent_exchange",
    "inequivalent_queue",
    "refuse_binding",
    "refuse_exchange",
    "refuse_policy",
    "refuse_queue",
]


_PRIORITIES = range(-(2**63), 2**63)


def refuse_exchange(exchange: Exchange, vhost: str) -> Refusal | None:
    """Why an exchange that does not exist yet may not be declared so; None if it may."""
    if exchange.type not in EXCHANGE_TYPES:
        return command_invalid(f"unknown exchange type '{exchange.type}'")
    if not exchange.name:
        return default_exchange()
    if exchange.name.startswith(RESERVED_PREFIX):
        return reserved_name("exchange", exchange.name)
    if complaint := too_long(exchange.name):
        return precondition_failed(f"exchange name {complaint}")
    return _not_text(exchange.arguments, "alternate-exchange", exchange_in(exchange.name, vhost))


def refuse_queue(queue: Queue, vhost: str, compat: Compat = "4.0") -> Refusal | None:
    """Why a queue that does not exist yet may not be declared so; None if it may (R-POL-11)."""
    if not queue.name:
        return precondition_failed("a queue needs a name: server-named queues are not supported")
    if queue.name.startswith(RESERVED_PREFIX):
        return reserved_name("queue", queue.name)
    if complaint := too_long(queue.name):
        return precondition_failed(f"queue name {complaint}")
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
    if complaint := too_long(binding.routing_key):
        return precondition_failed(f"routing key {complaint}")
    if source_type in {"headers", None} and (complaint := x_match_complaint(binding)):
        return precondition_failed(complaint)
    if source_type in {"topic", None} and (complaint := hashes_complaint(binding)):
        return precondition_failed(complaint)
    return None


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
    if policy.priority not in _PRIORITIES:
        yield f"priority {policy.priority} is not a 64-bit integer"
    if policy.apply_to not in APPLY_TO:
        yield (
            f"apply-to '{policy.apply_to}' unrecognised; should be one of: {', '.join(APPLY_TO)}"
        )
    if not policy.definition:
        yield NOTHING_SET
    if unknown := unrecognised(policy, operator=operator):
        yield recognition_complaint(unknown)
    for _key, complaint in value_faults(policy, compat):
        yield complaint


def _not_text(table: Table, argument: str, named: str) -> Refusal | None:
    if argument not in table or isinstance(table[argument], str):
        return None
    return precondition_failed(
        f"invalid type '{amqp_type(table[argument])}' for arg '{argument}' in {named}"
    )
