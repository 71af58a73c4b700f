"""The methods of a channel that declare, bind and delete exchanges and queues.

A queue without a name is the last one that the channel declared. Ends of lines in names are left
out, as in RabbitMQ, but not where a queue is purged.
"""

from collections.abc import Callable
from typing import Any, Final

from streaming.amqp import methods as m
from streaming.amqp.errors import NOT_FOUND, NOT_IMPLEMENTED, AmqpError, error
from streaming.amqp.outgoing import Outgoing
from streaming.amqp.reply_to import REPLY_TO_QUEUE, ReplyConsumers
from streaming.amqp.requests import Answered, Requests, nothing
from streaming.broker import commands
from topology.declarations import Binding, Exchange, Queue
from topology.refusals import default_exchange, no_queue, unconditional


class Declaring:
    """Declares for one channel."""

    def __init__(
        self, channel_name: str, requests: Requests, outgoing: Outgoing, replies: ReplyConsumers
    ) -> None:
        self._channel = channel_name
        self._requests = requests
        self._outgoing = outgoing
        self._replies = replies
        self._last_queue = ""

    def queue_named(self, name: str) -> str:
        """The named queue, or the last one that this channel declared.

        Raises:
            AmqpError: 404, none was named, and none was declared.
        """
        if name:
            return name
        if not self._last_queue:
            raise error(NOT_FOUND, "no previously declared queue")
        return self._last_queue

    # -- exchanges

    def declare_exchange(self, method: m.ExchangeDeclare) -> None:
        """Declare an exchange, or check that it exists."""
        name = on_one_line(method.exchange)
        if method.passive and not name:
            refusal = default_exchange()
            raise AmqpError(refusal.code, refusal.text)
        exchange = Exchange(
            name,
            method.type,
            method.durable,
            method.auto_delete,
            method.internal,
            method.arguments,
        )
        command = commands.DeclareExchange(
            exchange=exchange, passive=method.passive, channel=self._channel
        )
        self._ask(method, command, m.ExchangeDeclareOk())

    def delete_exchange(self, method: m.ExchangeDelete) -> None:
        """Delete an exchange."""
        command = commands.DeleteExchange(
            exchange=on_one_line(method.exchange),
            if_unused=method.if_unused,
            channel=self._channel,
        )
        self._ask(method, command, m.ExchangeDeleteOk())

    def bind_exchange(self, method: m.ExchangeBind) -> None:
        """Bind an exchange to an exchange."""
        command = commands.Bind(binding=_between_exchanges(method), channel=self._channel)
        self._ask(method, command, m.ExchangeBindOk())

    def unbind_exchange(self, method: m.ExchangeUnbind) -> None:
        """Remove a binding between exchanges."""
        command = commands.Unbind(binding=_between_exchanges(method), channel=self._channel)
        self._ask(method, command, m.ExchangeUnbindOk())

    # -- queues

    def declare_queue(self, method: m.QueueDeclare) -> None:
        """Declare a queue, or check that it exists; the broker names one without a name."""
        name = on_one_line(method.queue)
        if method.passive and not name:  # not the last one declared: a name is asked for
            refusal = no_queue(name, self._requests.vhost.name)
            raise AmqpError(refusal.code, refusal.text)
        if name.startswith(REPLY_TO_QUEUE):
            self._declare_reply_queue(name, method)
            return
        queue = Queue(name, method.durable, method.auto_delete, method.exclusive, method.arguments)
        if not method.passive:
            queue = queue.of_default_type(self._requests.vhost.default_queue_type)
        command = commands.DeclareQueue(queue=queue, passive=method.passive, channel=self._channel)

        def declared(result: dict[str, Any]) -> None:
            self._last_queue = result["queue"]
            if not method.nowait:
                counts = result["ready"], result["consumers"]
                self._outgoing.method(m.QueueDeclareOk(self._last_queue, *counts))

        self._requests.ask(method.ids, command, declared)

    def _declare_reply_queue(self, name: str, method: m.QueueDeclare) -> None:
        """Say whether a direct reply-to address has a consumer."""
        if name != REPLY_TO_QUEUE and not self._replies.exists(name):
            refusal = no_queue(name, self._requests.vhost.name)
            raise AmqpError(refusal.code, refusal.text)
        self._last_queue = name
        if not method.nowait:
            self._outgoing.method(m.QueueDeclareOk(name, 0, 1))

    def bind_queue(self, method: m.QueueBind) -> None:
        """Bind a queue to an exchange."""
        command = commands.Bind(binding=self._binding(method), channel=self._channel)
        self._ask(method, command, m.QueueBindOk())

    def unbind_queue(self, method: m.QueueUnbind) -> None:
        """Remove a binding of a queue."""
        command = commands.Unbind(binding=self._binding(method), channel=self._channel)
        self._requests.ask(method.ids, command, self._answer(m.QueueUnbindOk()))

    def _binding(self, method: m.QueueBind | m.QueueUnbind) -> Binding:
        """The binding that is meant; without a queue and a key, the key is the queue's name."""
        name, key = self.queue_named(method.queue), method.routing_key
        if not method.queue and not key:
            key = name
        source, destination = on_one_line(method.exchange), on_one_line(name)
        return Binding(source, destination, "queue", key, method.arguments)

    def purge_queue(self, method: m.QueuePurge) -> None:
        """Remove the ready messages of a queue."""
        command = commands.Purge(queue=self.queue_named(method.queue), channel=self._channel)

        def purged(result: dict[str, Any]) -> None:
            self._outgoing.method(m.QueuePurgeOk(result["purged"]))

        self._requests.ask(method.ids, command, nothing if method.nowait else purged)

    def delete_queue(self, method: m.QueueDelete) -> None:
        """Delete a queue."""
        name = on_one_line(self.queue_named(method.queue))
        self._refuse_conditions(name, method)
        command = commands.DeleteQueue(
            queue=name,
            if_unused=method.if_unused,
            if_empty=method.if_empty,
            channel=self._channel,
        )

        def deleted(result: dict[str, Any]) -> None:
            self._outgoing.method(m.QueueDeleteOk(result["deleted_ready"]))

        self._requests.ask(method.ids, command, nothing if method.nowait else deleted)

    def _refuse_conditions(self, name: str, method: m.QueueDelete) -> None:
        """RabbitMQ deletes no quorum queue on a condition; clients without AMQP may.

        Raises:
            AmqpError: 540.
        """
        vhost = self._requests.vhost
        queue = vhost.shard.vhost.queues.get(name)
        if queue is None or queue.queue_type != "quorum":
            return
        for flag, is_set in (("if-unused", method.if_unused), ("if-empty", method.if_empty)):
            if is_set:
                raise error(NOT_IMPLEMENTED, unconditional(name, vhost.name, flag))

    def _ask(
        self,
        method: m.ExchangeDeclare
        | m.ExchangeDelete
        | m.ExchangeBind
        | m.ExchangeUnbind
        | m.QueueBind,
        command: commands.Command,
        answer: m.Method,
    ) -> None:
        done = nothing if method.nowait else self._answer(answer)
        self._requests.ask(method.ids, command, done)

    def _answer(self, method: m.Method) -> Answered:
        return lambda _result: self._outgoing.method(method)


def _between_exchanges(method: m.ExchangeBind | m.ExchangeUnbind) -> Binding:
    source, destination = on_one_line(method.source), on_one_line(method.destination)
    return Binding(source, destination, "exchange", method.routing_key, method.arguments)


def on_one_line(name: str) -> str:
    """A name without ends of lines, as RabbitMQ declares it."""
    return name.replace("\r", "").replace("\n", "")


HANDLERS: Final[dict[type[m.Method], Callable[[Declaring, Any], None]]] = {
    m.ExchangeDeclare: Declaring.declare_exchange,
    m.ExchangeDelete: Declaring.delete_exchange,
    m.ExchangeBind: Declaring.bind_exchange,
    m.ExchangeUnbind: Declaring.unbind_exchange,
    m.QueueDeclare: Declaring.declare_queue,
    m.QueueBind: Declaring.bind_queue,
    m.QueueUnbind: Declaring.unbind_queue,
    m.QueuePurge: Declaring.purge_queue,
    m.QueueDelete: Declaring.delete_queue,
}
"""The method of each declaration."""
