"""Sending outbound records to Kafka: a batch's are there, in order, before the batch goes on.

Replay: the same records are sent again with the same numbers; readers drop them. After a failure
nothing of the failed attempt may come behind what the replay sends, so its producer is given up.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from streaming.pipeline.outbound.records import OutboundRecords

if TYPE_CHECKING:
    from streaming.broker.config import ShardConfig
    from streaming.broker.shard import Batch
    from streaming.ledger.read.body_reader import BodyReader
    from streaming.pipeline.outbound.truncation import CutRecord
    from streaming.pipeline.task.context import BatchContext, TaskSettings

FLUSH_TIMEOUT_S = 120

_producers: dict[str, Producer] = {}  # of this worker process, by their configuration


class OutboundError(Exception):
    """Kafka did not take the outbound records; the batch fails and is tried again."""


def producer(settings: dict[str, Any]) -> Producer:
    """This process's producer for a configuration."""
    key = json.dumps(settings, sort_keys=True)
    if key not in _producers:
        _producers[key] = Producer(settings)
    return _producers[key]


def _give_up(settings: dict[str, Any]) -> None:
    gone = _producers.pop(json.dumps(settings, sort_keys=True), None)
    if gone is not None:
        gone.purge()


class OutboundWriter:
    """Writes what one shard's batch has to say.

    Attributes:
        cut: the records that were too large for their topic.
    """

    def __init__(self, settings: TaskSettings, config: ShardConfig, context: BatchContext) -> None:
        self._outbound = settings.outbound
        self._config = config
        self._records = OutboundRecords(settings, config, context)
        self.cut: list[CutRecord] = []

    def write(self, batch: Batch, bodies: BodyReader) -> int:
        """Send the records and wait until Kafka has them; returns how many.

        Raises:
            OutboundError: Kafka did not take them.
        """
        if not batch.outbound:
            return 0
        sender = producer(self._outbound.producer)
        failures: list[str] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(str(error))

        sent = 0
        for out, record in self._records.of(batch, bodies):
            topic = self._outbound.topics.get((self._config.vhost, out.actor.user or ""))
            if topic is None:
                continue
            if record.cut is not None:
                self.cut.append(record.cut)
            while True:
                try:
                    sender.produce(
                        topic,
                        value=record.value,
                        key=out.actor.channel.encode(),
                        headers=list(record.headers),
                        on_delivery=delivered,
                    )
                except BufferError:
                    sender.poll(0.5)
                    continue
                except KafkaException as error:
                    failures.append(str(error))
                break
            if failures:
                break
            sent += 1
            sender.poll(0)
        left = 0 if failures else sender.flush(FLUSH_TIMEOUT_S)
        if left or failures:
            _give_up(self._outbound.producer)
            reason = failures[0] if failures else f"{left} records unsent after {FLUSH_TIMEOUT_S} s"
            raise OutboundError(f"outbound records of vhost {self._config.vhost!r}: {reason}")
        return sent
