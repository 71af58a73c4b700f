"""Outbound Kafka records: deliveries, confirms, returns, answers (D3b), and their wire format.

The record key is the channel. `dlx-vhost`, `dlx-lane` and `dlx-seq` identify a record: the number
goes up by one with each record of a vhost and lane. A replayed batch sends the same records with
the same numbers, and a reader drops those that are not above the highest it has seen.

The value of a delivery or return is the body; AMQP attributes are headers, as on publishes. Every
other record's value is a JSON object. A record that is too large for its topic is truncated
(`truncation`).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from streaming.broker.config import ShardConfig
from streaming.broker.message import Message
from streaming.broker.outbound import (
    AnswerOut,
    CancelOut,
    ConfirmOut,
    DeliveryOut,
    Outbound,
    PublishErrorOut,
    ReturnOut,
)
from streaming.broker.shard import Batch
from streaming.ledger.read.body_reader import BodyReader
from streaming.pipeline.outbound.truncation import Header, MessageParts, fit_answer, fit_message
from streaming.pipeline.reports import TruncatedRecord
from streaming.pipeline.rows.body_lookup import body_places
from streaming.pipeline.rows.chunks import MAX_BODY_BYTES, MAX_TEXT_BYTES, chunks
from streaming.pipeline.task.context import BatchContext
from streaming.pipeline.task.settings import TaskSettings
from streaming.protocol import record_headers as wire

KINDS: dict[type[Outbound], str] = {
    DeliveryOut: "delivery",
    ReturnOut: "return",
    ConfirmOut: "confirm",
    PublishErrorOut: "publish_error",
    CancelOut: "cancel",
    AnswerOut: "answer",
}

STORED = ("body", "kafka_headers")
"""The columns of `messages` that a delivery takes from there."""


class _Stored(NamedTuple):
    """What the table `messages` has of a message."""

    body: bytes
    kafka_headers: list[dict[str, Any]] | None


class OutboundRecord(NamedTuple):
    """A record; `truncated` describes what had to be left out."""

    value: bytes
    headers: list[Header]
    truncated: TruncatedRecord | None


class OutboundRecords:
    """Makes the outbound records of one shard's batch."""

    def __init__(self, settings: TaskSettings, config: ShardConfig, context: BatchContext) -> None:
        self._record_bytes = settings.outbound.record_bytes
        self._config = config
        self._max_header_bytes = settings.max_header_bytes
        self._query_id = context.query_id

    def of(self, batch: Batch, bodies: BodyReader) -> Iterator[tuple[Outbound, OutboundRecord]]:
        """Yield the records of a batch, in order.

        Args:
            bodies: reads the columns STORED.
        """
        first_event = batch.events.first_seq
        messages = [_message(out) for out in batch.outbound]
        sizes = [0 if message is None else message.size for message in messages]
        headers = [0 if message is None else self._max_header_bytes for message in messages]
        for start, end in chunks((sizes, MAX_BODY_BYTES), (headers, MAX_TEXT_BYTES)):
            stored = self._stored([one for one in messages[start:end] if one is not None], bodies)
            for index in range(start, end):
                out = batch.outbound[index]
                yield out, self._record(out, stored, batch.first_outbound + index, first_event)

    def _stored(self, messages: list[Message], bodies: BodyReader) -> dict[int, _Stored]:
        """Return what the table has of each message, by the message's identity."""
        distinct = {id(message): message for message in messages}
        if not distinct:
            return {}
        found = bodies.read(body_places(list(distinct.values()), self._query_id))
        columns = (found[name].to_pylist() for name in STORED)
        return {key: _Stored(*one) for key, *one in zip(distinct, *columns, strict=True)}

    def _record(
        self, out: Outbound, stored: dict[int, _Stored], seq: int, first_event: int
    ) -> OutboundRecord:
        """Return the record, truncated if its topic would not accept it."""
        kind = KINDS[type(out)]
        config = self._config
        key = out.actor.channel.encode()
        common: list[Header] = [
            (wire.KIND, kind.encode()),
            (wire.VHOST, config.vhost.encode()),
            (wire.LANE, str(config.lane).encode()),
            (wire.SEQ, str(seq).encode()),
            (wire.CHANNEL, key),
        ]
        place: tuple[int, int, int] | None = None
        if isinstance(out, DeliveryOut | ReturnOut):
            parts = self._message_parts(out, stored, common)
            place = (parts.message.topic_number, parts.message.partition, parts.message.offset)
            fitted = fit_message(parts, key, self._record_bytes)
        else:
            fitted = fit_answer(_document(out, first_event), key, common, self._record_bytes)
        truncated = None
        if fitted.left_out:
            truncated = TruncatedRecord(
                vhost=config.vhost,
                lane=config.lane,
                seq=seq,
                kind=kind,
                channel=out.actor.channel,
                bytes=fitted.size,
                left_out=fitted.left_out,
                message=place,
            )
        return OutboundRecord(fitted.value, fitted.headers, truncated)

    def _message_parts(
        self, out: DeliveryOut | ReturnOut, stored: dict[int, _Stored], common: list[Header]
    ) -> MessageParts:
        if isinstance(out, DeliveryOut):
            message, envelope = out.copy.message, out.copy.envelope
            headers = wire.delivered_headers(out, self._config.compat)
            more = _delivery_headers(out)
        else:
            message, envelope, headers = out.message, out.envelope, out.envelope.headers
            more = [(wire.REPLY_CODE, str(out.code).encode()), (wire.REPLY_TEXT, out.text.encode())]
            origin = _origin(message).values()
            more += [(name, b"%d" % value) for name, value in zip(wire.PLACE, origin, strict=True)]
        properties = dict(envelope.properties)
        if envelope.expiration is not None:
            properties["expiration"] = envelope.expiration
        required: list[Header] = [
            *common,
            (wire.EXCHANGE, envelope.exchange.encode()),
            (wire.ROUTING_KEY, envelope.routing_keys[0].encode()),
            *more,
        ]
        arrived = stored[id(message)]
        foreign = [  # records of mapped topics may have headers that are named like ours
            (header["key"], header["value"])
            for header in arrived.kafka_headers or ()
            if not header["key"].startswith(wire.OURS)
        ]
        return MessageParts(message, arrived.body, required, properties, headers, foreign)


