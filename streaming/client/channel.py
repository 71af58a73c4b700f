"""A channel: it gets, consumes, settles and declares. An error of the broker closes it.

    opened --> get, consume, settle, declare --> closed by this client: unacked is requeued
       ^            |         |
       |            |         +--> refused by the broker: closed, with the error
       |            +--> no command within its lease: the broker closes the channel by itself
       +---- reopened, consumers restarted; earlier deliveries were requeued ----+

Settling a delivery that is no longer unacked on the channel changes nothing; `sync` reports it.
"""

import logging
import threading
from collections.abc import Mapping
from typing import Any, Self

from streaming.client import definitions
from streaming.client._transport.dispatch import Receiver
from streaming.client._transport.link import Link
from streaming.client._wire import Inbound, arguments_document, delivery_ids, refusal_of
from streaming.client.definitions import ImportResult, QueueState
from streaming.client.deliveries import Callback, Consumer, Deliveries
from streaming.client.errors import (
    ChannelClosedError,
    ClientError,
    KafkaUnreachableError,
    NoAnswerError,
)
from streaming.client.lease import Lease
from streaming.client.messages import Delivery, Settled
from streaming.protocol.defaults import PREFETCH, REQUEUE

logger = logging.getLogger("dlx.client")

Arguments = Mapping[str, Any]

MessageId = str | tuple[int, int, int]
"""Topic number, partition and offset of the record that published a message; text: `1/0/42`."""

MAX_MISSING = 10_000

_UNANSWERED = (NoAnswerError, KafkaUnreachableError, KeyboardInterrupt)
"""After these the job may still execute the command."""


