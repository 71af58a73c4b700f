"""The wire format of a client: publishes and commands to Kafka records, outbound records to values.

`streaming.protocol.record_headers` describes the headers of the records.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import msgspec

from streaming.broker.reject_reasons import cause_of
from streaming.client.errors import BrokerError, ClientError, broker_error
from streaming.client.messages import (
    Body,
    Delivery,
    KafkaHeaders,
    Properties,
    ReceivedMessage,
    Returned,
    Settled,
)
from streaming.protocol import record_headers as wire
from streaming.protocol.record_headers import MalformedRecordError, publish_headers
from topology.values import table_from_json, table_to_json

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """A Kafka record to write."""

    value: bytes
    headers: list[Header]
    key: bytes | None


@dataclass
class Inbound:
    """A record of the outbound or the heartbeat topic.

    Attributes:
        kind: delivery, confirm, return, publish_error, answer, cancel or flow.
        channel: the channel or publisher that it is for.
        value: the body of a message, otherwise a JSON object.
        headers: the `dlx-` headers by name; the last value of each.
        kafka_headers: the publisher's own headers.
    """

    kind: str
    channel: str
    value: bytes
    headers: dict[str, bytes]
    kafka_headers: KafkaHeaders

    @cached_property
    def document(self) -> dict[str, Any]:
        """The JSON object of a record that is not a message."""
        document = msgspec.json.decode(self.value)
        return document if isinstance(document, dict) else {}

    def text(self, name: str) -> str:
        """Return a header as text."""
        return self.headers.get(name, b"").decode()


def inbound(value: bytes | None, headers: Iterable[tuple[str, Any]] | None) -> Inbound:
    """Read a record of the outbound or the heartbeat topic."""
    pairs = [(name, text if text is None else bytes(text)) for name, text in headers or ()]
    ours = {name: text or b"" for name, text in pairs if name.startswith(wire.OURS)}
    theirs = tuple(pair for pair in pairs if not pair[0].startswith(wire.OURS))
    kind, channel = ours.get(wire.KIND, b"").decode(), ours.get(wire.CHANNEL, b"").decode()
    return Inbound(kind, channel, value or b"", ours, theirs)


def command_record(document: Mapping[str, Any], vhost: str, key: str) -> Record:
    """Return the record of a command.

    Raises:
        ClientError: the command holds a value that JSON or UTF-8 cannot express.
    """
    op = str(document["op"])
    headers: list[Header] = [(wire.OP, op.encode()), (wire.VHOST, vhost.encode())]
    try:
        return Record(json_bytes(document), headers, key.encode())
    except (TypeError, ValueError) as error:
        raise ClientError(f"the command {op} cannot be sent: {error}") from error


def publish_record(
    body: Body,
    vhost: str,
    channel: str,
    exchange: str,
    routing_key: str,
    properties: Properties | None,
    headers: Mapping[str, Any] | None,
    flags: str,
    kafka_headers: Iterable[Header],
    record_key: bytes | None,
) -> Record:
    """Return the record of a publish.

    Raises:
        ClientError: the job could not read the record; the text says why.
    """
    for what, name in (("exchange", exchange), ("routing key", routing_key)):
        if not isinstance(name, str):
            raise ClientError(f"the {what} must be text, not {type(name).__name__}")
    try:
        ours = _publish_headers(
            vhost,
            channel,
            exchange,
            routing_key,
            json_bytes(properties) if properties else None,
            None if headers is None else _table_bytes(table_to_json(headers, exact=True)),
            flags,
        )
    except (MalformedRecordError, ValueError, TypeError, AttributeError) as error:
        what = error.detail if isinstance(error, MalformedRecordError) else str(error)
        raise ClientError(f"the message cannot be published: {what}") from error
    theirs = _kafka_headers(kafka_headers)
    return Record(_body(body), [*ours, *theirs], record_key)


def _kafka_headers(given: Iterable[Header]) -> list[Header]:
    try:
        pairs = [(name, value) for name, value in given]
        ours = [name for name, _value in pairs if name.startswith(wire.OURS)]
    except (AttributeError, TypeError, ValueError) as error:
        raise ClientError(f"kafka_headers: expected pairs of name and bytes: {error}") from error
    if ours:
        raise ClientError(
            f"kafka_headers: {ours[0]!r} begins with {wire.OURS!r}, which is reserved"
        )
    return pairs


def check_size(record: Record, max_body_bytes: int, max_header_bytes: int) -> None:
    """Refuse a publish that the job would quarantine without an answer.

    Raises:
        ClientError: the body or the headers are larger than the job's configuration allows.
    """
    header_bytes = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    for what, size, setting, limit in (
        ("body has", len(record.value), "max_body_bytes", max_body_bytes),
        ("headers have", header_bytes, "max_header_bytes", max_header_bytes),
    ):
        if size > limit:
            raise ClientError(
                f"the message cannot be published: its {what} {size} bytes, and the job's "
                f"flow.{setting} is {limit}"
            )


def _body(body: object) -> bytes:
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeEncodeError as error:
            raise ClientError(f"the body cannot be encoded as UTF-8: {error}") from error
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
    """The headers of equal publishes, checked as the job checks them."""
    values = {
        wire.VHOST: vhost.encode(),
        wire.EXCHANGE: exchange.encode() if exchange else None,
        wire.ROUTING_KEY: routing_key.encode() if routing_key else None,
        wire.PROPERTIES: properties,
        wire.HEADERS: headers,
        wire.FLAGS: flags.encode() if flags else None,
        wire.CHANNEL: channel.encode(),
    }
    publish_headers([values.get(name) for name in wire.INBOUND])
    return [(name, value) for name, value in values.items() if value is not None]


def delivery_of(record: Inbound, consumer_tag: str) -> Delivery:
    """Read a delivery; the caller sets its channel."""
    return Delivery(
        **_attributes(record),
        queue=record.text(wire.QUEUE),
        consumer_tag=consumer_tag,
        redelivered=record.headers.get(wire.REDELIVERED) == b"true",
        delivery_count=int(record.headers.get(wire.DELIVERY_COUNT, b"0")),
        delivery_id=record.text(wire.DELIVERY_ID),
    )


def returned_of(record: Inbound) -> Returned:
    """Read a returned message."""
    return Returned(
        **_attributes(record),
        reply_code=int(record.headers[wire.REPLY_CODE]),
        reply_text=record.text(wire.REPLY_TEXT),
    )


def _attributes(record: Inbound) -> dict[str, Any]:
    properties = record.headers.get(wire.PROPERTIES)
    headers = record.headers.get(wire.HEADERS)
    has_origin = wire.TOPIC_NUMBER in record.headers
    return {
        "body": record.value,
        "exchange": record.text(wire.EXCHANGE),
        "routing_key": record.text(wire.ROUTING_KEY),
        "properties": msgspec.json.decode(properties) if properties else {},
        "headers": table_from_json(msgspec.json.decode(headers)) if headers else {},
        "kafka_headers": record.kafka_headers,
        "truncated": msgspec.json.decode(record.headers.get(wire.LEFT_OUT, b"{}")),
        "origin": tuple(int(record.headers[name]) for name in wire.PLACE) if has_origin else None,
    }


def refusal_of(document: Mapping[str, Any]) -> BrokerError | None:
    """Return the error in an answer or a publish error, if there is one."""
    error = document.get("error")
    return None if error is None else broker_error(error["code"], error["text"])


class Repeats:
    """Recognises records that a replayed batch wrote again.

    Sequence numbers of a vhost and lane only grow within a partition, so the highest number of
    each identifies every repeat (D3b).
    """

    def __init__(self) -> None:
        self._highest: dict[tuple[int, bytes, bytes], int] = {}

    def is_new(self, partition: int, headers: Mapping[str, bytes]) -> bool:
        """Return whether a record was not seen before; without a number it always is new."""
        number = headers.get(wire.SEQ)
        if number is None:
            return True
        shard = (partition, headers.get(wire.VHOST, b""), headers.get(wire.LANE, b""))
        seq = int(number)
        if seq <= self._highest.get(shard, -1):
            return False
        self._highest[shard] = seq
        return True


def settlement_reason(reason: str | None) -> dict[str, str]:
    """The member of a settlement that says why; none if nothing is said.

    Raises:
        ClientError: it is not text.
    """
    if not isinstance(reason, str | None):
        raise ClientError(f"reason must be text, not {reason!r:.100}: give str() of it")
    cause = cause_of(reason)
    return {} if cause is None else {"reason": cause}


def delivery_ids(settled: Settled) -> list[str]:
    """Return the delivery ids that a settlement names.

    Raises:
        ClientError: something else is among them, or a delivery with automatic acknowledgement.
    """
    if isinstance(settled, str | ReceivedMessage) or not isinstance(settled, Iterable):
        settled = [settled]
    ids = []
    for one in settled:
        if not isinstance(one, str | ReceivedMessage):
            raise ClientError(f"expected a delivery, its delivery_id, or several, not {one!r:.100}")
        ids.append(one if isinstance(one, str) else one.delivery_id)
    if not all(ids):
        raise ClientError("a delivery with automatic acknowledgement cannot be settled again")
    return ids


def arguments_document(arguments: Mapping[str, Any] | None) -> dict[str, object]:
    """Return the JSON form of the arguments of a declaration.

    Raises:
        ClientError: they are not a valid AMQP table.
    """
    try:
        document = table_to_json(arguments or {}, exact=True)
        _table_bytes(document)
    except (AttributeError, TypeError, ValueError) as error:
        raise ClientError(f"the arguments are not a valid AMQP table: {error}") from error
    return document


def _table_bytes(document: dict[str, object]) -> bytes:
    """Encode a table, and raise TypeError or ValueError if the job could not read it."""
    encoded = json_bytes(document)
    table_from_json(json.loads(encoded))  # decoded: tuples are arrays in it
    return encoded


def json_bytes(value: Any) -> bytes:
    """Encode a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
