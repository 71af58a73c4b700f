"""Outbound Kafka records: deliveries, confirms, returns, answers (D3b), and their wire format.

The record key is the channel. `dlx-vhost`, `dlx-lane` and `dlx-seq` identify a record: the number
goes up by one with each record of a vhost and lane. A replayed batch sends the same records with
the same numbers, and a reader drops those that are not above the highest it has seen.

The value of a delivery or return is the body; AMQP attributes are headers, as on publishes. Every
other record's value is a JSON object. A record that is too large for its topic is truncated
(`truncation`).
"""

from collections.abc import Iterable, Iterator
from itertools import count, repeat
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.broker.config import ShardConfig
from streaming.broker.dead_letters.x_death import death_headers, headers_after
from streaming.broker.lanes import on_lane
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
from streaming.broker.shard import Batch
from streaming.ledger.read.body_reader import BodyReader
from streaming.pipeline.outbound.truncation import (
    HEADER_BYTES,
    Header,
    MessageParts,
    fit_answer,
    fit_message,
)
from streaming.pipeline.reports import TruncatedRecord
from streaming.pipeline.rows.amqp_columns import properties_json, table_bytes
from streaming.pipeline.rows.bounds import MAX_BODY_BYTES, MAX_TEXT_BYTES, chunks
from streaming.pipeline.rows.messages import body_places
from streaming.pipeline.rows.stored import published_table
from streaming.pipeline.task import BatchContext, TaskSettings
from streaming.protocol import record_headers as wire
from streaming.protocol.amqp_properties import Properties

KINDS: dict[type[Outbound], str] = {
    DeliveryOut: "delivery",
    ReturnOut: "return",
    ConfirmOut: "confirm",
    PublishErrorOut: "publish_error",
    CancelOut: "cancel",
    AnswerOut: "answer",
}

_OTHER_BYTES = 4_096
"""An upper bound of the parts of a delivery or confirm whose length is not counted below."""


_MayBeLarge = DeliveryOut | ReturnOut | PublishErrorOut | CancelOut | AnswerOut


class _Stored(NamedTuple):
    """A message's row in `messages`.

    Attributes:
        foreign: its Kafka headers without those of dlx.
        foreign_bytes: an upper bound of their size.
        properties: as published, as JSON; None if there are none.
        expiration: the property.
        headers: as published, JSON.
    """

    body: bytes
    foreign: list[Header]
    foreign_bytes: int
    properties: bytes | None
    expiration: str | None
    headers: bytes | None


_Columns = tuple[bytes, list[Header], int, bytes | None, str | None, bytes | None]
"""What `_Stored` has, as a plain tuple: there is one for each message."""

_NOT_STORED: Final = _Stored(b"", [], 0, None, None, None)
_EMPTY: Final = b"{}"
_OWN_NAMES: Final[tuple[bytes, ...]] = (b"-death", b"x-delivery-count")
"""Parts of the names of headers that the broker adds: a published header may have such a name."""
_encode = msgspec.json.Encoder().encode
_decode_properties = msgspec.json.Decoder(Properties).decode


_SEQ: Final = wire.SEQ
_REF: Final = wire.REF
_DELIVERY_ID: Final = wire.DELIVERY_ID
_COPY_ID: Final = wire.COPY_ID
_PROPERTIES: Final = wire.PROPERTIES
_HEADERS: Final = wire.HEADERS
"""Names of headers that each delivery has: constants of this module are found sooner."""

_SEQ_AT, _REF_AT, _ID_AT, _REDELIVERED_AT, _COPY_AT = 3, 8, 9, 10, 11
"""Where the headers of a delivery are that others do not share."""


OutboundRecord = tuple[bytes, list[Header], TruncatedRecord | None]
"""The value and headers of a record, and what describes its omitted parts, if there are any. Nearly
every message makes one, so it is a plain tuple."""