def _message(out: Outbound) -> Message | None:
    """Return the message whose body a record carries."""
    match out:
        case DeliveryOut():
            return out.copy.message
        case ReturnOut():
            return out.message
        case _:
            return None


def _delivery_headers(out: DeliveryOut) -> list[Header]:
    count = out.delivery_count
    headers: list[Header] = [
        (wire.QUEUE, out.queue.encode()),
        (wire.REF, out.ref.encode()),
        (wire.DELIVERY_ID, out.delivery_id.encode()),
        (wire.REDELIVERED, b"true" if count else b"false"),
        (wire.COPY_ID, str(out.copy.copy_id).encode()),
    ]
    if count:
        headers.append((wire.DELIVERY_COUNT, str(count).encode()))
    return headers


def _document(
    out: ConfirmOut | PublishErrorOut | CancelOut | AnswerOut, first_event: int
) -> dict[str, Any]:
    """Return the value of a record without a body."""
    match out:
        case ConfirmOut():
            return {"ack": out.ack, **_origin(out.message)}
        case PublishErrorOut():
            error = {"code": out.refusal.code, "text": out.refusal.text}
            return {"error": error, **_origin(out.message)}
        case CancelOut():
            return {"consumer": out.consumer, "queue": out.queue}
        case AnswerOut():
            answer: dict[str, Any] = {"op": out.op, "reply_id": out.reply_id}
            if out.refusal is None:
                answer["result"] = out.result
            else:
                answer["error"] = {"code": out.refusal.code, "text": out.refusal.text}
            answer["seq"] = first_event + out.row
            return answer


def _origin(message: Message) -> dict[str, int]:
    return {
        "topic_number": message.topic_number,
        "partition": message.partition,
        "offset": message.offset,
    }
