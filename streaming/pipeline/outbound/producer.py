"""Sends outbound records to Kafka: the batch continues after Kafka has accepted all records.

Replay: the same records are sent again with the same numbers, and readers drop them.
"""

import json
from collections.abc import Iterator
from typing import Any

from streaming.broker.config import ShardConfig
from streaming.broker.lanes import LanePart
from streaming.broker.outbound import DeliveryOut, lane_part
from streaming.broker.shard import Batch
from streaming.ledger.read.body_reader import BodyReader
from streaming.pipeline.outbound.records import OutboundRecords
from streaming.pipeline.outbound.truncation import Header
from streaming.pipeline.reports import TruncatedRecord
from streaming.pipeline.task import BatchContext, TaskSettings
from streaming.record_sender import BatchSender, SendError

_senders: dict[str, BatchSender] = {}  # of this worker process, by configuration


class OutboundError(Exception):
    """Kafka did not accept the outbound records; the batch fails and runs again."""


class OutboundWriter:
    """Sends the outbound records of one shard's batch.

    Attributes:
        truncated: the records that were too large for their topic.
        parts: what is not sent, because all lanes answer together (`pipeline.lane_answers`).
    """

    def __init__(self, settings: TaskSettings, config: ShardConfig, context: BatchContext) -> None:
        self._outbound = settings.outbound
        self._vhost = config.vhost
        self._records = OutboundRecords(settings, config, context)
        self._lane, self._is_lane = config.lane, config.lanes > 1
        self.truncated: list[TruncatedRecord] = []
        self.parts: list[LanePart] = []

    def write(self, batch: Batch, bodies: BodyReader) -> int:
        """Send the records, wait until Kafka has them, and return how many were sent.

        Raises:
            OutboundError: Kafka did not accept them.
        """
        if not batch.outbound:
            return 0
        try:
            with sender_of(self._outbound.producer).sending() as sender:
                return sender.send_all(self._addressed(batch, bodies))
        except SendError as error:
            raise OutboundError(f"outbound records of vhost {self._vhost!r}: {error}") from error

    def _addressed(
        self, batch: Batch, bodies: BodyReader
    ) -> Iterator[tuple[str, bytes, bytes, list[Header]]]:
        """Yield topic, value, key and headers of each record that has a topic."""
        topics = {
            user: topic
            for (vhost, user), topic in self._outbound.topics.items()
            if vhost == self._vhost
        }
        keys: dict[str, bytes] = {}
        for index, (out, record) in enumerate(self._records.of(batch, bodies)):
            user, channel = out.actor
            if self._is_lane and type(out) is not DeliveryOut:
                seq, event_seq = batch.first_outbound + index, batch.events.first_seq + out.row
                part = lane_part(out, self._lane, seq, event_seq)
                if part is not None:
                    self.parts.append(part)
                    continue
            value, headers, truncated = record
            topic = topics.get(user or "")
            if topic is None:
                continue
            if truncated is not None:
                self.truncated.append(truncated)
            key = keys.get(channel)
            if key is None:
                key = keys[channel] = channel.encode()
            yield topic, value, key, headers


def sender_of(properties: dict[str, Any]) -> BatchSender:
    """The sender of this worker process with these properties."""
    key = json.dumps(properties, sort_keys=True)
    if key not in _senders:
        _senders[key] = BatchSender(properties)
    return _senders[key]