class Channel:
    """Gets, consumes, settles and declares; created by `Connection.channel`.

    Calls that return something, and all declarations, wait for the broker's answer. Besides the
    errors they name, they raise NoAnswerError or KafkaUnreachableError if the job or Kafka is
    down, AccessRefusedError without permission, and ChannelClosedError on a closed channel.

    Attributes:
        name: identifies the channel together with the user.
        lease_s: how long the broker keeps the channel without a command.
        reopen_count: how often the broker had closed the channel and the client reopened it.
    """

    def __init__(self, link: Link, name: str, lease_s: float) -> None:
        self._link = link
        self.name = name
        self.lease_s = lease_s
        self.reopen_count = 0
        self._lock = threading.Lock()
        self._deliveries = Deliveries(self, lambda tag: self._send("cancel", **{"as": tag}))
        self._missing: list[str] = []
        self._open = False
        self._closed_by: ClientError | None = None
        self._lease = Lease(link, name, lease_s, self._reopened)
        receiver = Receiver(self._receive, self._lease.renew_if_due, closing=self.close)
        link.dispatch.add(name, receiver)
        try:
            self._lease.open()
        except BaseException:
            link.dispatch.remove(name)
            raise
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether the channel can be used."""
        return self._open

    def close(self) -> None:
        """Close the channel: its consumers end and the broker requeues what is unacknowledged."""
        if self._open:
            self._end(None)
            self._link.commands.send({"op": "close_channel"}, self.name)

    def detach(self) -> None:
        """Leave the channel open at the broker until its lease ends.

        Another process can continue with it by its name.
        """
        self._end(None)

    # -- deliveries

    def get(
        self, queue: str, *, auto_ack: bool = False, message: MessageId | None = None
    ) -> Delivery | None:
        """Get one message from the head of a queue.

        If no answer comes in time, the client requeues what the broker delivers later.

        Args:
            queue: the name of the queue.
            auto_ack: acknowledge at once.
            message: get this message instead, wherever it is in the queue: `"1/0/42"`, as `dlx
                dead-letters list` prints it, or an `origin`. In a long queue it takes longer.

        Returns:
            The delivery; None if the queue is empty, or the message is not ready in it.

        Raises:
            NotFoundError: the queue does not exist.
        """
        deliveries = self.get_many(queue, 1, auto_ack=auto_ack, message=message)
        return deliveries[0] if deliveries else None

    def get_many(
        self,
        queue: str,
        count: int,
        *,
        auto_ack: bool = False,
        message: MessageId | None = None,
    ) -> list[Delivery]:
        """Get up to `count` messages, or copies of one message; see `get`."""
        label = self._link.new_name("get")
        deliveries = self._deliveries.begin_get(label)
        members: dict[str, Any] = {"count": count, "auto_ack": auto_ack, "as": label}
        if message is not None:
            members["message"] = _text_of(message)
        try:
            self._request("get", queue=queue, lease_ms=self._lease.lease_ms, **members)
        except _UNANSWERED:
            if not auto_ack:
                self._deliveries.abandon_get(label, count)
            raise
        finally:
            self._deliveries.end_get(label)
        return deliveries

    def consume(
        self,
        queue: str,
        callback: Callback | None = None,
        *,
        prefetch: int = PREFETCH,
        auto_ack: bool = False,
        consumer_tag: str | None = None,
        timeout_s: float | None = None,
    ) -> Consumer:
        """Start a consumer. Iterate over the result, or pass a callback.

        If no answer comes in time, the client cancels the consumer and requeues what it delivers.

        Args:
            queue: the name of the queue.
            callback: called by `start_consuming` with each delivery.
            prefetch: the most unacknowledged deliveries; 0 means no limit.
            auto_ack: acknowledge each delivery at once.
            consumer_tag: by default a new one.
            timeout_s: ends the iteration after this time without a delivery.

        Raises:
            NotFoundError: the queue does not exist.
            NotAllowedError: the consumer tag is in use on this channel, which stays open.
        """
        consumer = Consumer(
            consumer_tag or self._link.new_name("consumer"),
            queue,
            prefetch,
            auto_ack=auto_ack,
            timeout_s=timeout_s,
            callback=callback,
            cancel=self.cancel,
        )
        self._deliveries.add(consumer)
        try:
            self._request(**self._consume_command(consumer))
        except _UNANSWERED:
            self._deliveries.abandon_consumer(consumer.tag)
            raise
        except BaseException:
            self._deliveries.remove(consumer.tag)
            raise
        return consumer

    def start_consuming(self, timeout_s: float | None = None) -> None:
        """Call the callbacks of this channel's consumers, on this thread.

        Returns after `stop_consuming`, when no consumer with a callback is left, and when this
        client closes the channel.

        Args:
            timeout_s: return after this time; None means no limit.

        Raises:
            BrokerError: the broker closed the channel. Exceptions of a callback pass through.
        """
        self._deliveries.callbacks.run(
            timeout_s, lambda: self._open and self._deliveries.has_callbacks()
        )

    def stop_consuming(self) -> None:
        """Let `start_consuming` return after the present callback."""
        self._deliveries.callbacks.stop()

    def cancel(self, consumer: Consumer | str) -> None:
        """Stop a consumer.

        Deliveries that it has not handed out are requeued; the others stay unacknowledged.

        Args:
            consumer: the consumer or its tag.

        Raises:
            ClientError: it is neither.
        """
        if not isinstance(consumer, Consumer | str):
            raise ClientError(f"expected a consumer or its tag, not {consumer!r:.100}")
        tag = consumer if isinstance(consumer, str) else consumer.tag
        members: dict[str, Any] = {"as": tag}
        self._request("cancel", **members)
        self._deliveries.cancel(tag)

    # -- settlements: sent without waiting

    def ack(self, delivery: Settled, *, multiple: bool = False) -> None:
        """Acknowledge deliveries. Does not wait; `sync` does.

        Args:
            delivery: a delivery, its `delivery_id`, or several of them.
            multiple: also acknowledge every earlier delivery of this channel.

        Raises:
            ClientError: something else is among them, or a delivery with automatic
                acknowledgement.
        """
        self._send("ack", refs=delivery_ids(delivery), multiple=multiple)

    def nack(self, delivery: Settled, *, multiple: bool = False, requeue: bool = REQUEUE) -> None:
        """Return deliveries to their queue, or dead-letter them with `requeue=False`; see `ack`."""
        self._send("nack", refs=delivery_ids(delivery), multiple=multiple, requeue=requeue)

    def reject(self, delivery: Settled, *, requeue: bool = REQUEUE) -> None:
        """Return deliveries to their queue, or dead-letter them with `requeue=False`; see `ack`."""
        self._send("reject", refs=delivery_ids(delivery), requeue=requeue)

    def recover(self) -> int:
        """Requeue everything that is unacknowledged on this channel (R-SET-4); return how many."""
        return int(self._request("recover")["requeued"])

    def sync(self, timeout_s: float | None = None) -> list[str]:
        """Wait until the broker has executed everything that this channel has sent.

        Returns:
            Delivery ids that were settled since the last call and were not unacknowledged on this
            channel any more.
        """
        self._check()
        answer = self._link.commands.request({"op": "renew"}, self.name, timeout_s=timeout_s)
        self._lease.check(answer)
        with self._lock:
            missing, self._missing = self._missing, []
        return missing

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
        """Declare a queue, or with `passive` only check that it exists.

        Args:
            queue: its name; the broker chooses one if it is empty.
            arguments: such as `{"x-dead-letter-exchange": "dlx"}`.

        Raises:
            PreconditionFailedError: it exists with other properties (R-DEF-3).
            NotFoundError: with `passive`, it does not exist.
        """
        declaration = {
            "name": queue,
            "durable": durable,
            "exclusive": exclusive,
            "auto_delete": auto_delete,
            "arguments": arguments_document(arguments),
        }
        lease = {"lease_ms": self._lease.lease_ms} if exclusive else {}
        answer = self._request("declare_queue", queue=declaration, passive=passive, **lease)
        return QueueState(answer["queue"], answer["ready"], answer["consumers"])

    def delete_queue(self, queue: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; deleting a missing one is not an error.

        Returns:
            How many messages were ready.

        Raises:
            PreconditionFailedError: it is in use or not empty, and the option forbids that.
        """
        answer = self._request("delete_queue", queue=queue, if_unused=if_unused, if_empty=if_empty)
        return int(answer["deleted_ready"])

    def purge_queue(self, queue: str) -> int:
        """Remove all ready messages without dead-lettering them (R-GONE-1); return how many.

        Raises:
            NotFoundError: the queue does not exist.
        """
        return int(self._request("purge", queue=queue)["purged"])

    def queue_depth(self, queue: str) -> int:
        """Return how many messages are ready.

        Raises:
            NotFoundError: the queue does not exist.
        """
        return int(self._request("depth", queue=queue)["ready"])

    # -- exchanges and bindings

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
        """Declare an exchange, or with `passive` only check that it exists.

        Args:
            exchange_type: direct, fanout, topic or headers.
            arguments: such as `{"alternate-exchange": "unrouted"}`.

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
            "arguments": arguments_document(arguments),
        }
        self._request("declare_exchange", exchange=declaration, passive=passive)

    def delete_exchange(self, exchange: str, *, if_unused: bool = False) -> None:
        """Delete an exchange; deleting a missing one is not an error.

        Raises:
            PreconditionFailedError: it has bindings, and `if_unused` forbids that.
        """
        self._request("delete_exchange", exchange=exchange, if_unused=if_unused)

    def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None
    ) -> None:
        """Bind a queue to an exchange.

        Raises:
            NotFoundError: the queue or the exchange does not exist.
        """
        self._bind("bind", exchange, "queue", queue, routing_key, arguments)

    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None
    ) -> None:
        """Remove a binding of a queue; removing a missing one is not an error."""
        self._bind("unbind", exchange, "queue", queue, routing_key, arguments)

    def bind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        arguments: Arguments | None = None,
    ) -> None:
        """Bind the exchange `destination` to the exchange `source`.

        Raises:
            NotFoundError: one of them does not exist.
        """
        self._bind("bind", source, "exchange", destination, routing_key, arguments)

    def unbind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        arguments: Arguments | None = None,
    ) -> None:
        """Remove a binding of an exchange; removing a missing one is not an error."""
        self._bind("unbind", source, "exchange", destination, routing_key, arguments)

    # -- for administrators: other users get AccessRefusedError

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
        """Create or replace a policy; it takes effect at once (R-POL-8).

        Args:
            pattern: a regular expression for names.
            definition: such as `{"dead-letter-exchange": "dlx"}`.
            apply_to: all, queues, exchanges, classic_queues or quorum_queues.
            operator: set an operator policy.

        Raises:
            PreconditionFailedError: the policy is invalid.
        """
        policy = {
            "name": name,
            "pattern": pattern,
            "definition": arguments_document(definition),
            "priority": priority,
            "apply-to": apply_to,
        }
        self._request("set_operator_policy" if operator else "set_policy", policy=policy)

    def clear_policy(self, name: str, *, operator: bool = False) -> None:
        """Remove a policy, or an operator policy."""
        self._request("clear_operator_policy" if operator else "clear_policy", name=name)

    def set_permissions(
        self, user: str, *, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        """Set what a user may do, as regular expressions for names; `""` permits nothing."""
        self._request("set_permissions", user=user, configure=configure, write=write, read=read)

    def clear_permissions(self, user: str) -> None:
        """Remove all permissions of a user."""
        self._request("clear_permissions", user=user)

    def import_definitions(self, document: Mapping[str, Any]) -> ImportResult:
        """Declare everything that a definitions document has for this vhost, or nothing.

        While the job is alive, this waits longer than usual for a large document.

        Raises:
            ClientError: the document is too large for a command.
            PreconditionFailedError: the document is invalid or contradicts an existing object.
        """
        return definitions.import_definitions(self._request, document)

    def export_definitions(self) -> dict[str, Any]:
        """Return everything declared in this vhost as a definitions document for RabbitMQ.

        Raises:
            ClientError: the topology kept changing while it was read.
        """
        return definitions.export_definitions(self._request)

    # -- commands

    def _request(self, op: str, *, extra_wait_s: float = 0.0, **members: Any) -> dict[str, Any]:
        self._check()
        return self._link.commands.request(
            {"op": op, **members}, self.name, extra_wait_s=extra_wait_s
        )

    def _send(self, op: str, **members: Any) -> None:
        self._check()
        self._send_unchecked({"op": op, **members})

    def _send_unchecked(self, command: dict[str, Any]) -> None:
        # If Kafka never accepts it, client and broker disagree about the channel, so it ends.
        self._link.commands.send(command, self.name, self._end)

    def _bind(
        self,
        op: str,
        source: str,
        kind: str,
        destination: str,
        routing_key: str,
        arguments: Arguments | None,
    ) -> None:
        binding = {
            "source": source,
            "destination": destination,
            "destination_type": kind,
            "routing_key": routing_key,
            "arguments": arguments_document(arguments),
        }
        self._request(op, binding=binding)

    def _consume_command(self, consumer: Consumer) -> dict[str, Any]:
        return {
            "op": "consume",
            "queue": consumer.queue,
            "as": consumer.tag,
            "prefetch": consumer.prefetch,
            "auto_ack": consumer.auto_ack,
            "lease_ms": self._lease.lease_ms,
        }

    def _check(self) -> None:
        self._link.check_open()
        if not self._open:
            why = f" after an error: {self._closed_by}" if self._closed_by else ""
            raise ChannelClosedError(f"channel {self.name!r} is closed{why}") from self._closed_by

    # -- on the reader's thread

    def _receive(self, record: Inbound) -> None:
        match record.kind:
            case "delivery":
                self._deliveries.receive(record)
            case "cancel":
                consumer = self._deliveries.remove(record.document["consumer"])
                if consumer is not None:
                    text = "queue %r is gone: consumer %r ends"
                    logger.warning(text, consumer.queue, consumer.tag)
            case "answer":
                refusal = refusal_of(record.document)
                if refusal is not None:
                    self._end(refusal)
                else:
                    self._note_missing(record.document)

    def _note_missing(self, answer: dict[str, Any]) -> None:
        result = answer.get("result", {})
        missing = self._deliveries.settled_by_user(result.get("missing", []))
        if missing:
            shown = missing[:10]
            logger.warning("%s: not unacked on channel %s: %s", answer["op"], self.name, shown)
            with self._lock:
                self._missing = [*self._missing, *missing][-MAX_MISSING:]

    def _reopened(self) -> None:
        self.reopen_count += 1
        logger.warning(
            "the broker had closed channel %s and requeued what was unacked: the channel is "
            "reopened and its consumers are restarted",
            self.name,
        )
        self._deliveries.drop_unseen()
        for consumer in self._deliveries.consumers():
            self._send_unchecked(self._consume_command(consumer))

    def _end(self, error: ClientError | None) -> None:
        self._open = False
        self._link.dispatch.remove(self.name)
        self._lease.end()
        self._closed_by = error
        self._deliveries.end_all(error)


def _text_of(message: object) -> str:
    """The identity of a message as commands have it."""
    if isinstance(message, str):
        return message
    if isinstance(message, tuple | list):
        return "/".join(map(str, message))
    raise ClientError(f'message must be text such as "1/0/42", or an origin, not {message!r:.100}')
