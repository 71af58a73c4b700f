"""Outbound Kafka records: deliveries, confirms, returns, answers (D3b), and their wire form.

Every record is keyed by channel and carries `dlx-vhost`, `dlx-lane` and `dlx-seq`: a number that
goes up by one with each record of that vhost and lane. A replayed batch sends the same records
with the same numbers; a reader drops what is not above the highest it has seen.

A delivery's value is the body, its AMQP attributes are headers as on publishes; every other
record's value is a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from confluent_kafka import Producer

from streaming.broker.batch import Batch
from streaming.broker.message import Envelope, Message
from streaming.broker.outbound import (
    AnswerOut,
    CancelOut,
    ConfirmOut,
    DeliveryOut,
    Outbound,
    PublishErrorOut,
    ReturnOut,
)
from streaming.broker.shard_config import ShardConfig
from streaming.ledger.bodies import BodyReader
from streaming.pipeline.body_places import places_of, runs_of_bytes
from streaming.pipeline.message_rows import headers_json
from streaming.pipeline.tasks import BatchContext, TaskSettings
from streaming.scenario.messages import delivered_headers
from streaming.wire import OURS

KIND = "dlx-kind"
SEQ = "dlx-seq"
LANE = "dlx-lane"

STORED = ("body", "kafka_headers")
"""The columns of `messages` that leave with a delivery as they came: foreign headers byte for byte,
repeats included, in their order; only those of a mapped topic that are named like ours stay."""

Header = tuple[str, bytes | None]


class _Stored(NamedTuple):
    """How a message arrived, as far as it leaves so."""

    body: bytes
    kafka_headers: list[dict[str, Any]] | None


_producers: dict[str, Producer] = {}  # of this worker process, by their configuration
FLUSH_TIMEOUT_S = 120


class OutboundError(Exception):
    """Kafka did not take the outbound records; the batch fails and is tried again."""


def producer(settings: dict[str, Any]) -> Producer:
    """This process's producer for a configuration."""
    key = json.dumps(settings, sort_keys=True)
    if key not in _producers:
        _producers[key] = Producer(settings)
    return _producers[key]


class OutboundWriter:
    """Writes what one shard's batch has to say."""

    def __init__(self, settings: TaskSettings, config: ShardConfig, context: BatchContext) -> None:
        self._outbound = settings.outbound
        self._config = config
        self._context = context

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
        for place, out, stored in self._with_bodies(batch.outbound, bodies):
            topic = self._outbound.topics.get((self._config.vhost, out.actor.user or ""))
            if topic is None:
                continue
            kind, value, headers = self._record(out, stored, batch.events.first_seq)
            common: list[Header] = [
                (KIND, kind.encode()),
                ("dlx-vhost", self._config.vhost.encode()),
                (LANE, str(self._config.lane).encode()),
                (SEQ, str(batch.first_outbound + place).encode()),
                ("dlx-channel", out.actor.channel.encode()),
            ]
            while True:
                try:
                    sender.produce(
                        topic,
                        value=value,
                        key=out.actor.channel.encode(),
                        headers=[*common, *headers],
                        on_delivery=delivered,
                    )
                except BufferError:
                    sender.poll(0.5)
                    continue
                break
            sent += 1
            sender.poll(0)
        left = sender.flush(FLUSH_TIMEOUT_S)
        if left or failures:
            reason = failures[0] if failures else f"{left} records unsent after {FLUSH_TIMEOUT_S} s"
            raise OutboundError(f"outbound records of vhost {self._config.vhost!r}: {reason}")
        return sent

    def _with_bodies(
        self, outbound: list[Outbound], bodies: BodyReader
    ) -> Iterator[tuple[int, Outbound, dict[int, _Stored]]]:
        """Place, record, and the bodies of it and those around it, as many as memory may hold."""
        sizes = [0 if message is None else message.size for message in map(_message, outbound)]
        for start, end in runs_of_bytes(sizes):
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
        found = bodies.read(places_of(list(messages.values()), self._context.query_id))
        columns = (found[name].to_pylist() for name in STORED)
        return {name: _Stored(*one) for name, *one in zip(messages, *columns, strict=True)}

    def _record(
        self, out: Outbound, stored: dict[int, _Stored], first_seq: int
    ) -> tuple[str, bytes, list[Header]]:
        match out:
            case DeliveryOut():
                arrived = stored[id(out.copy.message)]
                headers = _attributes(
                    out.copy.envelope, delivered_headers(out, self._config.compat), arrived
                )
                count = out.delivery_count
                headers += [
                    ("dlx-queue", out.queue.encode()),
                    ("dlx-ref", out.ref.encode()),
                    ("dlx-delivery-id", out.delivery_id.encode()),
                    ("dlx-redelivered", b"true" if count else b"false"),
                    ("dlx-copy-id", str(out.copy.copy_id).encode()),
                ]
                if count:
                    headers.append(("dlx-delivery-count", str(count).encode()))
                return "delivery", arrived.body, headers
            case ReturnOut():
                arrived = stored[id(out.message)]
                headers = _attributes(out.envelope, out.envelope.headers, arrived)
                headers += [
                    ("dlx-reply-code", str(out.code).encode()),
                    ("dlx-reply-text", out.text.encode()),
                    *_origin_headers(out.message),
                ]
                return "return", arrived.body, headers
            case ConfirmOut():
                return "confirm", _json({"ack": out.ack, **_origin(out.message)}), []
            case PublishErrorOut():
                error = {"code": out.refusal.code, "text": out.refusal.text}
                return "publish_error", _json({"error": error, **_origin(out.message)}), []
            case CancelOut():
                return "cancel", _json({"consumer": out.consumer, "queue": out.queue}), []
            case AnswerOut():
                answer: dict[str, Any] = {"op": out.op, "reply_id": out.reply_id}
                if out.refusal is None:
                    answer["result"] = out.result
                else:
                    answer["error"] = {"code": out.refusal.code, "text": out.refusal.text}
                answer["seq"] = first_seq + out.row
                return "answer", _json(answer), []


def _message(out: Outbound) -> Message | None:
    """The message whose body a record carries."""
    match out:
        case DeliveryOut():
            return out.copy.message
        case ReturnOut():
            return out.message
        case _:
            return None


def _attributes(
    envelope: Envelope, headers: dict[str, Any] | None, arrived: _Stored
) -> list[Header]:
    properties = dict(envelope.properties)
    if envelope.expiration is not None:
        properties["expiration"] = envelope.expiration
    attributes: list[Header] = [
        ("dlx-exchange", envelope.exchange.encode()),
        ("dlx-routing-key", envelope.routing_keys[0].encode()),
    ]
    if properties:
        attributes.append(("dlx-properties", _json(properties)))
    text = headers_json(headers)
    if text is not None:
        attributes.append(("dlx-headers", text.encode()))
    attributes += [
        (header["key"], header["value"])
        for header in arrived.kafka_headers or ()
        if not header["key"].startswith(OURS)  # a mapped topic's, which would pass for ours
    ]
    return attributes


def _origin(message: Message) -> dict[str, int]:
    return {
        "topic_number": message.topic_number,
        "partition": message.partition,
        "offset": message.offset,
    }


def _origin_headers(message: Message) -> list[Header]:
    return [
        (f"dlx-{name.replace('_', '-')}", str(value).encode())
        for name, value in _origin(message).items()
    ]


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str).encode()
