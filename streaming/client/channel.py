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
from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from streaming.client import tracing
from streaming.client._deliveries import Callback, Consumer, Deliveries
from streaming.client._transport.dispatch import Receiver
from streaming.client._transport.lease import Lease
from streaming.client._transport.link import Link
from streaming.client._wire import Inbound, delivery_ids, refusal_of, settlement_reason
from streaming.client.admin import Administration
from streaming.client.errors import (
    ChannelClosedError,
    ClientError,
    KafkaUnreachableError,
    NoAnswerError,
)
from streaming.client.messages import Delivery, Settled
from streaming.protocol.defaults import PREFETCH, REQUEUE

logger = logging.getLogger("dlx.client")

MessageId = str | tuple[int, int, int]
"""Topic number, partition and offset of the record that published a message; text: `1/0/42`."""

MAX_MISSING = 10_000

_UNANSWERED = (NoAnswerError, KafkaUnreachableError, KeyboardInterrupt)
"""After these the job may still execute the command."""


P = ParamSpec("P")
R = TypeVar("R")


def _administered(
    method: Callable[Concatenate[Administration, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Make the channel's method of the same name."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._administration, *args, **kwargs)

    update_wrapper(call, method)
    return call


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
        self._lanes = 1  # of the queue of the last get
        self._closed_by: ClientError | None = None
        self._lease = Lease(link, name, lease_s, self._reopened)
        self._administration = Administration(self._request, self._lease.lease_ms, link, name)
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
        members: dict[str, Any] = {"auto_ack": auto_ack, "as": label}
        if message is not None:
            members["message"] = _text_of(message)
        members |= {"queue": queue, "lease_ms": self._lease.lease_ms}
        try:
            answer = self._request("get", count=count, **members)
            self._lanes = answer.get("lanes", 1)
            for step in range(1, self._lanes):  # the lane that was asked has no more
                missing = count - len(deliveries)
                if missing > 0:
                    lane = (answer["lane"] + step) % self._lanes
                    self._request("get", count=missing, lane=lane, **members)
        except _UNANSWERED:
            if not auto_ack:
                lanes = max(self._lanes, self._link.address.lanes)
                self._deliveries.abandon_get(label, count, lanes)
            raise
        finally:
            self._deliveries.end_get(label)
        tracing.received(deliveries)
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
        self._settle("ack", delivery, multiple=multiple)

    def nack(
        self,
        delivery: Settled,
        *,
        multiple: bool = False,
        requeue: bool = REQUEUE,
        reason: str | None = None,
    ) -> None:
        """Return deliveries to their queue, or dead-letter them with `requeue=False`; see `ack`.

        Args:
            reason: why, as text. The dead letters show it, and carry it in the header
                `x-exception-message` (R-SET-9). It is cut to 1,024 bytes.
        """
        why = settlement_reason(reason)
        self._settle("nack", delivery, multiple=multiple, requeue=requeue, **why)

    def reject(
        self, delivery: Settled, *, requeue: bool = REQUEUE, reason: str | None = None
    ) -> None:
        """Return deliveries, or dead-letter them with `requeue=False`; see `nack`."""
        self._settle("reject", delivery, requeue=requeue, **settlement_reason(reason))

    def recover(self) -> int:
        """Requeue everything that is unacknowledged on this channel (R-SET-4); return how many."""
        requeued = int(self._request("recover")["requeued"])
        self._deliveries.forget_unsettled()
        return requeued

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

    # -- queues, exchanges and bindings

    declare_queue = _administered(Administration.declare_queue)
    delete_queue = _administered(Administration.delete_queue)
    purge_queue = _administered(Administration.purge_queue)
    approve_redrive = _administered(Administration.approve_redrive)
    control_redrive = _administered(Administration.control_redrive)
    queue_depth = _administered(Administration.queue_depth)
    declare_exchange = _administered(Administration.declare_exchange)
    delete_exchange = _administered(Administration.delete_exchange)
    bind_queue = _administered(Administration.bind_queue)
    unbind_queue = _administered(Administration.unbind_queue)
    bind_exchange = _administered(Administration.bind_exchange)
    unbind_exchange = _administered(Administration.unbind_exchange)

    # -- for administrators: other users get AccessRefusedError

    set_policy = _administered(Administration.set_policy)
    clear_policy = _administered(Administration.clear_policy)
    set_permissions = _administered(Administration.set_permissions)
    clear_permissions = _administered(Administration.clear_permissions)
    deployed = _administered(Administration.deployed)
    import_definitions = _administered(Administration.import_definitions)
    export_definitions = _administered(Administration.export_definitions)

    # -- commands

    def _request(self, op: str, *, extra_wait_s: float = 0.0, **members: Any) -> dict[str, Any]:
        self._check()
        return self._link.commands.request(
            {"op": op, **members}, self.name, extra_wait_s=extra_wait_s
        )

    def _settle(self, op: str, named: Settled, **members: Any) -> None:
        if isinstance(named, Iterator):  # it is read twice
            named = list(named)
        refs = delivery_ids(named)
        self._check()
        refs = self._deliveries.settling(refs, multiple=members.get("multiple", False))
        self._send(op, refs=refs, **members)
        tracing.settled(op, named)

    def _send(self, op: str, **members: Any) -> None:
        self._check()
        self._send_unchecked({"op": op, **members})

    def _send_unchecked(self, command: dict[str, Any]) -> None:
        # If Kafka never accepts it, client and broker disagree about the channel, so it ends.
        self._link.commands.send(command, self.name, self._end)

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
