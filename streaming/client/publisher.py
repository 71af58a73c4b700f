"""Publishing: futures for confirms, returned messages, flow control."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from streaming.client.confirms import Confirms
from streaming.client.errors import (
    ClientError,
    FlowStoppedError,
    NackedError,
    NoAnswerError,
    broker_error,
)
from streaming.client.flow import HELD_BACK, LOOK_S
from streaming.client.records import Inbound, check_size, publish, returned_of

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

    from streaming.client.connection import Connection
    from streaming.client.messages import Body, Returned
    from streaming.client.sender import Sender

OnFlow = Literal["block", "raise"]

MOST_RETURNED = 10_000
ASK_AGAIN_S = 60.0
"""A question that was lost (its topic was made anew, say) is asked once more."""


class Message(NamedTuple):
    """A message to publish, for `publish_many`; the members are the arguments of `publish`."""

    exchange: str
    routing_key: str
    body: Body
    properties: Mapping[str, Any] | None = None
    headers: Mapping[str, Any] | None = None


class Publisher:
    """Publishes in order; made by `Connection.publisher`. Safe to share between threads.

    Args:
        confirms: whether futures wait for the broker; else only for Kafka.
        on_return: called, on the reader's thread, with each message that came back; it may publish,
            but ask nothing of a channel.
        on_flow: what `publish` does while flow control stops publishers: wait, or raise.
        blocked_timeout_s: how long flow control may hold a message back, as in pika. Then `publish`
            raises, and what Kafka has already counts as not confirmed. None: as long as it takes.
        max_unconfirmed: `publish` waits while so many are unconfirmed.

    Attributes:
        returned: the latest messages that came back.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        *,
        confirms: bool,
        on_return: Callable[[Returned], None] | None,
        on_flow: OnFlow,
        max_unconfirmed: int,
        blocked_timeout_s: float | None = None,
        topic: str | None = None,
        one_partition: bool = False,
    ) -> None:
        self._connection = connection
        self.name = name
        self.returned: deque[Returned] = deque(maxlen=MOST_RETURNED)
        self._wants_confirms = confirms
        self._on_return = on_return
        self.on_flow = on_flow
        self._blocked_timeout_s = blocked_timeout_s
        self._confirms = Confirms(max_unconfirmed)
        self._asked_s: dict[int, float] = {}
        self._sender = connection.sender
        self._topic = topic or connection.address.publishes
        self._held = False
        in_order = one_partition or connection.address.lanes == 1
        self._record_key = name.encode() if in_order else None

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: Body,
        properties: Mapping[str, Any] | None = None,
        headers: Mapping[str, Any] | None = None,
        *,
        mandatory: bool = False,
        immediate: bool = False,
        kafka_headers: Iterable[tuple[str, bytes | None]] = (),
        record_key: bytes | str | None = None,
    ) -> Future[None]:
        """Publish a message; returns at once, while many travel together.

        Args:
            body: opaque; text is sent as UTF-8.
            properties: AMQP basic properties, such as `{"expiration": "1000", "priority": 5}`.
            headers: the AMQP headers table; values as `topology.values` says.
            kafka_headers: carried along byte for byte (`traceparent`, ...).
            record_key: decides about the Kafka partition, hence, in a vhost with several lanes,
                about the lane; there, by default, messages are spread.

        Returns:
            A future that is done when the broker has confirmed; its exception is NackedError,
            UnroutableError (mandatory or immediate), a BrokerError (404: no such exchange),
            QuarantinedError, NoAnswerError, KafkaUnreachableError or FlowStoppedError (Kafka has
            it, and the broker takes it when publishers may go on).

        Raises:
            FlowStoppedError: flow control, as `on_flow` and `blocked_timeout_s` say; not sent.
            ClientError: the message is wrong, or the connection closed.
        """
        self._connection.check_open()
        if not self._held:
            self.heed_flow()
        key = record_key.encode() if isinstance(record_key, str) else record_key
        record = publish(
            body,
            self._connection.address.vhost,
            self.name,
            exchange,
            routing_key,
            properties,
            headers,
            _flags(confirm=self._wants_confirms, mandatory=mandatory, immediate=immediate),
            kafka_headers,
            key if key is not None else self._record_key,
        )
        check_size(record, self._connection.address)
        while (made := self._confirms.new(LOOK_S, held=self._held)) is None:
            if not self._held:
                self.heed_flow()
        token, pending = made

        def reported(error: Any, message: KafkaMessage) -> None:
            if error is not None:
                failure = self._connection.kafka_error(str(error.str()))
                self._confirms.failed(token, failure, reported=True)
                return
            place = message.partition() or 0, message.offset() or 0
            self._confirms.placed(token, *place)
            if not self._wants_confirms:
                self._confirms.confirmed(place, None)

        try:
            self._sender.send(self._topic, record, reported)
        except ClientError as error:
            self._confirms.failed(token, error, reported=True)
            raise
        return pending.future

    def publish_many(self, messages: Iterable[Message]) -> list[Future[None]]:
        """Publish a batch, in order; wait for all of it with `wait_for_confirms`."""
        return [self.publish(*message) for message in messages]

    def wait_for_confirms(self, timeout_s: float | None = None) -> None:
        """Wait until nothing is unconfirmed; what went wrong is in the futures.

        Raises:
            NoAnswerError: not within `timeout_s`.
        """
        if not self._confirms.wait_for_none(timeout_s):
            raise NoAnswerError(
                f"{len(self._confirms)} publishes are still unconfirmed after {timeout_s:g} s"
            )

    @property
    def unconfirmed(self) -> int:
        """How many publishes wait for their confirm."""
        return len(self._confirms)

    def close(self) -> None:
        """Wait for what is unconfirmed (each ends with a confirm or an error), and end."""
        self._confirms.wait_for_none(None)
        self._connection.members.remove_publisher(self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- for the connection, on the reader's thread

    def take(self, record: Inbound) -> None:
        """A confirm, a return or a publish error."""
        if record.kind == "return":
            returned = returned_of(record)
            self._confirms.returned(record.place, returned)
            self.returned.append(returned)
            if self._on_return is not None:
                self._on_return(returned)
            return
        document = record.document
        place = document["partition"], document["offset"]
        if record.kind == "publish_error":
            error = document["error"]
            self._confirms.confirmed(place, broker_error(error["code"], error["text"]))
        elif document["ack"]:
            self._confirms.confirmed(place, None)
        else:
            nacked = NackedError("the broker refused the message: a queue is full")
            self._confirms.confirmed(place, nacked)

    def fail_late(self, now_s: float) -> None:
        """Fail what waits while nothing at all is heard of the job.

        Under flow control publishes wait in Kafka, and the job repeats its notice meanwhile; what
        has waited for too long then fails as well.
        """
        self._fail_blocked(now_s)
        timeout_s = self._connection.silence_s
        before_s = now_s - timeout_s
        if self._held:
            return
        if self._connection.is_flowing:
            self._ask_for_late(now_s, now_s - timeout_s / 2)
        if self._connection.heard_s > before_s:
            return
        for token, pending in self._confirms.late(before_s):
            error = (
                self._connection.job_silent("a publish", timeout_s)
                if pending.taken
                else self._connection.kafka_error(f"not within {timeout_s:g} s")
            )
            self._confirms.failed(token, error)

    def _ask_for_late(self, now_s: float, before_s: float) -> None:
        """Ask behind records of which the job says nothing: it may not have understood them."""
        for partition, tokens in self._confirms.late_places(before_s).items():
            if self._asked_s.get(partition, float("-inf")) > now_s - ASK_AGAIN_S:
                continue
            self._asked_s[partition] = now_s
            passed = partial(self._passed, partition, tokens)
            self._connection.ask_behind(self._topic, partition, self.name, passed)

    def _passed(self, partition: int, tokens: list[int]) -> None:
        self._asked_s.pop(partition, None)
        self._confirms.passed_over(tokens)

    def _fail_blocked(self, now_s: float) -> None:
        blocked_s, flow = self._blocked_timeout_s, self._connection.flow
        if blocked_s is None or flow.is_open or flow.changed_s > now_s - blocked_s:
            return
        for token, pending in self._confirms.late(now_s - blocked_s):
            if pending.taken:
                words = f"{HELD_BACK}. The message was sent, and waits in Kafka until then"
                self._confirms.failed(token, FlowStoppedError(words))

    def use(self, sender: Sender) -> None:
        """From now on this one hands its records to Kafka."""
        self._sender = sender

    def hold(self) -> None:
        """A transaction begins: nothing is confirmed before its end."""
        self._held = True

    def release(self) -> None:
        """It has ended: from now on confirms are waited for."""
        self._confirms.wait_from_now()
        self._held = False

    def fail_all(self, error: ClientError) -> None:
        """Fail everything that is unconfirmed."""
        self._confirms.fail_all(error)

    def fail_held(self, error: ClientError) -> None:
        """Fail what the transaction has published; what others committed goes on."""
        self._confirms.fail_held(error)

    def heed_flow(self) -> None:
        """Wait, or raise, while flow control stops publishers.

        Raises:
            FlowStoppedError: at once if that was asked for, or after the time that was given.
        """
        if self._connection.is_flowing:
            return
        if self.on_flow == "raise":
            raise FlowStoppedError(f"{HELD_BACK}. The message was not sent")
        if not self._connection.wait_until_flowing(self._blocked_timeout_s):
            raise FlowStoppedError(
                f"{HELD_BACK}. The message was not sent within {self._blocked_timeout_s:g} s"
            )


def _flags(*, confirm: bool, mandatory: bool, immediate: bool) -> str:
    flags = {"confirm": confirm, "mandatory": mandatory, "immediate": immediate}
    return ",".join(name for name, is_set in flags.items() if is_set)
