"""A channel: what is unacked is unacked on it, and an error closes it.

    opened --> get, consume, settle, declare --> closed by us: what is unacked is requeued
       ^            |         |
       |            |         +--> refused by the broker: closed, with the error
       |            +--> the broker heard nothing for `lease_ms`: it closed the channel itself
       +---- opened again, consumers started again; old deliveries are somebody else's now ----+

A settlement of a delivery that is no longer ours changes nothing (R-SET); `sync` tells which.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Self

from streaming.client.consuming import Callback, Consumer
from streaming.client.declaring import Declaring
from streaming.client.errors import (
    BrokerError,
    ChannelClosedError,
    ClientError,
    KafkaUnreachableError,
    NoAnswerError,
)
from streaming.client.lease import Lease
from streaming.client.recipients import Recipients
from streaming.client.settling import Settling

if TYPE_CHECKING:
    from streaming.client.connection import Connection
    from streaming.client.messages import Delivery
    from streaming.client.records import Inbound

logger = logging.getLogger("dlx.client")

DEFAULT_PREFETCH = 100
MOST_MISSING = 10_000

_GIVEN_UP = (NoAnswerError, KafkaUnreachableError, KeyboardInterrupt)
"""Ends of waiting after which a command may still be carried out."""


class Channel(Declaring, Settling):
    """Gets, consumes, settles and declares; made by `Connection.channel`.

    Attributes:
        name: with the user, its identity.
        reopen_count: how often it had to be opened again because the broker had closed it.
    """

    def __init__(self, connection: Connection, name: str, lease_ms: int) -> None:
        self._connection = connection
        self.name = name
        self.reopen_count = 0
        self._lock = threading.Lock()
        self._recipients = Recipients(self)
        self._missing: list[str] = []
        self._open = False
        self._closed_by: ClientError | None = None
        self._lease = Lease(connection, name, lease_ms, self._reopened)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def lease_ms(self) -> int:
        """How long the broker keeps it without hearing of it."""
        return self._lease.lease_ms

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._open

    def open(self) -> None:
        """Open it at the broker; `Connection.channel` has done so."""
        self._lease.open()
        self._open = True

    def close(self) -> None:
        """Close it: consumers end, what is unacked is requeued. Harmless twice."""
        if self._open:
            self._end(None)
            self._connection.members.remove_channel(self.name)
            self._connection.tell({"op": "close_channel"}, self.name)

    def detach(self) -> None:
        """Leave it open at the broker until its lease ends, for another process to go on with."""
        self._end(None)
        self._connection.members.remove_channel(self.name)

    # -- deliveries

    def get(self, queue: str, *, auto_ack: bool = False) -> Delivery | None:
        """One message from the head of a queue; None if it is empty.

        A get that got no answer in time is taken back: what it is handed later is requeued.

        Raises:
            NotFoundError, AccessRefusedError: no such queue, or not for this user.
        """
        deliveries = self.get_many(queue, 1, auto_ack=auto_ack)
        return deliveries[0] if deliveries else None

    def get_many(self, queue: str, count: int, *, auto_ack: bool = False) -> list[Delivery]:
        """Up to `count` messages; as `get`."""
        label = self._connection.new_name("get")
        deliveries = self._recipients.begin_get(label)
        try:
            get: dict[str, Any] = {
                "queue": queue,
                "count": count,
                "auto_ack": auto_ack,
                "as": label,
            }
            self.ask("get", lease_ms=self.lease_ms, **get)
        except _GIVEN_UP:
            if not auto_ack:
                self._recipients.give_up_get(label, count)
            raise
        finally:
            self._recipients.end_get(label)
        return deliveries

    def consume(
        self,
        queue: str,
        callback: Callback | None = None,
        *,
        prefetch: int = DEFAULT_PREFETCH,
        auto_ack: bool = False,
        consumer_tag: str | None = None,
        timeout_s: float | None = None,
    ) -> Consumer:
        """Start a consumer: iterate over what it returns, or give a callback.

        One that got no answer in time is cancelled, and what it is handed before that requeued.

        Args:
            callback: called by `start_consuming` with each delivery.
            prefetch: at most so many are unacked; 0: no limit.
            timeout_s: iterating ends when nothing came for so long.

        Raises:
            NotFoundError, AccessRefusedError: no such queue, or not for this user.
            NotAllowedError: the consumer tag is in use on this channel, which stays open.
        """
        tag = consumer_tag or self._connection.new_name("consumer")
        consumer = Consumer(
            self, tag, queue, prefetch, auto_ack=auto_ack, timeout_s=timeout_s, callback=callback
        )
        self._recipients.add(consumer)
        try:
            self.ask(**consumer.document())
        except _GIVEN_UP:
            self._recipients.give_up_consumer(consumer)
            raise
        except BaseException:
            self._recipients.remove(consumer)
            raise
        return consumer

    def start_consuming(self, timeout_s: float | None = None) -> None:
        """Call the callbacks of this channel's consumers, here.

        It returns after `stop_consuming`, when the last such consumer is cancelled, and when the
        channel is closed by us.

        Args:
            timeout_s: return after so long; None: never by itself.

        Raises:
            BrokerError: the broker closed the channel. What a callback raises comes out as well.
        """
        self._recipients.callbacks.run(
            timeout_s, lambda: self._open and self._recipients.has_callbacks()
        )

    def stop_consuming(self) -> None:
        """Let `start_consuming` return, after the callback that runs."""
        self._recipients.callbacks.stop()

    def cancel(self, consumer: Consumer | str) -> None:
        """Stop a consumer. What nobody has looked at is requeued; the rest stays unacked."""
        tag = consumer if isinstance(consumer, str) else consumer.tag
        members: dict[str, Any] = {"as": tag}
        self.ask("cancel", **members)
        known = self._recipients.consumer(tag)
        if known is not None:
            self._recipients.remove(known)
            known.end()
            self._recipients.give_back_unseen(known)

    def recover(self) -> int:
        """Requeue everything that is unacked on this channel; returns how many (R-SET-4)."""
        return int(self.ask("recover")["requeued"])

    def sync(self, timeout_s: float | None = None) -> list[str]:
        """Wait until the broker has carried out everything sent on this channel so far.

        Returns:
            The delivery ids settled since the last call that were not unacked here any more.
        """
        self._check()
        self._lease.check(self._connection.ask({"op": "renew"}, self.name, timeout_s=timeout_s))
        with self._lock:
            missing, self._missing = self._missing, []
        return missing

    def ask(self, op: str, *, patience_s: float = 0.0, **members: Any) -> dict[str, Any]:
        """Send a command of this channel and wait for its answer."""
        self._check()
        return self._connection.ask({"op": op, **members}, self.name, patience_s=patience_s)

    # -- for the connection, on the reader's thread

    def take_delivery(self, record: Inbound) -> None:
        """A delivery for a get or a consumer."""
        self._recipients.arrive(record)

    def take_cancel(self, tag: str) -> None:
        """The queue of a consumer is gone: it ends when what has arrived was looked at."""
        consumer = self._recipients.consumer(tag)
        if consumer is not None:
            logger.warning("queue %r is gone, and consumer %r with it", consumer.queue, tag)
            self._recipients.remove(consumer)
            consumer.end()
            self._recipients.callbacks.take_out(consumer)

    def take_answer(self, op: str, result: dict[str, Any], refusal: BrokerError | None) -> None:
        """An answer to any command of this channel."""
        if refusal is not None:
            self._end(refusal)
            self._connection.members.remove_channel(self.name)
            return
        missing = self._recipients.settled_by_user(result.get("missing", []))
        if missing:
            logger.warning("%s: not unacked on channel %s: %s", op, self.name, missing[:10])
            with self._lock:
                self._missing = [*self._missing, *missing][-MOST_MISSING:]

    def renew_if_due(self, now_s: float) -> None:
        """See to the lease."""
        self._lease.renew_if_due(now_s)

    def _reopened(self) -> None:
        self.reopen_count += 1
        logger.warning(
            "the broker had closed channel %s: it is opened again, its consumers go on, and what "
            "was unacked has been requeued",
            self.name,
        )
        self._recipients.drop_unseen()
        for consumer in self._recipients.consumers():
            self._connection.tell(consumer.document(), self.name, self._lost)

    def _lost(self, error: KafkaUnreachableError) -> None:
        """Kafka never took a command: what the broker thinks of this channel is not what we do."""
        self._end(error)
        self._connection.members.remove_channel(self.name)

    # -- inside

    def tell(self, op: str, **members: Any) -> None:
        """Send a command of this channel and do not wait."""
        self._check()
        self._connection.tell({"op": op, **members}, self.name, self._lost)

    def _check(self) -> None:
        self._connection.check_open()
        if not self._open:
            why = f" after the error: {self._closed_by}" if self._closed_by else ""
            raise ChannelClosedError(f"channel {self.name!r} is closed{why}") from self._closed_by

    def _end(self, error: ClientError | None) -> None:
        self._open = False
        self._lease.end()
        self._closed_by = error
        for consumer in self._recipients.consumers():
            consumer.end(error)
        self._recipients.callbacks.stop(error)