class _NamedTexts(dict[str, Header]):
    """The header of one name for each text, encoded once."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __missing__(self, text: str) -> Header:
        header = self[text] = (self._name, text.encode())
        return header


class OutboundRecords:
    """Makes the outbound records of one shard's batch.

    Parts that many deliveries or confirms share are encoded once.
    """

    def __init__(self, settings: TaskSettings, config: ShardConfig, context: BatchContext) -> None:
        self._record_bytes = settings.outbound.record_bytes
        self._config = config
        self._max_header_bytes = settings.max_header_bytes
        self._query_id = context.query_id
        place: list[Header] = [
            (wire.VHOST, config.vhost.encode()),
            (wire.LANE, str(config.lane).encode()),
        ]
        self._first_headers: dict[type[Outbound], list[Header]] = {
            kind: [(wire.KIND, name.encode()), *place] for kind, name in KINDS.items()
        }
        self._on_lane = on_lane(" ", config.lane).encode().strip()
        self._channels = _NamedTexts(wire.CHANNEL)
        self._shared: dict[tuple[str, str, Envelope], tuple[list[Header], bool]] = {}
        self._given: dict[Envelope, tuple[bytes, tuple[bytes, ...]]] = {}

    def of(self, batch: Batch, bodies: BodyReader) -> Iterator[tuple[Outbound, OutboundRecord]]:
        """Yield the records of a batch, in order.

        Args:
            bodies: reads the columns STORED.
        """
        first_event = batch.events.first_seq
        outs = batch.outbound
        messages = [out.copy.message if type(out) is DeliveryOut else _message(out) for out in outs]
        sizes = [0 if message is None else message.size for message in messages]
        headers = [0 if message is None else self._max_header_bytes for message in messages]
        for start, end in chunks((sizes, MAX_BODY_BYTES), (headers, MAX_TEXT_BYTES)):
            part = messages[start:end]
            stored = self._stored([one for one in part if one is not None], bodies)
            seqs = count(batch.first_outbound + start)
            for seq, out, message in zip(seqs, outs[start:end], part, strict=False):
                if type(out) is DeliveryOut:
                    arrived = stored[id(message)]
                    record = self._delivery(out, arrived, seq)
                    record = record or self._record(out, _Stored(*arrived), seq, first_event)
                elif isinstance(out, ConfirmOut):
                    record = self._confirm(out, seq)
                else:
                    arrived = _NOT_STORED if message is None else stored[id(message)]
                    record = self._record(out, _Stored(*arrived), seq, first_event)
                yield out, record

    def _stored(self, messages: list[Message], bodies: BodyReader) -> dict[int, _Columns]:
        """Return the row of each message, by the message's identity."""
        distinct = {id(message): message for message in messages}
        if not distinct:
            return {}
        found = bodies.read(body_places(list(distinct.values()), self._query_id))
        properties = found["properties"].combine_chunks()
        rows = zip(
            _values(found["body"]),
            *_foreign_headers(found["kafka_headers"]),
            *map(_values, (properties_json(properties), properties.field("expiration"))),
            _values(found["headers"].cast(pa.binary())),
            strict=False,  # some repeat for ever
        )
        return dict(zip(distinct, rows, strict=True))

    def _delivery(self, out: DeliveryOut, arrived: _Columns, seq: int) -> OutboundRecord | None:
        """Return the record of a delivery; None if it may be too large for its topic."""
        copy = out.copy
        envelope = copy.envelope
        body, foreign, size, properties, expiration, published = arrived
        if expiration is not envelope.expiration:
            properties = _encode(_sent(_Stored(*arrived), envelope))
            properties = None if properties == _EMPTY else properties
        shared = (out.actor.channel, out.queue, envelope)
        prepared, is_as_published = self._shared.get(shared) or self._share(shared)
        table = published
        if out.quorum or not is_as_published:
            table = self._headers(out, published)
        if properties is not None:
            size += len(properties)
        if table is not None:
            size += len(table)
        headers = self._required(out, prepared, seq)
        if size + len(body) + len(headers[_REF_AT][1] or b"") + _OTHER_BYTES > self._record_bytes:
            return None
        if properties is not None:
            headers.append((_PROPERTIES, properties))
        if table is not None:
            headers.append((_HEADERS, table))
        return body, foreign + headers if foreign else headers, None

    def _required(self, out: DeliveryOut, prepared: list[Header], seq: int) -> list[Header]:
        """Return the headers that every delivery has."""
        label, consumer = out.label, out.consumer_id
        ref = b"" if not label else f"{label}/{out.label_number}".encode()
        headers = prepared.copy()
        headers[_SEQ_AT] = (_SEQ, b"%d" % seq)
        delivery_id = f"{consumer}.{out.number}".encode() if consumer else b""
        if self._on_lane:
            ref, delivery_id = (
                ref and ref + self._on_lane,
                delivery_id and (delivery_id + self._on_lane),
            )
        headers[_REF_AT] = (_REF, ref)
        headers[_ID_AT] = (_DELIVERY_ID, delivery_id)
        headers[_COPY_AT] = (_COPY_ID, b"%d" % out.copy.copy_id)
        if out.requeue_count or out.failures:
            earlier = out.delivery_count
            if earlier:
                headers[_REDELIVERED_AT] = _REDELIVERED
                headers.append((wire.DELIVERY_COUNT, b"%d" % earlier))
        return headers

    def _share(self, shared: tuple[str, str, Envelope]) -> tuple[list[Header], bool]:
        """Return the headers of the deliveries that share channel, queue and envelope.

        Also return whether the AMQP headers are as published, if the queue is no quorum queue.
        """
        channel, queue, envelope = shared
        place = self._first_headers[DeliveryOut]
        later = (wire.SEQ, None)
        headers = [
            *place,
            later,
            self._channels[channel],
            (wire.EXCHANGE, envelope.exchange.encode()),
            (wire.ROUTING_KEY, envelope.routing_keys[0].encode()),
            (wire.QUEUE, queue.encode()),
            later,
            later,
            _FIRST_DELIVERY,
            later,
        ]
        is_as_published = not (envelope.dropped or envelope.added or envelope.deaths)
        found = self._shared[shared] = (headers, is_as_published)
        return found

    def _headers(self, out: DeliveryOut, published: bytes | None) -> bytes | None:
        """Return the JSON of the headers that a consumer sees.

        The published text is passed on. What the broker adds is put behind it, unless a published
        header may have the same name.
        """
        envelope = out.copy.envelope
        compat = self._config.compat
        if envelope.dropped:
            return _delivered(out, published, compat)
        given, names = b"", _OWN_NAMES
        if envelope.deaths or envelope.added:
            given, names = self._given.get(envelope) or self._give(envelope)
        if out.quorum:
            count = wire.shown_delivery_count(out, compat)
            if count is not None:
                given = b'%s%s"x-delivery-count":%d}' % (
                    (given[:-1], b",", count) if given else (b"{", b"", count)
                )
        if not given:
            return published
        if published is None or published == _EMPTY:
            return given
        if any(name in published for name in names):
            return _delivered(out, published, compat)
        return b"%s,%s" % (published[:-1], given[1:])

    def _give(self, envelope: Envelope) -> tuple[bytes, tuple[bytes, ...]]:
        """Return the headers that the broker adds, as JSON, and parts of their names."""
        names = (*_OWN_NAMES, *(name.encode() for name in envelope.added or ()))
        found = self._given[envelope] = table_bytes(death_headers(envelope)), names
        return found

    def _confirm(self, out: ConfirmOut, seq: int) -> OutboundRecord:
        message = out.message
        value = b'{"ack":%s,"topic_number":%d,"partition":%d,"offset":%d}' % (
            b"true" if out.ack else b"false",
            message.topic_number,
            message.partition,
            message.offset,
        )
        headers = [
            *self._first_headers[ConfirmOut],
            (wire.SEQ, b"%d" % seq),
            self._channels[out.actor.channel],
        ]
        return value, headers, None

    def _record(
        self, out: _MayBeLarge, arrived: _Stored, seq: int, first_event: int
    ) -> OutboundRecord:
        """Return a record, truncated if its topic would not accept it."""
        config = self._config
        key = out.actor.channel.encode()
        common: list[Header] = [
            *self._first_headers[type(out)],
            (wire.SEQ, b"%d" % seq),
            self._channels[out.actor.channel],
        ]
        place: tuple[int, int, int] | None = None
        if isinstance(out, DeliveryOut | ReturnOut):
            parts = self._message_parts(out, arrived, common, seq)
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
                kind=KINDS[type(out)],
                channel=out.actor.channel,
                bytes=fitted.size,
                left_out=fitted.left_out,
                message=place,
            )
        return fitted.value, fitted.headers, truncated

    def _message_parts(
        self, out: DeliveryOut | ReturnOut, arrived: _Stored, common: list[Header], seq: int
    ) -> MessageParts:
        published = published_table(arrived.headers)
        if isinstance(out, DeliveryOut):
            message, envelope = out.copy.message, out.copy.envelope
            headers = wire.delivered_headers(out, published, self._config.compat)
            shared = (out.actor.channel, out.queue, envelope)
            prepared, _is_as_published = self._shared.get(shared) or self._share(shared)
            required = self._required(out, prepared, seq)
        else:
            message, envelope = out.message, out.envelope
            headers = headers_after(envelope, published)
            origin = _origin(message).values()
            required = [
                *common,
                (wire.EXCHANGE, envelope.exchange.encode()),
                (wire.ROUTING_KEY, envelope.routing_keys[0].encode()),
                (wire.REPLY_CODE, str(out.code).encode()),
                (wire.REPLY_TEXT, out.text.encode()),
                *((name, b"%d" % value) for name, value in zip(wire.PLACE, origin, strict=True)),
            ]
        sent = msgspec.structs.asdict(_sent(arrived, envelope))
        properties = {name: value for name, value in sent.items() if value is not None}
        return MessageParts(message, arrived.body, required, properties, headers, arrived.foreign)


