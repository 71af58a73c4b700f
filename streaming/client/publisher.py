"""Publishing: futures for confirms, returned messages, flow control."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal, NamedTuple, Self

from confluent_kafka import Message as KafkaMessage

from streaming.client import tracing
from streaming.client._transport.confirms import Confirm, Confirms
from streaming.client._transport.dispatch import Receiver
from streaming.client._transport.flow import CHECK_EVERY_S, FLOW_STOPPED
from streaming.client._transport.link import Link
from streaming.client._transport.sender import BY_KEY
from streaming.client._wire import (
    Inbound,
    Record,
    check_size,
    publish_record,
    refusal_of,
    returned_of,
)
from streaming.client.errors import (
    ClientError,
    FlowStoppedError,
    NackedError,
    NoAnswerError,
    TransactionAbortedError,
)
from streaming.client.messages import Body, Properties, Returned
from streaming.protocol.addressing import served_by_front
from streaming.protocol.record_headers import OFFSET, PARTITION

OnFlow = Literal["block", "raise"]

MAX_RETURNED = 10_000
ASK_AGAIN_S = 60.0
"""A question about unconfirmed publishes can be lost, for example with its topic: repeat it."""


class Message(NamedTuple):
    """A message for `Publisher.publish_many`; `Publisher.publish` describes the members."""

    exchange: str
    routing_key: str
    body: Body
    properties: Properties | None = None
    headers: Mapping[str, Any] | None = None


class Publisher:
    """Publishes messages in order; created by `Connection.publisher`.

    Threads can share a publisher.

    Attributes:
        name: the channel that the publisher's records name.
        returned: the latest 10,000 messages that the broker returned.
    """

    def __init__(
        self,
        link: Link,
        name: str,
        *,
        confirms: bool,
        on_return: Callable[[Returned], None] | None,
        on_flow: OnFlow,
        max_unconfirmed: int,
        blocked_timeout_s: float | None = None,
        topic: str | None = None,
        one_partition: bool = False,
        partition: int = BY_KEY,
    ) -> None:
        if link.address.sequenced:
            raise ClientError(served_by_front(link.address.vhost))
        self._link = link
        self.name = name
        self.returned: deque[Returned] = deque(maxlen=MAX_RETURNED)
        self._on_flow = on_flow
        self._wants_confirms = confirms
        self._on_return = on_return
        self._blocked_timeout_s = blocked_timeout_s
        self._confirms = Confirms(max_unconfirmed, in_order=link.address.lanes == 1)
        self._asked_s: dict[int, float] = {}  # by partition
        self._sender = link.sender
        self._topic = topic or link.address.publishes
        self._in_transaction = False
        self._partition = partition
        keeps_order = one_partition or link.address.lanes == 1
        self._record_key = name.encode() if keeps_order else None
        receiver = Receiver(self._receive, self._fail_late, closed=self._confirms.fail_all)
        link.dispatch.add(name, receiver)

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: Body,
        properties: Properties | None = None,
        headers: Mapping[str, Any] | None = None,
        *,
        mandatory: bool = False,
        immediate: bool = False,
        kafka_headers: Iterable[tuple[str, bytes | None]] = (),
        record_key: bytes | str | None = None,
    ) -> Future[None]:
        """Publish a message. Returns at once, so that many can be under way together.

        Args:
            exchange: `""` is the default exchange.
            routing_key: for the default exchange the name of a queue.
            body: bytes, or text, which is sent as UTF-8.
            properties: AMQP basic properties, such as `{"expiration": "1000", "priority": 5}`.
            headers: the AMQP headers table; `topology.values` lists the types.
            mandatory: return the message if it reaches no queue.
            immediate: return the message if no consumer can take it at once.
            kafka_headers: Kafka headers to pass on unchanged, such as `traceparent`.
            record_key: the key of the Kafka record. In a vhost with several lanes it chooses the
                partition and thereby the lane; without it, messages are spread.

        Returns:
            A future that is done once the broker has confirmed the message. Its exception is
            NackedError, UnroutableError (mandatory or immediate), a BrokerError (404: no such
            exchange), QuarantinedError, NoAnswerError, KafkaUnreachableError, or FlowStoppedError
            (Kafka has the message, and the broker takes it when flow control permits).

        Raises:
            FlowStoppedError: flow control, as `on_flow` and `blocked_timeout_s` say; not sent.
            ClientError: the message is invalid, or the connection is closed.
        """
        self._link.check_open()
        if not self._in_transaction:
            self._wait_for_flow()
        key = record_key.encode() if isinstance(record_key, str) else record_key
        address = self._link.address
        flags = {"confirm": self._wants_confirms, "mandatory": mandatory, "immediate": immediate}
        record = publish_record(
            body,
            address.vhost,
            self.name,
            exchange,
            routing_key,
            properties,
            headers,
            ",".join(name for name, is_set in flags.items() if is_set),
            kafka_headers,
            key if key is not None else self._record_key,
        )
        span = tracing.start_publish(
            record.headers, address.vhost, exchange, routing_key, len(record.value)
        )
        try:
            pending = self._send(record)
        except BaseException as error:
            if span is not None:
                tracing.end_publish(span, error)
            raise
        if span is not None:
            pending.add_done_callback(partial(tracing.end_publish, span))
        return pending

    def _send(self, record: Record) -> Confirm:
        address = self._link.address
        check_size(record, address.max_body_bytes, address.max_header_bytes)
        pending = Confirm(in_transaction=self._in_transaction)

        def on_report(error: Any, message: KafkaMessage) -> None:
            if error is not None:
                failure: ClientError = self._link.commands.kafka_error(str(error.str()))
                if pending.in_transaction:  # Kafka commits none without each of its records
                    failure = TransactionAbortedError(f"the transaction is aborted: {failure!r}")
                self._confirms.failed(pending, failure, reported=True)
                return
            place = message.partition() or 0, message.offset() or 0
            self._confirms.stored(pending, place)
            if not self._wants_confirms:
                self._confirms.confirmed(place, None)

        try:
            while not self._confirms.add(pending, CHECK_EVERY_S):
                if not self._in_transaction:
                    self._wait_for_flow()
            self._sender.send(self._topic, record, on_report, partition=self._partition)
        except BaseException as error:  # Ctrl-C may come before or after Kafka's client has it
            failure = error if isinstance(error, ClientError) else ClientError("interrupted")
            self._confirms.failed(pending, failure, reported=True)
            raise
        return pending

    def publish_many(self, messages: Iterable[Message]) -> list[Future[None]]:
        """Publish messages in order; `wait_for_confirms` waits for all of them."""
        return [self.publish(*message) for message in messages]

    def wait_for_confirms(self, timeout_s: float | None = None) -> None:
        """Wait until nothing is unconfirmed. Errors are in the futures.

        Args:
            timeout_s: None waits without limit.

        Raises:
            NoAnswerError: something is still unconfirmed after `timeout_s`.
        """
        if not self._confirms.wait_for_none(timeout_s):
            raise NoAnswerError(
                f"{len(self._confirms)} publishes are still unconfirmed after {timeout_s:g} s"
            )

    @property
    def unconfirmed(self) -> int:
        """How many publishes are unconfirmed."""
        return len(self._confirms)

    def close(self) -> None:
        """Wait until every publish is confirmed or has failed, then stop."""
        self._confirms.wait_for_none(None)
        self._link.dispatch.remove(self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait_for_flow(self) -> None:
        """Wait while flow control stops publishers.

        Raises:
            FlowStoppedError: at once with `on_flow="raise"`, or after `blocked_timeout_s`.
        """
        if self._link.flow.is_open:
            return
        if self._on_flow == "raise":
            raise FlowStoppedError(f"{FLOW_STOPPED}. The message was not sent")
        if not self._link.wait_for_flow(self._blocked_timeout_s):
            raise FlowStoppedError(
                f"{FLOW_STOPPED}. The message was not sent within {self._blocked_timeout_s:g} s"
            )

    # -- on the reader's thread

    def _receive(self, record: Inbound) -> None:
        document = record.document if record.kind != "return" else {}
        match record.kind:
            case "return":
                returned = returned_of(record)
                place = int(record.headers[PARTITION]), int(record.headers[OFFSET])
                self._confirms.returned(place, returned)
                self.returned.append(returned)
                if self._on_return is not None:
                    self._on_return(returned)
            case "publish_error" | "confirm":
                error: ClientError | None = refusal_of(document)
                if error is None and not document["ack"]:
                    error = NackedError("the broker refused the message: a queue is full")
                self._confirms.confirmed((document["partition"], document["offset"]), error)

    def _fail_late(self, now_s: float) -> None:
        """Fail publishes that wait while the job writes nothing at all.

        Under flow control publishes wait in Kafka and the job repeats its notice; they fail only
        after `blocked_timeout_s`.
        """
        link = self._link
        self._fail_blocked(now_s)
        if self._in_transaction:
            return
        timeout_s = link.silence_s
        if link.flow.is_open:
            self._ask_about_late(now_s, now_s - timeout_s / 2)
        if link.liveness.heard_s > now_s - timeout_s:
            return
        for pending in self._confirms.sent_before(now_s - timeout_s):
            error = (
                link.commands.no_answer("a publish", timeout_s, topic=self._topic)
                if pending.is_stored
                else link.commands.kafka_error(f"not within {timeout_s:g} s")
            )
            self._confirms.failed(pending, error)

    def _ask_about_late(self, now_s: float, before_s: float) -> None:
        """Learn when the job has read stored publishes; unconfirmed ones are then quarantined."""
        for partition, publishes in self._confirms.stored_before(before_s).items():
            if self._asked_s.get(partition, float("-inf")) > now_s - ASK_AGAIN_S:
                continue
            self._asked_s[partition] = now_s
            then = partial(self._read_by_job, partition, publishes)
            self._link.commands.notify_when_read(self._topic, partition, self.name, then)

    def _read_by_job(self, partition: int, publishes: list[Confirm]) -> None:
        self._asked_s.pop(partition, None)
        self._confirms.skipped(publishes)

    def _fail_blocked(self, now_s: float) -> None:
        blocked_s, flow = self._blocked_timeout_s, self._link.flow
        if blocked_s is None or flow.is_open or flow.changed_s > now_s - blocked_s:
            return
        text = f"{FLOW_STOPPED}. The message was sent and waits in Kafka until then"
        for pending in self._confirms.sent_before(now_s - blocked_s):
            if pending.is_stored:
                self._confirms.failed(pending, FlowStoppedError(text))
