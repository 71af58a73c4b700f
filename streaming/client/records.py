"""Kafka records as the README's wire page says: publishes and commands out, all kinds in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from streaming.client.errors import ClientError
from streaming.client.messages import Body, Delivery, KafkaHeaders, Returned
from streaming.protocol.headers import (
    CHANNEL,
    DELIVERY_COUNT,
    DELIVERY_ID,
    EXCHANGE,
    FLAGS,
    HEADERS,
    INBOUND,
    KIND,
    LANE,
    LEFT_OUT,
    OFFSET,
    OP,
    OURS,
    PARTITION,
    PLACE,
    PROPERTIES,
    QUEUE,
    REDELIVERED,
    REPLY_CODE,
    REPLY_TEXT,
    ROUTING_KEY,
    SEQ,
    VHOST,
    MalformedRecordError,
    publish_headers,
)
from topology.values import table_from_json, table_to_json

if TYPE_CHECKING:
    from streaming.client.address import Address

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """A record to write."""

    value: bytes
    headers: list[Header]
    key: bytes | None


class Inbound(NamedTuple):
    """A record of the outbound topic.

    Attributes:
        kind: delivery, confirm, return, publish_error, answer, cancel or flow.
        channel: it is for.
        headers: by name, the last value of each.
        foreign: the publisher's own headers.
    """

    kind: str
    channel: str
    value: bytes
    headers: dict[str, bytes]
    foreign: KafkaHeaders

    @property
    def document(self) -> dict[str, Any]:
        """The value of what is no message."""
        document = msgspec.json.decode(self.value)
        return document if isinstance(document, dict) else {}

    @property
    def place(self) -> tuple[int, int]:
        """Partition and offset of the publish that a return is about."""
        return int(self.headers[PARTITION]), int(self.headers[OFFSET])

    def text(self, name: str) -> str:
        """A header as text."""
        return self.headers.get(name, b"").decode()


def inbound(value: bytes | None, headers: Iterable[tuple[str, Any]] | None) -> Inbound:
    """A record of the outbound topic, read."""
    pairs = [(name, text if text is None else bytes(text)) for name, text in headers or ()]
    ours = {name: text or b"" for name, text in pairs if name.startswith(OURS)}
    foreign = tuple(pair for pair in pairs if not pair[0].startswith(OURS))
    kind = ours.get(KIND, b"").decode()
    return Inbound(kind, ours.get(CHANNEL, b"").decode(), value or b"", ours, foreign)


def command(document: Mapping[str, Any], vhost: str, key: str) -> Record:
    """A command.

    Raises:
        ClientError: it holds what JSON, or UTF-8, does not have.
    """
    headers: list[Header] = [(OP, str(document["op"]).encode()), (VHOST, vhost.encode())]
    try:
        return Record(_json(document), headers, key.encode())
    except (TypeError, ValueError) as error:
        raise ClientError(f"{document['op']} cannot be asked: {error}") from error


def publish(
    body: Body,
    vhost: str,
    channel: str,
    exchange: str,
    routing_key: str,
    properties: Mapping[str, Any] | None,
    headers: Mapping[str, Any] | None,
    flags: str,
    kafka_headers: Iterable[tuple[str, bytes | None]],
    record_key: bytes | None,
) -> Record:
    """A publish.

    Raises:
        ClientError: the broker would not understand it; says what, and where.
    """
    _check_text("exchange", exchange)
    _check_text("routing key", routing_key)
    try:
        ours = _publish_headers(
            vhost,
            channel,
            exchange,
            routing_key,
            _json(properties) if properties else None,
            None if headers is None else _table_text(table_to_json(headers)),
            flags,
        )
    except (MalformedRecordError, ValueError, TypeError) as error:
        what = error.detail if isinstance(error, MalformedRecordError) else str(error)
        raise ClientError(f"the message cannot be published: {what}") from error
    foreign = list(kafka_headers)
    for name, _value in foreign:
        if name.startswith(OURS):
            raise ClientError(
                f"kafka_headers: {name!r} begins with {OURS!r}, which is for the broker's own"
            )
    return Record(_body(body), [*ours, *foreign], record_key)


def check_size(record: Record, address: Address) -> None:
    """Refuse what the job would put into quarantine, of which nothing comes back.

    Raises:
        ClientError: the body or the headers are larger than the job's configuration allows.
    """
    sizes = (
        ("the body", len(record.value), "max_body_bytes", address.max_body_bytes),
        (
            "the headers",
            sum(len(name.encode()) + len(value or b"") for name, value in record.headers),
            "max_header_bytes",
            address.max_header_bytes,
        ),
    )
    for what, found, setting, most in sizes:
        if found > most:
            raise ClientError(
                f"the message cannot be published: {what} would have {found} bytes, more than the "
                f"job's flow.{setting} of {most}"
            )


def _check_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise ClientError(f"the {what} must be text, not {type(value).__name__}")


def _body(body: object) -> bytes:
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeEncodeError as error:
            raise ClientError(f"the body is no text that UTF-8 has: {error}") from error
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise ClientError(f"the body must be bytes or text, not {type(body).__name__}")


@lru_cache(maxsize=4096)
def _publish_headers(
    vhost: str,
    channel: str,
    exchange: str,
    routing_key: str,
    properties: bytes | None,
    headers: bytes | None,
    flags: str,
) -> list[Header]:
    """The headers of alike publishes, checked as the broker checks them."""
    values = {
        VHOST: vhost.encode(),
        EXCHANGE: exchange.encode() if exchange else None,
        ROUTING_KEY: routing_key.encode() if routing_key else None,
        PROPERTIES: properties,
        HEADERS: headers,
        FLAGS: flags.encode() if flags else None,
        CHANNEL: channel.encode(),
    }
    publish_headers([values.get(name) for name in INBOUND])
    return [(name, value) for name, value in values.items() if value is not None]


def delivery_of(record: Inbound, consumer_tag: str) -> Delivery:
    """A delivery, read; its channel is left out."""
    return Delivery(
        **_attributes(record),
        queue=record.text(QUEUE),
        consumer_tag=consumer_tag,
        redelivered=record.headers.get(REDELIVERED) == b"true",
        delivery_count=int(record.headers.get(DELIVERY_COUNT, b"0")),
        delivery_id=record.text(DELIVERY_ID),
    )


def returned_of(record: Inbound) -> Returned:
    """A returned message, read."""
    return Returned(
        **_attributes(record),
        reply_code=int(record.headers[REPLY_CODE]),
        reply_text=record.text(REPLY_TEXT),
    )


def _attributes(record: Inbound) -> dict[str, Any]:
    properties = record.headers.get(PROPERTIES)
    headers = record.headers.get(HEADERS)
    return {
        "body": record.value,
        "exchange": record.text(EXCHANGE),
        "routing_key": record.text(ROUTING_KEY),
        "properties": msgspec.json.decode(properties) if properties else {},
        "headers": table_from_json(msgspec.json.decode(headers)) if headers else {},
        "kafka_headers": record.foreign,
        "truncated": msgspec.json.decode(record.headers.get(LEFT_OUT, b"{}")),
        "origin": None if PLACE[0] not in record.headers else _place(record),
    }


def _place(record: Inbound) -> tuple[int, int, int]:
    topic_number, partition, offset = (int(record.headers[name]) for name in PLACE)
    return topic_number, partition, offset


class Repeats:
    """Knows what a replayed batch sent again: what is not above the highest number seen.

    Records of one channel are in one partition, and in a partition numbers only grow; so the
    highest is kept by partition, vhost and lane (D3b).
    """

    def __init__(self) -> None:
        self._highest: dict[tuple[int, bytes, bytes], int] = {}

    def is_new(self, partition: int, headers: Mapping[str, bytes]) -> bool:
        """Whether a record was not seen before; one without a number is always new."""
        number = headers.get(SEQ)
        if number is None:
            return True
        shard = (partition, headers.get(VHOST, b""), headers.get(LANE, b""))
        seq = int(number)
        if seq <= self._highest.get(shard, -1):
            return False
        self._highest[shard] = seq
        return True


def table_document(table: Mapping[str, Any]) -> dict[str, object]:
    """The JSON form of a headers or arguments table.

    Raises:
        TypeError, ValueError: the job could not read it; says why, in words.
    """
    document = table_to_json(table)
    _table_text(document)
    return document


def _table_text(document: dict[str, object]) -> bytes:
    """A table's JSON text, once it is known that the job can read it; raises as above."""
    text = _json(document)
    table_from_json(json.loads(text))  # from the text: tuples are arrays in it
    return text


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
