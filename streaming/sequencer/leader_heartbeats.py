"""Heartbeats of the fronts that lead: who leads a vhost, and whether it is still there.

They go to a topic of their own, so that an idle log stays idle. Heartbeats only decide when a
standby tries: who leads is decided by the last epoch record in the log. Several jobs may share the
topic, and a log may be made again under its name: a heartbeat counts for the log that it names.
"""

import time
from collections.abc import Mapping
from functools import partial
from threading import Lock
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import KafkaException, Message, TopicPartition

from streaming.kafka_offsets import ELECTION_S, once_led
from streaming.sequencer.heartbeats import HeartbeatListener
from topology.errors import DlxError

BEAT_S: Final = 0.5
"""How often a leader says that it is there."""

_LOOK_BACK: Final = 2_000
"""Heartbeats that a start reads: the newest of each vhost is among them."""

_ANSWER_S: Final = 30.0


class LeadersUnreadableError(DlxError):
    """Nobody can be heard."""

    help_code = "kafka-unreachable"


class Beat(msgspec.Struct, array_like=True, frozen=True):
    """A heartbeat.

    Attributes:
        name: of the front.
        epoch: offset of its epoch record.
        ends: whether it stops leading now.
        topic: of its log; `topic_id` is Kafka's id of it. Earlier versions name neither.
    """

    name: str
    epoch: int
    ends: bool = False
    topic: str = ""
    topic_id: str = ""


class Leader(NamedTuple):
    """Who leads a vhost.

    Attributes:
        heard_s: when it was last heard, by the monotonic clock.
    """

    beat: Beat
    heard_s: float


_decoder: Final = msgspec.msgpack.Decoder(Beat)

_UNNAMED: Final = ("", "")


class HeardLeaders:
    """Who was heard to lead each log. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_vhost: dict[str, dict[tuple[str, str], Leader]] = {}

    def note(self, vhost: str, beat: Beat, heard_s: float) -> None:
        """Note a heartbeat, unless a newer leader of its log is known."""
        with self._lock:
            logs = self._by_vhost.setdefault(vhost, {})
            log = (beat.topic, beat.topic_id)
            known = logs.get(log)
            if known is None or beat.epoch >= known.beat.epoch:
                logs[log] = Leader(beat, heard_s)

    def of(self, vhost: str, topic: str, topic_id: str | None = None) -> Leader | None:
        """Who leads a log, or has; None if nobody was heard.

        Args:
            topic_id: which of the topics that have had this name; None: whichever was heard last.
        """
        with self._lock:
            heard = [
                leader
                for log, leader in self._by_vhost.get(vhost, {}).items()
                if log == _UNNAMED or (log[0] == topic and topic_id in (None, log[1]))
            ]
        return max(heard, key=lambda leader: leader.heard_s, default=None)


class Leaders(HeardLeaders):
    """Listens to the heartbeats of all vhosts, on a thread.

    Args:
        properties: of librdkafka.

    Raises:
        LeadersUnreadableError: Kafka does not say what the topic has.
    """

    def __init__(self, properties: Mapping[str, Any], topic: str) -> None:
        super().__init__()
        own = {"auto.offset.reset": "earliest", "fetch.wait.max.ms": 100}
        self._listener = HeartbeatListener(properties, own)
        watermarks = self._listener.consumer.get_watermark_offsets
        partition = TopicPartition(topic, 0)
        try:
            ends = once_led(partial(watermarks, partition, timeout=_ANSWER_S), ELECTION_S)
        except KafkaException as error:
            raise LeadersUnreadableError(
                f"the heartbeats of fronts in {topic} cannot be read: {error.args[0].str()}. Does "
                "Kafka answer, and may the front read the topic?"
            ) from error
        first, self._end = ends
        partition.offset = max(first, self._end - _LOOK_BACK)
        self._is_current = partition.offset >= self._end
        self._listener.start("heartbeats of fronts", [partition], self._hear)

    @property
    def is_current(self) -> bool:
        """Whether all heartbeats before the start were read."""
        return self._is_current

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _hear(self, message: Message) -> None:
        value, offset = message.value(), message.offset()
        key: Any = message.key()  # its stubs do not say bytes
        heard_s = time.monotonic()
        assert offset is not None, "a record that was read has an offset"
        if offset < self._end:  # it may be old
            heard_s -= max(0.0, time.time() - message.timestamp()[1] / 1000)
        try:
            beat = _decoder.decode(value or b"")
        except msgspec.DecodeError:
            return
        vhost = (key or b"").decode("utf-8", "replace")
        self.note(vhost, beat, heard_s)
        self._is_current = self._is_current or offset + 1 >= self._end
