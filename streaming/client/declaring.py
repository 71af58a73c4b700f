"""What a channel declares and asks of the topology; refusals are exceptions with RabbitMQ's codes.

Every call waits for the broker's answer and may raise, besides what it says, NoAnswerError or
KafkaUnreachableError. A refusal closes the channel, as RabbitMQ does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from streaming.client.definitions import Definitions
from streaming.client.errors import ClientError
from streaming.client.records import table_document

Arguments = Mapping[str, Any]


class QueueState(NamedTuple):
    """A declared queue: its name (the broker's, if none was given), and what is there."""

    queue: str
    ready: int
    consumers: int


class Declaring(Definitions):
    """The calls of a channel that are about the topology."""

    # -- queues

    def declare_queue(
        self,
        queue: str = "",
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
        passive: bool = False,
    ) -> QueueState:
        """Declare a queue, or with `passive` only ask whether it exists.

        Raises:
            PreconditionFailedError: it exists with other properties (R-DEF-3).
            NotFoundError: with `passive`, it does not exist.
        """
        declaration = {
            "name": queue,
            "durable": durable,
            "exclusive": exclusive,
            "auto_delete": auto_delete,
            "arguments": arguments_table(arguments),
        }
        answer = self.ask("declare_queue", queue=declaration, passive=passive)
        return QueueState(answer["queue"], answer["ready"], answer["consumers"])

    def delete_queue(self, queue: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; one that is not there is no error. Returns how many were ready.

        Raises:
            PreconditionFailedError: it is in use, or not empty, and that was asked for.
        """
        answer = self.ask("delete_queue", queue=queue, if_unused=if_unused, if_empty=if_empty)
        return int(answer["deleted_ready"])

    def purge_queue(self, queue: str) -> int:
        """Remove all ready messages; they are not dead-lettered (R-GONE-1). Returns how many.

        Raises:
            NotFoundError: there is no such queue.
        """
        return int(self.ask("purge", queue=queue)["purged"])

    def queue_depth(self, queue: str) -> int:
        """How many messages are ready.

        Raises:
            NotFoundError: there is no such queue.
        """
        return int(self.ask("depth", queue=queue)["ready"])

    # -- exchanges

    def declare_exchange(
        self,
        exchange: str,
        exchange_type: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments | None = None,
        passive: bool = False,
    ) -> None:
        """Declare an exchange, or with `passive` only ask whether it exists.

        Raises:
            PreconditionFailedError: it exists with other properties.
            NotFoundError: with `passive`, it does not exist.
        """
        declaration = {
            "name": exchange,
            "type": exchange_type,
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": arguments_table(arguments),
        }
        self.ask("declare_exchange", exchange=declaration, passive=passive)

    def delete_exchange(self, exchange: str, *, if_unused: bool = False) -> None:
        """Delete an exchange; one that is not there is no error.

        Raises:
            PreconditionFailedError: it has bindings, and `if_unused` was asked for.
        """
        self.ask("delete_exchange", exchange=exchange, if_unused=if_unused)

    # -- bindings

    def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None
    ) -> None:
        """Bind a queue to an exchange.

        Raises:
            NotFoundError: either is not there.
        """
        self.ask("bind", binding=_binding(exchange, "queue", queue, routing_key, arguments))

    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None
    ) -> None:
        """Remove a binding of a queue; one that is not there is no error."""
        self.ask("unbind", binding=_binding(exchange, "queue", queue, routing_key, arguments))

    def bind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        arguments: Arguments | None = None,
    ) -> None:
        """Bind an exchange to another.

        Raises:
            NotFoundError: either is not there.
        """
        self.ask("bind", binding=_binding(source, "exchange", destination, routing_key, arguments))

    def unbind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        arguments: Arguments | None = None,
    ) -> None:
        """Remove a binding of an exchange; one that is not there is no error."""
        binding = _binding(source, "exchange", destination, routing_key, arguments)
        self.ask("unbind", binding=binding)

    # -- policies and permissions; for administrators

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: Arguments,
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> None:
        """Create or replace a policy, or an operator policy; takes effect at once (R-POL-8).

        Raises:
            AccessRefusedError: the user is no administrator.
            PreconditionFailedError: the policy is wrong.
        """
        policy = {
            "name": name,
            "pattern": pattern,
            "definition": arguments_table(definition),
            "priority": priority,
            "apply-to": apply_to,
        }
        self.ask("set_operator_policy" if operator else "set_policy", policy=policy)

    def clear_policy(self, name: str, *, operator: bool = False) -> None:
        """Remove a policy.

        Raises:
            AccessRefusedError: the user is no administrator.
        """
        self.ask("clear_operator_policy" if operator else "clear_policy", name=name)

    def set_permissions(
        self, user: str, *, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        """Say what a user may do, as three patterns; the empty one grants nothing.

        Raises:
            AccessRefusedError: we are no administrator.
        """
        self.ask("set_permissions", user=user, configure=configure, write=write, read=read)

    def clear_permissions(self, user: str) -> None:
        """Take all permissions of a user away.

        Raises:
            AccessRefusedError: we are no administrator.
        """
        self.ask("clear_permissions", user=user)


def _binding(
    source: str, kind: str, destination: str, routing_key: str, arguments: Arguments | None
) -> dict[str, object]:
    return {
        "source": source,
        "destination": destination,
        "destination_type": kind,
        "routing_key": routing_key,
        "arguments": arguments_table(arguments),
    }


def arguments_table(arguments: Arguments | None) -> dict[str, object]:
    """The JSON form of arguments.

    Raises:
        ClientError: they are no AMQP table.
    """
    try:
        return table_document(arguments or {})
    except (AttributeError, TypeError, ValueError) as error:
        raise ClientError(f"the arguments are no AMQP table: {error}") from error