def _sent(arrived: _Stored, envelope: Envelope) -> Any:
    """Return the properties that a consumer sees: the expiration is the envelope's."""
    published = _decode_properties(arrived.properties or _EMPTY)
    return msgspec.structs.replace(published, expiration=envelope.expiration)


def _delivered(out: DeliveryOut, published: bytes | None, compat: str) -> bytes | None:
    headers = wire.delivered_headers(out, published_table(published), compat)
    return None if headers is None else table_bytes(headers)


def _values(column: pa.Array | pa.ChunkedArray) -> Iterable[Any]:
    """Return the bytes or texts of a column; NumPy makes them three times as fast as Arrow."""
    rows = len(column)
    if column.null_count == rows:
        return repeat(None, rows)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    values: Iterable[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _foreign_headers(
    column: pa.ChunkedArray,
) -> tuple[Iterable[list[Header]], Iterable[int]]:
    """Return the headers of each message, without those named like headers of dlx; their bytes.

    Records of mapped topics may have such headers.
    """
    rows = len(column)
    if column.null_count == rows:
        return repeat([], rows), repeat(0, rows)
    lists = column.combine_chunks()
    keys, values = lists.flatten().flatten()
    lengths = pc.binary_length(keys), pc.fill_null(pc.binary_length(values), 0)
    sizes = np.append(0, np.cumsum(pc.add(*lengths).to_numpy() + HEADER_BYTES))
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    ends = np.cumsum(counts)
    found = sizes[ends] - sizes[ends - counts]
    names = list(_values(keys))
    pairs = list(zip(names, _values(values), strict=True))
    spans = zip((ends - counts).tolist(), ends.tolist(), strict=True)
    if any(name.startswith(wire.OURS) for name in set(names)):
        parts = (
            [header for header in pairs[start:end] if not header[0].startswith(wire.OURS)]
            for start, end in spans
        )
        return parts, found.tolist()
    return (pairs[start:end] for start, end in spans), found.tolist()


def _message(out: Outbound) -> Message | None:
    """Return the message whose body a record carries."""
    match out:
        case DeliveryOut():
            return out.copy.message
        case ReturnOut():
            return out.message
        case _:
            return None


_FIRST_DELIVERY: Final[Header] = (wire.REDELIVERED, b"false")
_REDELIVERED: Final[Header] = (wire.REDELIVERED, b"true")


def _document(out: PublishErrorOut | CancelOut | AnswerOut, first_event: int) -> dict[str, Any]:
    """Return the value of a record without a body."""
    match out:
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
