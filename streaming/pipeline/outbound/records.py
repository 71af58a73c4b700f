"""Outbound Kafka records: deliveries, confirms, returns, answers (D3b), and their wire form.

Every record is keyed by channel and carries `dlx-vhost`, `dlx-lane` and `dlx-seq`: a number that
goes up by one with each record of that vhost and lane. A replayed batch sends the same records
with the same numbers; a reader drops what is not above the highest it has seen.

A delivery's value is the body, its AMQP attributes are headers as on publishes; every other
record's value is a JSON object. A record that its topic would not take goes out cut
(`outbound_fit.py`).
"""

from __future__ import annotations

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
from streaming.pipeline.outbound.truncation import (
    CutRecord,
    Header,
    MessageParts,
    fit_answer,
    fit_message,
)
from streaming.pipeline.rows.body_lookup import (
    MAX_BYTES,
    MAX_TEXT_BYTES,
    places_of,
    runs_within,
)
from streaming.pipeline.task.context import BatchContext, TaskSettings
from streaming.protocol.headers import (
    CHANNEL,
    COPY_ID,
    DELIVERY_COUNT,
    DELIVERY_ID,
    EXCHANGE,
    KIND,
    LANE,
    OURS,
    PLACE,
    QUEUE,
    REDELIVERED,
    REF,
    REPLY_CODE,
    REPLY_TEXT,
    ROUTING_KEY,
    SEQ,
    VHOST,
    delivered_headers,
)

KINDS: dict[type[Outbound], str] = {
    DeliveryOut: "delivery",
    ReturnOut: "return",
    ConfirmOut: "confirm",
    PublishErrorOut: "publish_error",
    CancelOut: "cancel",
    AnswerOut: "answer",
}

STORED = ("body", "kafka_headers")
"""The columns of `messages` that leave with a delivery as they came: foreign headers byte for byte,
repeats included, in their order; only those of a mapped topic that are named like ours stay."""


class _Stored(NamedTuple):
    """How a message arrived, as far as it leaves so."""

    body: bytes
    kafka_headers: list[dict[str, Any]] | None


class OutboundRecord(NamedTuple):
    """A record; `cut` says so if something had to be left out of it."""

    value: bytes
    headers: list[Header]
    cut: CutRecord | None


class OutboundRecords:
    """Makes the records of what one shard's batch has to say."""

    def __init__(self, settings: TaskSettings, config: ShardConfig, context: BatchContext) -> None:
        self._record_bytes = settings.outbound.record_bytes
        self._config = config
        self._max_header_bytes = settings.max_header_bytes
        self._query_id = context.query_id

    def of(self, batch: Batch, bodies: BodyReader) -> Iterator[tuple[Outbound, OutboundRecord]]:
        """The records of a batch, in order.

        Args:
            bodies: reads STORED.
        """
        for place, out, stored in self._with_bodies(batch.outbound, bodies):
            seq = batch.first_outbound + place
            yield out, self._record(out, stored, seq, batch.events.first_seq)

    def _with_bodies(
        self, outbound: list[Outbound], bodies: BodyReader
    ) -> Iterator[tuple[int, Outbound, dict[int, _Stored]]]:
        """Place, record, and the bodies of it and those around it, as many as memory may hold."""
        messages = [_message(out) for out in outbound]
        sizes = [0 if message is None else message.size for message in messages]
        headers = [0 if message is None else self._max_header_bytes for message in messages]
        for start, end in runs_within((sizes, MAX_BYTES), (headers, MAX_TEXT_BYTES)):
            stored = self._stored(outbound[start:end], bodies)
            for place in range(start, end):
                yield place, outbound[place], stored

    def _stored(self, outbound: list[Outbound], bodies: BodyReader) -> dict[int, _Stored]:
        """Message (by identity) -> how it arrived, of everything that carries a body."""
        messages: dict[int, Message] = {}
        for out in outbound:
            message = _message(out)
            if message is not None:
                messages[id(message)] = message
        if not messages:
            return {}
        found = bodies.read(places_of(list(messages.values()), self._query_id))
        columns = (found[name].to_pylist() for name in STORED)
        return {name: _Stored(*one) for name, *one in zip(messages, *columns, strict=True)}

    def _record(
        self, out: Outbound, stored: dict[int, _Stored], seq: int, first_event: int
    ) -> OutboundRecord:
        """The record, with what its topic would not take left out, and noted."""
        kind = KINDS[type(out)]
        config = self._config
        key = out.actor.channel.encode()
        common: list[Header] = [
            (KIND, kind.encode()),
            (VHOST, config.vhost.encode()),
            (LANE, str(config.lane).encode()),
            (SEQ, str(seq).encode()),
            (CHANNEL, key),
        ]
        message: tuple[int, int, int] | None = None
        if isinstance(out, DeliveryOut | ReturnOut):
            parts = self._message_parts(out, stored, common)
            one = parts.message
            message = (one.topic_number, one.partition, one.offset)
            fitted = fit_message(parts, key, self._record_bytes)
        else:
            fitted = fit_answer(_document(out, first_event), key, common, self._record_bytes)
        cut = None
        if fitted.left_out:
            cut = CutRecord(
                config.vhost,
                config.lane,
                seq,
                kind,
                out.actor.channel,
                fitted.size,
                fitted.left_out,
                message,
            )
        return OutboundRecord(fitted.value, fitted.headers, cut)

    def _message_parts(
        self, out: DeliveryOut | ReturnOut, stored: dict[int, _Stored], common: list[Header]
    ) -> MessageParts:
        if isinstance(out, DeliveryOut):
            message, envelope = out.copy.message, out.copy.envelope
            headers = delivered_headers(out, self._config.compat)
            more = _delivery_headers(out)
        else:
            message, envelope, headers = out.message, out.envelope, out.envelope.headers
            more = [
                (REPLY_CODE, str(out.code).encode()),
                (REPLY_TEXT, out.text.encode()),
                *_origin_headers(message),
            ]
        properties = dict(envelope.properties)
        if envelope.expiration is not None:
            properties["expiration"] = envelope.expiration
        short: list[Header] = [
            *common,
            (EXCHANGE, envelope.exchange.encode()),
            (ROUTING_KEY, envelope.routing_keys[0].encode()),
            *more,
        ]
        arrived = stored[id(message)]
        foreign = [
            (header["key"], header["value"])
            for header in arrived.kafka_headers or ()
            if not header["key"].startswith(OURS)  # of a mapped topic, whose records know no rules
        ]
        return MessageParts(message, arrived.body, short, properties, headers, foreign)


def _message(out: Outbound) -> Message | None:
    """The message whose body a record carries."""
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
        (QUEUE, out.queue.encode()),
        (REF, out.ref.encode()),
        (DELIVERY_ID, out.delivery_id.encode()),
        (REDELIVERED, b"true" if count else b"false"),
        (COPY_ID, str(out.copy.copy_id).encode()),
    ]
    if count:
        headers.append((DELIVERY_COUNT, str(count).encode()))
    return headers


def _document(
    out: ConfirmOut | PublishErrorOut | CancelOut | AnswerOut, first_event: int
) -> dict[str, Any]:
    """The value of what carries no body."""
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


def _origin_headers(message: Message) -> list[Header]:
    values = _origin(message).values()
    return [(name, b"%d" % value) for name, value in zip(PLACE, values, strict=True)]
