"""The confluent-kafka side of the traffic: the shop publishes, payments and quotes consume."""

import time
import uuid
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, cast

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition

from streaming.demo.addresses import Addresses, DemoError
from streaming.demo.story import (
    PAYMENTS,
    QUOTES,
    TOPOLOGY,
    Order,
    order,
    paid,
    parked,
    payment,
)
from streaming.demo.traffic_counters import Counts
from streaming.demo.wire_records import Inbox, Record, Repeats, command, publish

SHOP_CHANNEL: Final = "demo-shop"
PAYMENTS_CHANNEL: Final = "demo-payments"
QUOTES_CHANNEL: Final = "demo-quotes"
ADMIN_CHANNEL: Final = "demo-admin"
OWN_CHANNELS: Final = (PAYMENTS_CHANNEL, QUOTES_CHANNEL)

ORDERS_PER_S: Final = 40.0
QUOTE_WORK_S: Final = 0.4
PAYMENTS_PREFETCH: Final = 100
FLUSH_S: Final = 10.0
CONFIRM_S: Final = 2.0
LOOK_S: Final = 5.0


class Desk:
    """One producer and one reader of the outbound topic; used by one thread."""

    def __init__(self, addresses: Addresses, counts: Counts) -> None:
        self._addresses = addresses
        self._counts = counts
        self._producer = Producer({**addresses.kafka, "linger.ms": 5, "log_level": 0})
        self._consumer = Consumer(
            {
                **addresses.kafka,
                "group.id": "dlx-demo",  # never joined: partitions are assigned by hand
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._repeats = Repeats()
        self._answers: dict[str, dict[str, Any]] = {}
        self._quotes: deque[str] = deque()
        self._quote_done_s = 0.0
        self._next_order = 0
        self._shop_opened_s = 0.0
        self._sold = 0
        self._working = False

    # -- before the traffic

    def topics_exist(self) -> bool:
        """Whether the job has made its topics; until then nothing may be written."""
        try:
            known = self._consumer.list_topics(timeout=LOOK_S).topics
        except KafkaException:
            return False
        return all(topic in known for topic in self._addresses.topics)

    def begin(self) -> list[str]:
        """Read the outbound topic from now on, and declare the topology.

        Channels of an earlier run that was killed are closed first: their messages are requeued.

        Returns:
            The reply ids of what was asked.
        """
        known = self._consumer.list_topics(self._addresses.outbound, timeout=LOOK_S)
        partitions = known.topics[self._addresses.outbound].partitions
        self._consumer.assign(
            [TopicPartition(self._addresses.outbound, each, OFFSET_END) for each in partitions]
        )
        for each in partitions:  # where "end" is now, before anything is asked
            end = self._end(self._addresses.outbound, each)
            self._consumer.seek(TopicPartition(self._addresses.outbound, each, end))
        self._next_order = self._end(self._addresses.publishes, 0)
        run = uuid.uuid4().hex[:12]
        self.close_channels(("demo-shipping", *OWN_CHANNELS))
        asked = []
        for place, document in enumerate(TOPOLOGY):
            asked.append(f"{run}-{place}")
            self._command({**document, "channel": ADMIN_CHANNEL, "reply_id": asked[-1]})
        return asked

    def answered(self, asked: Iterable[str]) -> bool:
        """Read on; whether the topology stands.

        Raises:
            DemoError: a declaration was refused.
        """
        self._read(0.2)
        for reply_id in asked:
            answer = self._answers.get(reply_id)
            if answer is None:
                return False
            if "error" in answer:
                error = answer["error"]
                raise DemoError(
                    f"the broker refused {answer['op']}: {error['code']} {error['text']}\n"
                    "Something else was declared there under these names: name another directory "
                    "(--dir)."
                )
        return True

    def open(self) -> None:
        """Start the consumers and open the shop."""
        self._working = True
        self._consume(PAYMENTS, PAYMENTS_CHANNEL, PAYMENTS_PREFETCH)
        self._consume(QUOTES, QUOTES_CHANNEL, 1)
        self._shop_opened_s = time.monotonic()

    # -- the traffic

    def work(self, *, sell: bool) -> None:
        """A moment's work: read what came, decide, and publish what is due."""
        self._read(0.05)
        self._finish_quotes()
        if sell:
            due = int((time.monotonic() - self._shop_opened_s) * ORDERS_PER_S)
            while self._sold < due:
                self._publish(order(self._next_order))
                self._next_order += 1
                self._sold += 1
                self._counts.add("published")
        self._producer.poll(0)

    def close_channels(self, channels: Iterable[str] = OWN_CHANNELS) -> None:
        """Stop consuming: what is unsettled goes back to its queue."""
        self._working = False
        for channel in channels:
            self._command({"op": "close_channel", "channel": channel})

    def wait_for_confirms(self) -> None:
        """Read on until every publish is confirmed, for a moment at most."""
        self._producer.flush(FLUSH_S)
        deadline_s = time.monotonic() + CONFIRM_S
        while time.monotonic() < deadline_s:
            counts = self._counts.now()
            if counts.get("confirmed", 0) + counts.get("nacked", 0) >= counts.get("published", 0):
                return
            self._read(0.1)

    def close(self) -> None:
        """Hand the last records to Kafka, and give the connections back."""
        self._producer.flush(FLUSH_S)
        self._consumer.close()

    def _read(self, seconds: float) -> None:
        for message in self._consumer.consume(200, seconds):
            if message.error() is not None:
                continue  # Kafka is away; the client connects again by itself
            headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
            inbox = self._repeats.inbox(message.value(), headers)
            if inbox is not None:
                self._take(inbox)

    def _take(self, inbox: Inbox) -> None:
        match inbox.kind, inbox.channel:
            case "answer", _:
                answer = inbox.document
                if answer.get("reply_id"):
                    self._answers[answer["reply_id"]] = answer
            case "confirm", _:
                self._counts.add("confirmed" if inbox.document.get("ack") else "nacked")
            case "delivery", "demo-payments" if self._working:
                self._pay(inbox)
            case "delivery", "demo-quotes" if self._working:
                self._quotes.append(inbox.delivery_id)
                self._quote_done_s = time.monotonic() + QUOTE_WORK_S
            case _:
                pass

    def _pay(self, inbox: Inbox) -> None:
        decision = payment(inbox.value, inbox.amqp_headers)
        if decision == "reject":
            self._settle("reject", inbox.delivery_id, PAYMENTS_CHANNEL, requeue=False)
            return
        # The follow-up first: if we die in between, the order is delivered again, not forgotten.
        self._publish(parked(inbox.value) if decision == "park" else paid(inbox.value))
        self._counts.add("published")
        self._settle("ack", inbox.delivery_id, PAYMENTS_CHANNEL)

    def _finish_quotes(self) -> None:
        if self._quotes and time.monotonic() >= self._quote_done_s:
            self._settle("ack", self._quotes.popleft(), QUOTES_CHANNEL)

    def _consume(self, queue: str, channel: str, prefetch: int) -> None:
        self._command(
            {"op": "consume", "queue": queue, "as": queue, "channel": channel, "prefetch": prefetch}
        )

    def _settle(self, op: str, delivery_id: str, channel: str, **more: Any) -> None:
        self._command({"op": op, "refs": [delivery_id], "channel": channel, **more})
        self._counts.add({"ack": "acked", "reject": "rejected"}[op])

    def _command(self, document: dict[str, Any]) -> None:
        self._send(self._addresses.commands, command(document, self._addresses.vhost))

    def _publish(self, message: Order) -> None:
        record = publish(message, self._addresses.vhost, SHOP_CHANNEL)
        self._send(self._addresses.publishes, record)

    def _send(self, topic: str, record: Record) -> None:
        headers: Any = record.headers
        while True:
            try:
                self._producer.produce(topic, value=record.value, headers=headers)
            except BufferError:  # Kafka is slow: wait for room
                self._producer.poll(0.1)
            else:
                return

    def _end(self, topic: str, partition: int) -> int:
        _low, high = self._consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=LOOK_S
        )
        return int(high)
