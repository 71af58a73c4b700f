"""The confluent-kafka client of the demo: it publishes orders, and consumes payments and quotes."""

import time
import uuid
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, cast

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streaming.demo.client_setup import Addresses, DemoError, TrafficCounters
from streaming.demo.kafka_records import Deduplicator, OutboundRecord, Record, command, publish
from streaming.demo.order_process import (
    GOOD_RELEASE,
    INVOICES,
    PAYMENTS,
    QUOTES,
    TOPOLOGY,
    Order,
    invoice,
    order,
    paid,
    parked,
    payment,
)
from streaming.kafka_offsets import once_led
from streaming.record_sender import RecordSender, SendError

SHOP_CHANNEL: Final = "demo-shop"
PAYMENTS_CHANNEL: Final = "demo-payments"
QUOTES_CHANNEL: Final = "demo-quotes"
INVOICES_CHANNEL: Final = "demo-invoices"
ADMIN_CHANNEL: Final = "demo-admin"
OWN_CHANNELS: Final = (PAYMENTS_CHANNEL, QUOTES_CHANNEL, INVOICES_CHANNEL)

ORDERS_PER_S: Final = 40.0
QUOTE_WORK_S: Final = 0.4
PAYMENTS_PREFETCH: Final = 100
FLUSH_TIMEOUT_S: Final = 10.0
CONFIRM_TIMEOUT_S: Final = 2.0
REPLY_TIMEOUT_S: Final = 5.0


