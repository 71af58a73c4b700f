"""Reading what the job says: one consumer of a connection, on a thread of its own.

The outbound topic is read from now on; the topic of the heartbeat beside it, where there is one and
it may be read, from its last record on: that says at once whether publishers may publish.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streaming.client.errors import ClientError, KafkaUnreachableError
from streaming.client.pulse import SILENT_S, Pulse
from streaming.client.records import Repeats, inbound
from streaming.client.sender import reason_of
from streaming.kafka_errors import Complaints

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

    from streaming.client.address import Address
    from streaming.client.dispatch import Dispatch
    from streaming.client.outages import Outages

logger = logging.getLogger("dlx.client")

POLL_S = 0.1
NEWS_S = 1.0
"""How long the news of a topic may take to reach the broker that is asked."""
MOST_AT_ONCE = 1000
PROBE_S = 0.5
"""How long Kafka has to say that not it, but the job, is silent."""

_PASSING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


class Reader:
    """Hands new records to the members, calls their `moment` now and then, and notes silence.

    Attributes:
        heard_s: when the outbound topic last said something, repeats included, on the monotonic
            clock.

    Nobody is subscribed: partitions are assigned by hand, since every client reads all of them and
    nothing is remembered in Kafka. After a break the consumer goes on where it was.
    """

    def __init__(
        self,
        address: Address,
        timeout_s: float,
        members: Dispatch,
        trouble: Outages,
    ) -> None:
        self._members = members
        self._trouble = trouble
        self._alive = TopicPartition(address.alive, 0)
        self._met = threading.Event()
        self.heard_s = time.monotonic()
        self._pulse = Pulse(self.heard_s)
        self._repeats = Repeats()
        self._complaints = Complaints(trouble.of_kafka)
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
        if not self.is_this_thread:
            self._thread.join()

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller is called by it."""
        return threading.current_thread() is self._thread

    @property
    def lives(self) -> bool:
        """Whether the job was heard of lately, whatever it said."""
        return time.monotonic() - self.heard_s <= SILENT_S

    def wait_for_heartbeat(self, timeout_s: float) -> None:
        """Return when the last heartbeat was read, if there is one, or after so long."""
        self._met.wait(timeout_s)

    def _begin(self, address: Address, timeout_s: float) -> None:
        """Read from the end there is now: answers to what is asked later come after it."""
        gives_up_s = time.monotonic() + timeout_s
        try:
            known = self._known_topics(address, timeout_s)
            places = []
            for partition in known[address.outbound].partitions:
                place = TopicPartition(address.outbound, partition)
                _low, place.offset = self._bounds_of(place, gives_up_s)
                places.append(place)
            if address.alive in known and self._finds_last_beat(gives_up_s):
                places.append(self._alive)
            else:
                self._met.set()
            self._consumer.assign(places)
        except KafkaException as error:
            self._consumer.poll(0)  # hands over the complaints
            raise KafkaUnreachableError(
                f"no answer from Kafka at {address.bootstrap} within {timeout_s:g} s "
                f"{self._complaints.explain(reason_of(error))}"
            ) from error

    def _finds_last_beat(self, gives_up_s: float) -> bool:
        """Begin with the last heartbeat; False if the topic may not be read."""
        try:
            low, high = self._bounds_of(self._alive, gives_up_s)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            return False
        self._alive.offset = max(low, high - 1)
        if low == high:
            self._met.set()  # the job beats for the first time later
        return True

    def _bounds_of(self, place: TopicPartition, gives_up_s: float) -> tuple[int, int]:
        """Where a partition begins and ends; one that is being made, or moves, is waited for."""
        while True:
            left_s = max(gives_up_s - time.monotonic(), POLL_S)
            try:
                low, high = self._consumer.get_watermark_offsets(place, timeout=left_s)
            except KafkaException as error:
                if error.args[0].code() not in _PASSING or time.monotonic() > gives_up_s:
                    raise
                time.sleep(POLL_S)
            else:
                return int(low), int(high)

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
            self._guarded(self._members.moment)
            if self._pulse.turn(time.monotonic()):
                self._guarded(self._say_who_is_silent)
        self._consumer.close()

    def _read(self, record: Message) -> None:
        is_beat = record.topic() == self._alive.topic
        if record.error() is not None:
            # Kafka is away: the error callback has said so, and librdkafka tries again. Or this
            # topic may not be read (any more).
            if is_beat:
                self._pulse.unreadable()
                self._met.set()
            return
        headers: Any = record.headers()
        read = inbound(record.value(), headers)
        if is_beat:
            self._pulse.beat()
            self._guarded(lambda: self._members.beat(read))
            self._met.set()
            return
        self.heard_s = time.monotonic()
        self._pulse.heard()
        if self._repeats.is_new(record.partition() or 0, read.headers):
            self._guarded(lambda: self._members.take(read))

    def _say_who_is_silent(self) -> None:
        """Nothing was heard of the job for too long: is it the job, or Kafka?"""
        try:
            self._consumer.get_watermark_offsets(self._alive, timeout=PROBE_S)
        except KafkaException:
            self._trouble.kafka_is_silent()
        else:
            self._trouble.job_is_silent()

    def _guarded(self, work: Callable[[], None]) -> None:
        """A callback of the user that fails must not end the reading."""
        try:
            work()
        except Exception:
            logger.exception("a callback failed")
