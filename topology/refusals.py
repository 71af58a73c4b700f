"""Refusals: AMQP errors as data, in RabbitMQ's words.

One client's mistake must not stop the log, so a refused command yields a `Refusal` instead of an
exception. RabbitMQ prints values in its replies as Erlang terms: see `erlang_terms`.
"""

import msgspec

from topology.declarations import RESERVED_PREFIX
from topology.values import Compat


class Refusal(msgspec.Struct, frozen=True):
    """An AMQP error: its reply code, and RabbitMQ's text such as `NOT_FOUND - no queue ...`."""

    code: int
    text: str

    @property
    def is_of_connection(self) -> bool:
        """Whether AMQP closes the whole connection for it, not only the channel."""
        return self.code in _CONNECTION_ERRORS


_CONNECTION_ERRORS = frozenset({320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541})


def access_refused(text: str) -> Refusal:
    """403: a reserved name, an internal exchange, or a missing permission."""
    return Refusal(403, f"ACCESS_REFUSED - {text}")


def not_found(text: str) -> Refusal:
    """404: the exchange, queue or binding does not exist."""
    return Refusal(404, f"NOT_FOUND - {text}")


def resource_locked(text: str) -> Refusal:
    """405: an exclusive queue of another connection."""
    return Refusal(405, f"RESOURCE_LOCKED - {text}")


def precondition_failed(text: str) -> Refusal:
    """406: an invalid or inequivalent argument, or an object in use."""
    return Refusal(406, f"PRECONDITION_FAILED - {text}")


def not_allowed(text: str) -> Refusal:
    """530: a limit is reached, or a consumer tag used again."""
    return Refusal(530, f"NOT_ALLOWED - {text}")


def channel_error(text: str) -> Refusal:
    """504: a channel is used as its state does not allow."""
    return Refusal(504, f"CHANNEL_ERROR - {text}")


def command_invalid(text: str) -> Refusal:
    """503: a command that makes no sense here, such as an unknown exchange type."""
    return Refusal(503, f"COMMAND_INVALID - {text}")


def unknown_exchange_type(exchange_type: str, compat: Compat) -> Refusal:
    """503, which closes the connection; since RabbitMQ 4.0, 406.

    What is a word in Erlang is invalid, not unknown: of these, only the empty one is told here.
    """
    text = f"{'unknown' if exchange_type else 'invalid'} exchange type '{exchange_type}'"
    return command_invalid(text) if compat == "3.10" else precondition_failed(text)


def user_id_mismatch(user_id: str, user: str) -> Refusal:
    """406: the property `user_id` of a message names another user (R-USER-1)."""
    return precondition_failed(
        f"user_id property set to '{user_id}' but authenticated user was '{user}'"
    )


def not_implemented(text: str) -> Refusal:
    """540: a feature of RabbitMQ that is not available here."""
    return Refusal(540, f"NOT_IMPLEMENTED - {text}")


def no_exchange(name: str, vhost: str) -> Refusal:
    """404: the exchange does not exist (R-ROUTE-10)."""
    return not_found(f"no {exchange_in(name, vhost)}")


def no_queue(name: str, vhost: str) -> Refusal:
    """404: the queue does not exist."""
    return not_found(f"no {queue_in(name, vhost)}")


def internal_exchange(name: str, vhost: str) -> Refusal:
    """403: clients may not publish to an internal exchange (R-ROUTE-8)."""
    return access_refused(f"cannot publish to internal {exchange_in(name, vhost)}")


def default_exchange() -> Refusal:
    """403: the default exchange is not configurable (R-ROUTE-1)."""
    return access_refused("operation not permitted on the default exchange")


def reserved_name(kind: str, name: str) -> Refusal:
    """403: names that begin with `amq.` are reserved for the broker."""
    return access_refused(f"{kind} name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'")


def exclusive_queue(name: str, vhost: str) -> Refusal:
    """405: the queue belongs to another channel."""
    return resource_locked(
        f"cannot obtain exclusive access to locked {queue_in(name, vhost)}. It could be originally"
        " declared on another connection or the exclusive property value does not match that of"
        " the original declaration."
    )


def exchange_in_use(name: str, vhost: str) -> Refusal:
    """406: `if_unused` was set and the exchange has bindings."""
    return precondition_failed(f"{exchange_in(name, vhost)} in use")


def queue_in_use(name: str, vhost: str) -> Refusal:
    """406: `if_unused` was set and the queue has consumers."""
    return precondition_failed(f"{queue_in(name, vhost)} in use")


def queue_not_empty(name: str, vhost: str) -> Refusal:
    """406: `if_empty` was set and the queue has messages."""
    return precondition_failed(f"{queue_in(name, vhost)} not empty")


def unknown_delivery(ref: str) -> Refusal:
    """406: no unacknowledged delivery has that delivery tag (here: ref or id)."""
    return precondition_failed(f"unknown delivery tag {ref}")


def refuse_exchange_deletion(name: str, vhost: str) -> Refusal | None:
    """403 for predeclared exchanges; None if the exchange may be deleted."""
    if not name:
        return default_exchange()
    if name.startswith(RESERVED_PREFIX):
        return access_refused(f"deletion of system {exchange_in(name, vhost)} not allowed")
    return None


def exchange_in(name: str, vhost: str) -> str:
    """An exchange as RabbitMQ names it in replies."""
    return f"exchange '{name}' in vhost '{vhost}'"


def unconditional(name: str, vhost: str, flag: str) -> str:
    """Why a quorum queue is not deleted on a condition, `if-unused` or `if-empty`."""
    return (
        f"cannot delete {queue_in(name, vhost)}. queue.delete operations with {flag} flag set are"
        " not supported by quorum queues"
    )


def queue_in(name: str, vhost: str) -> str:
    """A queue as RabbitMQ names it in replies."""
    return f"queue '{name}' in vhost '{vhost}'"
