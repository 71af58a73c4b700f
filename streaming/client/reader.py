"""Reading the outbound topic, from now on: one consumer of a connection, on a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streaming.client.errors import ClientError, KafkaUnreachableError
from streaming.client.records import Inbound, Repeats, inbound
from streaming.client.sender import reason_of
from streaming.complaints import Complaints

if TYPE_CHECKING:
    from confluent_kafka import Message

    from streaming.client.address import Address

logger = logging.getLogger("dlx.client")

POLL_S = 0.1
NEWS_S = 1.0
"""How long the news of a topic may take to reach the broker that is asked."""
MOST_AT_ONCE = 1000

_PASSING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


class Reader:
    """Hands new records of the outbound topic to `take`, and calls `moment` now and then.

    Attributes:
        heard_s: when the job last said something, repeats included, on the monotonic clock.

    Nobody is subscribed: partitions are assigned by hand, since every client reads all of them and
    nothing is remembered in Kafka. After a break the consumer goes on where it was.
    """

    def __init__(
        self,
        address: Address,
        timeout_s: float,
        take: Callable[[Inbound], None],
        moment: Callable[[], None],
        on_error: Callable[[str], None],
    ) -> None:
        self._take = take
        self._moment = moment
        self.heard_s = time.monotonic()
        self._repeats = Repeats()
        self._complaints = Complaints(on_error)
        self._consumer = Consumer(
            {
                "reconnect.backoff.max.ms": 1000,
                "fetch.wait.max.ms": 100,
                **{
                    name: value
                    for name, value in address.properties.items()
                    if name != "message.max.bytes"
                },
                "group.id": "dlx-client",  # never joined
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
                "error_cb": self._complaints.note,
            }
        )
        self._closing = threading.Event()
        try:
            self._begin(address, timeout_s)
        except BaseException:
            self._consumer.close()
            raise
        self._thread = threading.Thread(target=self._run, name="dlx-client-reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End; returns when nothing is handed over any more."""
        self._closing.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _begin(self, address: Address, timeout_s: float) -> None:
        """Read from the end there is now: answers to what is asked later come after it."""
        gives_up_s = time.monotonic() + timeout_s
        try:
            known = self._known_topics(address, timeout_s)
            places = []
            for partition in known[address.outbound].partitions:
                place = TopicPartition(address.outbound, partition)
                place.offset = self._end_of(place, gives_up_s)
                places.append(place)
            self._consumer.assign(places)
        except KafkaException as error:
            self._consumer.poll(0)  # hands over the complaints
            raise KafkaUnreachableError(
                f"no answer from Kafka at {address.bootstrap} within {timeout_s:g} s "
                f"{self._complaints.explain(reason_of(error))}"
            ) from error

    def _end_of(self, place: TopicPartition, gives_up_s: float) -> int:
        """Where a partition ends; one that was made this moment, or moves, is waited for."""
        while True:
            left_s = max(gives_up_s - time.monotonic(), POLL_S)
            try:
                _low, high = self._consumer.get_watermark_offsets(place, timeout=left_s)
            except KafkaException as error:
                if error.args[0].code() not in _PASSING or time.monotonic() > gives_up_s:
                    raise
                time.sleep(POLL_S)
            else:
                return int(high)

    def _known_topics(self, address: Address, timeout_s: float) -> dict[str, Any]:
        """The cluster's topics; one that was made this moment is waited for."""
        gives_up_s = time.monotonic() + min(timeout_s, NEWS_S)
        while True:
            known: dict[str, Any] = self._consumer.list_topics(timeout=timeout_s).topics
            missing = sorted(address.topics() - known.keys())
            if not missing:
                return known
            if time.monotonic() > gives_up_s:
                raise ClientError(
                    f"Kafka at {address.bootstrap} has no topic {', '.join(missing)}: the job "
                    "makes its topics when it starts (`dlx run`); are the names those of its "
                    "dlx.toml?"
                )
            time.sleep(POLL_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            first = self._consumer.poll(POLL_S)
            if first is not None:
                self._read(first)
                for record in self._consumer.consume(MOST_AT_ONCE, 0):
                    self._read(record)
            self._guarded(self._moment)
        self._consumer.close()

    def _read(self, record: Message) -> None:
        if record.error() is not None:
            return  # Kafka is away: the error callback has said so, and librdkafka tries again
        self.heard_s = time.monotonic()
        headers: Any = record.headers()
        read = inbound(record.value(), headers)
        if self._repeats.is_new(record.partition() or 0, read.headers):
            self._guarded(lambda: self._take(read))

    def _guarded(self, work: Callable[[], None]) -> None:
        """A callback of the user that fails must not end the reading."""
        try:
            work()
        except Exception:
            logger.exception("a callback failed")