class ShopClient:
    """One producer and one reader of the outbound topic; used by one thread.

    Attributes:
        release: the release of the invoices worker; another thread may change it.
    """

    def __init__(self, addresses: Addresses, counters: TrafficCounters) -> None:
        self._addresses = addresses
        self._counters = counters
        self._sender = RecordSender({**addresses.kafka, "linger.ms": 5})
        self._consumer = Consumer(
            {
                **addresses.kafka,
                "group.id": "dlx-demo",  # never joined: partitions are assigned by hand
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._deduplicator = Deduplicator()
        self._replies: dict[str, dict[str, Any]] = {}
        self._quotes: deque[str] = deque()
        self._quote_done_s = 0.0
        self._next_order = 0
        self._shop_opened_s = 0.0
        self._sold = 0
        self._working = False
        self.release = GOOD_RELEASE

    # -- before the traffic

    def topics_exist(self) -> bool:
        """Whether the job has created its topics; do not write before."""
        try:
            known = self._consumer.list_topics(timeout=REPLY_TIMEOUT_S).topics
        except KafkaException:
            return False
        return all(topic in known for topic in self._addresses.topics)

    def declare_topology(self) -> list[str]:
        """Read the outbound topic from its end, declare the topology, and return the reply ids.

        It first closes the channels of an earlier run that was killed, which requeues their
        messages.
        """
        outbound = self._addresses.outbound
        known = self._consumer.list_topics(outbound, timeout=REPLY_TIMEOUT_S)
        self._consumer.assign(  # at the offset that is the end now, before any command
            [
                TopicPartition(outbound, each, self._end(outbound, each))
                for each in known.topics[outbound].partitions
            ]
        )
        self._next_order = self._end(self._addresses.publishes, 0)
        self.close_channels(("demo-shipping", *OWN_CHANNELS))
        run = uuid.uuid4().hex[:12]
        reply_ids = [f"{run}-{place}" for place in range(len(TOPOLOGY))]
        for reply_id, document in zip(reply_ids, TOPOLOGY, strict=True):
            self._command({**document, "channel": ADMIN_CHANNEL, "reply_id": reply_id})
        return reply_ids

    def is_declared(self, reply_ids: Iterable[str]) -> bool:
        """Read replies; whether every declaration has succeeded.

        Raises:
            DemoError: a declaration was refused.
        """
        self._read(0.2)
        for reply_id in reply_ids:
            reply = self._replies.get(reply_id)
            if reply is None:
                return False
            if "error" in reply and reply["op"] != "set_policy":  # only administrators may
                error = reply["error"]
                raise DemoError(
                    f"the broker refused {reply['op']}: {error['code']} {error['text']}\n"
                    "Other declarations already use these names: choose another directory (--dir)."
                )
        return True

    def open(self) -> None:
        """Start the consumers and open the shop."""
        self._working = True
        self._consume(PAYMENTS, PAYMENTS_CHANNEL, PAYMENTS_PREFETCH)
        self._consume(QUOTES, QUOTES_CHANNEL, 1)
        self._consume(INVOICES, INVOICES_CHANNEL, PAYMENTS_PREFETCH)
        self._shop_opened_s = time.monotonic()

    # -- the traffic

    def work(self, *, sell: bool) -> None:
        """Read what has arrived, settle it, and publish the orders that are due."""
        self._read(0.05)
        if self._quotes and time.monotonic() >= self._quote_done_s:
            self._settle("ack", self._quotes.popleft(), QUOTES_CHANNEL)
        if sell:
            due = int((time.monotonic() - self._shop_opened_s) * ORDERS_PER_S)
            while self._sold < due:
                self._publish(order(self._next_order))
                self._next_order += 1
                self._sold += 1
                self._counters.add("published")
        self._sender.producer.poll(0)

    def close_channels(self, channels: Iterable[str] = OWN_CHANNELS) -> None:
        """Stop consuming; unsettled messages return to their queues."""
        self._working = False
        for channel in channels:
            self._command({"op": "close_channel", "channel": channel})

    def wait_for_confirms(self) -> None:
        """Read until every publish is confirmed, or until a short timeout."""
        self._flush()
        deadline_s = time.monotonic() + CONFIRM_TIMEOUT_S
        while time.monotonic() < deadline_s:
            counts = self._counters.snapshot()
            if counts.get("confirmed", 0) + counts.get("nacked", 0) >= counts.get("published", 0):
                return
            self._read(0.1)

    def close(self) -> None:
        """Send the last records and close the connections."""
        self._flush()
        self._consumer.close()

    def _flush(self) -> None:
        with suppress(SendError):  # the report counts what was published and not confirmed
            self._sender.flush(FLUSH_TIMEOUT_S)

    def _read(self, seconds: float) -> None:
        for message in self._consumer.consume(200, seconds):
            if message.error() is not None:
                continue  # Kafka is away; the client reconnects by itself
            headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
            record = self._deduplicator.read(message.value(), headers)
            if record is not None:
                self._handle(record)

    def _handle(self, record: OutboundRecord) -> None:
        match record.kind, record.channel:
            case "answer", _:
                reply = record.document
                if reply.get("reply_id"):
                    self._replies[reply["reply_id"]] = reply
            case "confirm", _:
                self._counters.add("confirmed" if record.document.get("ack") else "nacked")
            case "delivery", "demo-payments" if self._working:
                self._pay(record)
            case "delivery", "demo-invoices" if self._working:
                self._invoice(record)
            case "delivery", "demo-quotes" if self._working:
                self._quotes.append(record.delivery_id)
                self._quote_done_s = time.monotonic() + QUOTE_WORK_S
            case _:
                pass

    def _pay(self, record: OutboundRecord) -> None:
        decision = payment(record.value, record.amqp_headers)
        if decision == "reject":
            self._settle("reject", record.delivery_id, PAYMENTS_CHANNEL, requeue=False)
            return
        # Publish before the ack: after a crash in between, the order is delivered again.
        self._publish(parked(record.value) if decision == "park" else paid(record.value))
        self._counters.add("published")
        self._settle("ack", record.delivery_id, PAYMENTS_CHANNEL)

    def _invoice(self, record: OutboundRecord) -> None:
        decision = invoice(record.amqp_headers, self.release)
        if decision == "reject":
            self._settle("reject", record.delivery_id, INVOICES_CHANNEL, requeue=False)
        else:
            self._settle("ack", record.delivery_id, INVOICES_CHANNEL)
        self._counters.add(f"invoices {decision}ed")

    def _consume(self, queue: str, channel: str, prefetch: int) -> None:
        self._command(
            {"op": "consume", "queue": queue, "as": queue, "channel": channel, "prefetch": prefetch}
        )

    def _settle(self, op: str, delivery_id: str, channel: str, **more: Any) -> None:
        self._command({"op": op, "refs": [delivery_id], "channel": channel, **more})
        self._counters.add({"ack": "acked", "reject": "rejected"}[op])

    def _command(self, document: dict[str, Any]) -> None:
        self._send(self._addresses.commands, command(document, self._addresses.vhost))

    def _publish(self, message: Order) -> None:
        record = publish(message, self._addresses.vhost, SHOP_CHANNEL)
        self._send(self._addresses.publishes, record)

    def _send(self, topic: str, record: Record) -> None:
        try:
            self._sender.send(topic, record.value, headers=record.headers)
        except SendError as error:
            raise DemoError(f"Kafka did not accept a record: {error}") from error

    def _end(self, topic: str, partition: int) -> int:
        place = TopicPartition(topic, partition)
        _low, high = once_led(
            lambda: self._consumer.get_watermark_offsets(place, timeout=REPLY_TIMEOUT_S),
            REPLY_TIMEOUT_S,
        )
        return int(high)
