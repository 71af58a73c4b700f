"""The wire format: reading the headers of Kafka records.

A record with the header `dlx-op` is a command, any other is a publish (D3). The value of a publish
is its body, which is never parsed; its AMQP attributes are in headers:

    dlx-vhost, dlx-exchange, dlx-routing-key   text; default "/", "" and ""
    dlx-properties                             JSON object of AMQP basic properties
    dlx-headers                                JSON object, the AMQP headers table
    dlx-flags                                  any of mandatory, immediate, confirm; comma-separated
    dlx-channel                                text; the publisher's channel, default "pub"

The value of a command is a JSON object, which `commands` reads; `dlx-op` repeats its op, or is
empty. Headers that do not begin with `dlx-` are the publisher's own and are carried as bytes.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from streaming.broker.commands import Command
from streaming.broker.dead_letters import x_death
from streaming.broker.message import (
    CONFIRM,
    IMMEDIATE,
    MANDATORY,
    Publication,
    publication_of,
)
from streaming.broker.outbound import DeliveryOut
from streaming.protocol.amqp_properties import property_fault
from streaming.protocol.command_json import KINDS, read_command, read_flat
from streaming.protocol.defaults import DEFAULT_VHOST
from streaming.protocol.json_input import read_json
from topology.declarations import MAX_NAME_BYTES
from topology.definitions.json_object import MAX_PROBLEMS, Report
from topology.errors import InvalidTopologyError
from topology.suggestions import did_you_mean
from topology.values import json_type, table_from_json

WIRE_VERSION = 1
"""Increment it with every change to which records are valid."""

OP = "dlx-op"
VHOST = "dlx-vhost"
EXCHANGE = "dlx-exchange"
ROUTING_KEY = "dlx-routing-key"
PROPERTIES = "dlx-properties"
HEADERS = "dlx-headers"
FLAGS = "dlx-flags"
CHANNEL = "dlx-channel"
LEFT_OUT = "dlx-left-out"
TOPIC_NUMBER = "dlx-topic-number"
PARTITION = "dlx-partition"
OFFSET = "dlx-offset"
KIND = "dlx-kind"
LANE = "dlx-lane"
SEQ = "dlx-seq"
QUEUE = "dlx-queue"
REF = "dlx-ref"
DELIVERY_ID = "dlx-delivery-id"
REDELIVERED = "dlx-redelivered"
COPY_ID = "dlx-copy-id"
DELIVERY_COUNT = "dlx-delivery-count"
REPLY_CODE = "dlx-reply-code"
REPLY_TEXT = "dlx-reply-text"
OURS = "dlx-"

INBOUND = (OP, VHOST, EXCHANGE, ROUTING_KEY, PROPERTIES, HEADERS, FLAGS, CHANNEL)
"""The headers that a client may send, in the order of their columns."""

PLACE = (TOPIC_NUMBER, PARTITION, OFFSET)
"""The headers that name the Kafka record a message came in."""

DEFAULT_CHANNEL = "pub"

FLAG_BITS = {"mandatory": MANDATORY, "immediate": IMMEDIATE, "confirm": CONFIRM}

_OPS: Final = {kind: op.encode() for op, kind in KINDS.items()}

MAX_DETAIL = 10_000
"""Characters: the description of an error must not be many times as large as the record."""


class MalformedRecordError(Exception):
    """A record is malformed and goes to `quarantine`.

    Attributes:
        cause: a fixed word to group by.
        detail: what is wrong, for people.
    """

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(cause, detail)
        self.cause = cause
        self.detail = detail if len(detail) <= MAX_DETAIL else f"{detail[:MAX_DETAIL]} ..."


class PublishHeaders(NamedTuple):
    """The contents of the headers of a publish; `publication` is what the broker looks at."""

    vhost: str
    publication: Publication
    flags: int
    channel: str
    properties: dict[str, Any]
    headers: dict[str, Any] | None


class CommandRecord(NamedTuple):
    """The contents of a command record."""

    vhost: str
    command: Command

    @property
    def channel(self) -> str:
        """The channel that gets the answer; empty if there is none."""
        return getattr(self.command, "channel", None) or ""


def text(header: str, value: bytes | None, default: str) -> str:
    """Decode a header as text.

    Raises:
        MalformedRecordError: not UTF-8, or longer than AMQP's short strings.
    """
    if value is None:
        return default
    if len(value) > MAX_NAME_BYTES:
        raise MalformedRecordError(
            "header_too_long",
            f"{header} has {len(value)} bytes, more than {MAX_NAME_BYTES}",
        )
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as error:
        raise MalformedRecordError("not_utf8", f"{header} is not UTF-8: {error}") from error


MAX_TIME_MS: Final = 253_370_764_800_000
"""When the year 9999 begins, the last one that dates have: a later record has deadlines beyond."""


def too_late() -> MalformedRecordError:
    """The fault of a record whose timestamp is beyond MAX_TIME_MS."""
    return MalformedRecordError(
        "bad_timestamp", "the timestamp is beyond the year 9998: is it in milliseconds?"
    )


def json_object(where: str, value: bytes) -> dict[str, Any]:
    """Decode a JSON object.

    Raises:
        MalformedRecordError: the bytes are something else.
    """
    try:
        document = read_json(value)
    except ValueError as error:
        raise MalformedRecordError("bad_json", f"{where} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise MalformedRecordError(
            "wrong_type", f"{where}: expected an object, got {json_type(document)}"
        )
    return document


def publish_headers(values: Iterable[bytes | None]) -> PublishHeaders:
    """Read the headers of a publish.

    Args:
        values: in the order of INBOUND; the first (OP) is None.

    Raises:
        MalformedRecordError: a header is not valid.
    """
    _op, vhost_value, exchange, routing_key, properties_value, table, flags, channel = values
    vhost = text(VHOST, vhost_value, DEFAULT_VHOST)
    names = text(EXCHANGE, exchange, ""), text(ROUTING_KEY, routing_key, "")
    properties = {} if properties_value is None else properties_of(properties_value)
    headers = None if table is None else headers_of(table)
    return PublishHeaders(
        vhost,
        publication_of(*names, properties, headers),
        flags_of(flags),
        text(CHANNEL, channel, DEFAULT_CHANNEL),
        properties,
        headers,
    )


def properties_of(value: bytes) -> dict[str, Any]:
    """Read the header PROPERTIES.

    Raises:
        MalformedRecordError: it is not valid.
    """
    properties = json_object(PROPERTIES, value)
    for name, member in properties.items():
        fault = property_fault(name, member)
        if fault is not None:
            raise MalformedRecordError(fault.cause, f"{PROPERTIES}.{name}: {fault.words}")
    return properties


def headers_of(value: bytes) -> dict[str, Any]:
    """Read the header HEADERS: an AMQP table.

    Raises:
        MalformedRecordError: it is not valid.
    """
    try:
        return table_from_json(json_object(HEADERS, value))
    except ValueError as error:
        raise MalformedRecordError("wrong_type", f"{HEADERS}: {error}") from error


def flags_of(value: bytes | None) -> int:
    """Read the header FLAGS.

    Raises:
        MalformedRecordError: it is not valid.
    """
    flags = 0
    for name in text(FLAGS, value, "").split(","):
        bit = FLAG_BITS.get(name.strip())
        if bit is not None:
            flags |= bit
        elif name.strip():
            hint = did_you_mean(name.strip(), FLAG_BITS)
            raise MalformedRecordError(
                "unknown_flag", f"{FLAGS}: {name.strip()!r} is not a flag{hint}"
            )
    return flags


def command_record(op: bytes, vhost: bytes | None, value: bytes | None) -> CommandRecord:
    """Read a command.

    Raises:
        MalformedRecordError: the command is not valid.
    """
    if value is None:
        raise MalformedRecordError("null_body", "a command needs a JSON object as its value")
    vhost_name = text(VHOST, vhost, DEFAULT_VHOST)
    complete = bytes(value)
    flat = read_flat(complete)
    if flat is not None and (not op or op == _OPS[type(flat)]):
        return CommandRecord(vhost_name, flat)
    named = text(OP, op, "")
    document = json_object("value", complete)
    if named and "op" not in document:
        document["op"] = named
    if named and document["op"] != named:
        detail = f"{OP} says {named!r}, the value says {document['op']!r}"
        raise MalformedRecordError("op_mismatch", detail)
    if document.get("op") == "publish":
        detail = "a publish is a record without dlx-op whose value is the body"
        raise MalformedRecordError("unknown_op", detail)
    report = Report(MAX_PROBLEMS)
    command, problems = None, report.problems
    try:
        command = read_command(document, "", report)
    except InvalidTopologyError as error:
        problems = list(error.problems)
    if command is None:
        unknown = any("unknown op" in problem.what for problem in problems)
        detail = "; ".join(str(problem) for problem in problems)
        raise MalformedRecordError("unknown_op" if unknown else "bad_command", detail)
    return CommandRecord(vhost_name, command)


def kafka_headers_table(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, Any]:
    """Convert a publisher's own Kafka headers to an AMQP table, for matching.

    If a name occurs more than once, its last value counts: a long string if it is UTF-8, else a
    byte array.
    """
    table: dict[str, Any] = {}
    for name, value in headers:
        if value is None:
            table[name] = None
            continue
        try:
            table[name] = bytes(value).decode()
        except UnicodeDecodeError:
            table[name] = bytes(value)
    return table


def delivered_headers(
    delivery: DeliveryOut, published: dict[str, Any] | None, compat: str
) -> dict[str, Any] | None:
    """The headers table that a consumer sees: with the delivery count of a quorum queue.

    Args:
        published: the headers of the publish.
    """
    headers = x_death.delivered_headers(delivery.copy.envelope, published)
    count = shown_delivery_count(delivery, compat)
    return headers if count is None else {**(headers or {}), "x-delivery-count": count}


def shown_delivery_count(delivery: DeliveryOut, compat: str) -> int | None:
    """The header `x-delivery-count` of a delivery; None if it has none.

    3.10 shows a count of 0 to a get, and none to a consumer (R-DLV-1).
    """
    count = delivery.delivery_count
    if delivery.quorum and (count or (compat == "3.10" and delivery.got)):
        return count
    return None
