"""How far the job has committed the logs, and on which terms it folds them, as its heartbeats say.

The job sends one about once a second for each vhost and user, beside the topic with the user's
deliveries, whatever else it does. A vhost without heartbeats is followed by no job. If one does not
say how far the job is, that stays as it was: an earlier version says so only once it has committed
a batch.
"""

import time
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import OFFSET_END, Message, TopicPartition

from streaming.broker.sequence.log_fold import Terms
from streaming.sequencer.heartbeats import HeartbeatListener

FOLLOWED_S: Final = 10.0
"""After so long without a heartbeat, no job follows."""


class _Log(msgspec.Struct):
    next_offset: int | None = None
    core_version: int | None = None
    rules: str = ""


class _Alive(msgspec.Struct):
    log: _Log | None = None


class _Heard(NamedTuple):
    next_offset: int | None
    terms: Terms | None
    at_s: float


_decoder: Final = msgspec.json.Decoder(_Alive)


class HeardJob:
    """How far the job is, as it was heard. Any thread may use it."""

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}
        self._lock = Lock()

    def of(self, vhost: str) -> int | None:
        """The next offset of the log that the job has not committed; None if none follows."""
        heard = self._lately(vhost)
        return None if heard is None else heard.next_offset

    def terms_of(self, vhost: str) -> Terms | None:
        """How the job folds the log; None if none follows, or it does not say."""
        heard = self._lately(vhost)
        return None if heard is None else heard.terms

    def _lately(self, vhost: str) -> _Heard | None:
        with self._lock:
            heard = self._heard.get(vhost)
        return None if heard is None or time.monotonic() - heard.at_s > FOLLOWED_S else heard

    def note(self, vhost: str, heartbeat: bytes | None) -> None:
        """Note a heartbeat."""
        log = _log_in(heartbeat)
        offset = log.next_offset
        terms = None if log.core_version is None else Terms(log.core_version, log.rules)
        with self._lock:
            known = self._heard.get(vhost)
            if offset is None and known is not None:
                offset = known.next_offset
            self._heard[vhost] = _Heard(offset, terms, time.monotonic())


class JobProgress(HeardJob):
    """Listens to the job's heartbeats, on a thread.

    Args:
        properties: of librdkafka.
        topics: vhost -> a topic with its heartbeats; it need not be there yet.
    """

    def __init__(self, properties: Mapping[str, Any], topics: Mapping[str, str]) -> None:
        super().__init__()
        self._vhosts = {topic: vhost for vhost, topic in topics.items()}
        self._listener = HeartbeatListener(properties, {"auto.offset.reset": "latest"})
        ends = [TopicPartition(topic, 0, OFFSET_END) for topic in self._vhosts]
        self._listener.start("heartbeats of the job", ends, self._hear)

    def listen_to(self, vhost: str, topic: str) -> None:
        """Listen for one more vhost; the topic need not be there yet."""
        if topic not in self._vhosts:
            self._vhosts[topic] = vhost
            self._listener.listen_to(TopicPartition(topic, 0, OFFSET_END))

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _hear(self, message: Message) -> None:
        topic = message.topic()
        assert topic is not None, "a record that was read has a topic"
        self.note(self._vhosts[topic], message.value())


def _log_in(heartbeat: bytes | None) -> _Log:
    try:
        return _decoder.decode(heartbeat or b"").log or _Log()
    except msgspec.DecodeError:
        return _Log()
