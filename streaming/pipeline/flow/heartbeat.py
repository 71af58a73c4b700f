"""That the job lives: about once a second, a record beside every outbound topic.

    dlx.out._2f.guest.alive: {"type": "alive", "active": true, "cause": "below", ...}

Who waits for deliveries reads nothing for hours, and must know all the same within seconds that the
job is gone. The outbound topic must be seen to be quiet when it is, so this is a topic of its own.
It says where the gate of flow control stands, too, with the `dlx-seq` of the last notice: a client
begins with the last record there is, and knows at once whether publishers may publish.

The driver says it on a thread of its own, whatever Spark does: no batch runs for it. A replay has
nothing to repeat; a beat that Kafka has not taken after a few seconds is dropped.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer

from streaming.config import alive_topic
from streaming.protocol.headers import VHOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.pipeline.flow.notices import FlowNotices

BEAT_S = 1.0
STALE_MS = 3_000

logger = logging.getLogger(__name__)


class Heartbeat:
    """Beats until it is stopped.

    Args:
        notices: know what publishers were told of the gate.
        topics: (vhost, user) -> outbound topic.
        producer: librdkafka properties; may hold secrets.
    """

    def __init__(
        self,
        notices: FlowNotices,
        topics: Mapping[tuple[str, str], str],
        producer: Mapping[str, str],
    ) -> None:
        self._notices = notices
        self._topics = {alive_topic(topic): vhost for (vhost, _user), topic in topics.items()}
        self._producer = Producer(
            {**producer, "log_level": 0, "linger.ms": 0, "message.timeout.ms": STALE_MS}
        )
        self._silence = Silence()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; returns when nothing more will be said."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._beat()
            self._producer.poll(0)  # what became of earlier ones
            self._silence.say()
            if self._stopping.wait(BEAT_S):
                return

    def _beat(self) -> None:
        value, headers = self._notices.said("alive")
        for topic, vhost in self._topics.items():

            def delivered(error: object, _message: object, topic: str = topic) -> None:
                self._silence.heard(topic, None if error is None else str(error))

            try:
                self._producer.produce(
                    topic,
                    value=value,
                    partition=0,
                    headers=[*headers, (VHOST, vhost.encode())],
                    on_delivery=delivered,
                )
            except (BufferError, KafkaException) as error:
                self._silence.heard(topic, str(error))


class Silence:
    """Which topics take no beats: said once, and once that they do again."""

    def __init__(self) -> None:
        self._why: dict[str, str] = {}
        self._said: set[str] = set()

    def heard(self, topic: str, failure: str | None) -> None:
        """What became of a beat; None: Kafka has it."""
        if failure is None:
            self._why.pop(topic, None)
        else:
            self._why[topic] = failure

    def say(self) -> None:
        """Log what has changed."""
        silent = sorted(self._why.keys() - self._said)
        back = sorted(self._said - self._why.keys())
        self._said = set(self._why)
        if silent:
            logger.warning(
                "no heartbeat in %s: clients cannot tell there whether the job lives: %s",
                _named(silent),
                self._why[silent[0]],
            )
        if back:
            logger.warning("heartbeat again in %s", _named(back))


def _named(topics: list[str]) -> str:
    others = len(topics) - 1
    return f"{topics[0]} and {others} more" if others else topics[0]
