"""Reads what the job writes: one Kafka consumer of a connection, on a thread of its own.

The reader starts at the end of the outbound topic. If the job's heartbeat topic exists and is
readable, it starts there with the last record, which says at once whether publishers may publish.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streaming.client._transport.discovery import unreachable
from streaming.client._transport.dispatch import Dispatch
from streaming.client._transport.liveness import Liveness
from streaming.client._transport.outages import Outages
from streaming.client._transport.sender import kafka_client
from streaming.client._wire import Repeats, inbound
from streaming.client.address import Address
from streaming.client.errors import ClientError
from streaming.kafka_errors import KafkaErrors
from streaming.waiting import Flag, end

logger = logging.getLogger("dlx.client")

POLL_S = 0.1
MAX_RECORDS_PER_POLL = 1000
TOPIC_WAIT_S = 1.0
"""How long a new topic may take to be known to the broker that is asked."""
KAFKA_PROBE_S = 0.5
"""How long Kafka may take to prove that it works and only the job is silent."""

_TRANSIENT = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


class Reader:
    """Feeds new records to the dispatch and reports a silent job or Kafka.

    It assigns partitions by hand and commits no offsets: every client reads all partitions. After
    an outage the consumer resumes where it left off.

    Args:
        timeout_s: how long Kafka may take to answer while the reader starts, and a callback to
            return while it ends.

    Attributes:
        thread: the thread that reads and calls the dispatch.
        heartbeat_known: set once the last heartbeat is read, or there is none.
    """

    def __init__(
        self,
        address: Address,
        timeout_s: float,
        dispatch: Dispatch,
        outages: Outages,
        liveness: Liveness,
    ) -> None:
        self._timeout_s = timeout_s
        self._dispatch = dispatch
        self._outages = outages
        self._liveness = liveness
        self._alive = TopicPartition(address.alive, 0)
        self.heartbeat_known = Flag()
        self._repeats = Repeats()
        self._kafka_errors = KafkaErrors(outages.kafka_error)
        properties: dict[str, Any] = {**address.properties}
        del properties["message.max.bytes"]  # known to producers only
        self._consumer = kafka_client(
            Consumer,
            {
                "reconnect.backoff.max.ms": 1000,
                "fetch.wait.max.ms": 100,
                **properties,
                "group.id": "dlx-client",  # required, but never joined
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
                "error_cb": self._kafka_errors.note,
            },
        )
        self._closing = Flag()
        try:
            self._assign(address, timeout_s)
        except BaseException:
            self._consumer.close()
            raise
        self.thread = threading.Thread(target=self._run, name="dlx-client-reader", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Stop; afterwards nothing more is handed over."""
        self._closing.set()
        end(self.thread, self._timeout_s)

    def _assign(self, address: Address, timeout_s: float) -> None:
        """Start at the present end of the topic, before any answer to a later command."""
        deadline_s = time.monotonic() + timeout_s
        try:
            topics = self._topics(address, timeout_s)
            places = []
            for partition in topics[address.outbound].partitions:
                place = TopicPartition(address.outbound, partition)
                _low, place.offset = self._bounds_of(place, deadline_s)
                places.append(place)
            if address.alive in topics and self._find_last_heartbeat(deadline_s):
                places.append(self._alive)
                self._liveness.can_hear = True
            else:
                self.heartbeat_known.set()
            self._consumer.assign(places)
        except KafkaException as error:
            self._consumer.poll(0)  # receives librdkafka's error messages
            raise unreachable(address.bootstrap, timeout_s, self._kafka_errors, error) from error

    def _find_last_heartbeat(self, deadline_s: float) -> bool:
        """Set the offset of the last heartbeat; False if the topic must not be read."""
        try:
            low, high = self._bounds_of(self._alive, deadline_s)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            return False
        self._alive.offset = max(low, high - 1)
        if low == high:
            self.heartbeat_known.set()  # the job has not written one yet
        return True

    def _bounds_of(self, place: TopicPartition, deadline_s: float) -> tuple[int, int]:
        """The first and next offset of a partition; waits for one that is created or moved."""
        while True:
            left_s = max(deadline_s - time.monotonic(), POLL_S)
            try:
                low, high = self._consumer.get_watermark_offsets(place, timeout=left_s)
            except KafkaException as error:
                if error.args[0].code() not in _TRANSIENT or time.monotonic() > deadline_s:
                    raise
                time.sleep(POLL_S)
            else:
                return int(low), int(high)

    def _topics(self, address: Address, timeout_s: float) -> dict[str, Any]:
        """The cluster's topics; waits for one that was just created."""
        deadline_s = time.monotonic() + min(timeout_s, TOPIC_WAIT_S)
        while True:
            topics: dict[str, Any] = self._consumer.list_topics(timeout=timeout_s).topics
            missing = sorted(address.topics() - topics.keys())
            if not missing:
                return topics
            if time.monotonic() > deadline_s:
                raise ClientError(
                    f"Kafka at {address.bootstrap} has no topic {', '.join(missing)}. The job "
                    "creates its topics when it starts (`dlx run`); check the names in its dlx.toml"
                )
            time.sleep(POLL_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            first = self._consumer.poll(POLL_S)
            if first is not None:
                self._read(first)
                for record in self._consumer.consume(MAX_RECORDS_PER_POLL, 0):
                    self._read(record)
            self._guarded(self._dispatch.tick)
            if self._liveness.turn(time.monotonic()):
                self._guarded(self._report_silence)
        self._consumer.close()

    def _read(self, record: Message) -> None:
        is_heartbeat = record.topic() == self._alive.topic
        if record.error() is not None:
            # Kafka is down: the error callback reports it and librdkafka retries. Or the topic
            # must not be read (any more).
            if is_heartbeat:
                self._liveness.heartbeat_unreadable()
                self.heartbeat_known.set()
            return
        headers: Any = record.headers()
        read = inbound(record.value(), headers)
        if is_heartbeat:
            _kind, at_ms = record.timestamp()
            self._liveness.heartbeat(time.monotonic(), at_ms, int(time.time() * 1000))
            self._guarded(lambda: self._dispatch.heartbeat(read))
            self.heartbeat_known.set()
            return
        self._liveness.heard(time.monotonic())
        if self._repeats.is_new(record.partition() or 0, read.headers):
            self._guarded(lambda: self._dispatch.receive(read))

    def _report_silence(self) -> None:
        try:
            self._consumer.get_watermark_offsets(self._alive, timeout=KAFKA_PROBE_S)
        except KafkaException:
            self._outages.kafka_is_silent()
        else:
            self._outages.job_is_silent()

    def _guarded(self, work: Callable[[], None]) -> None:
        """Log an exception of a user's callback; it must not end the reading."""
        try:
            work()
        except Exception:
            logger.exception("a callback failed")
