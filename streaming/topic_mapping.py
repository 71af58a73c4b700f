"""Records of mapped topics become publishes, as the selectors of their mapping say (D3).

A record that lacks a value, or has an unfit one, is quarantined; the fault names the record's part
and the user's own setting: `header 'type', from which inputs.orders.mapping.routing_key is made, is
missing`.
"""

import base64
import math
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from streaming.config.inputs import TopicMapping
from streaming.config.selectors import (
    JsonValue,
    RecordField,
    RecordHeader,
    RecordKey,
    Selector,
    Source,
    Step,
    Template,
    json_steps,
    template_parts,
)
from streaming.config.types import join_key
from streaming.protocol.amqp_properties import PROPERTIES, WHOLE_PROPERTIES
from streaming.protocol.json_input import read_json
from streaming.protocol.record_headers import MalformedRecordError
from topology.declarations import MAX_NAME_BYTES
from topology.values import json_type, table_from_json

ForeignHeaders = tuple[tuple[str, bytes | None], ...]

_MILLIS: Final = 1000
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,19}\.[0-9]{1,19}")


class MappedPublish(NamedTuple):
    """What a mapping makes of a record; hashable, so that equal ones are parsed once.

    Attributes:
        properties: names and values.
        headers: JSON of the AMQP headers; None if the mapping makes none.

    The record's own headers stay with it as they are.
    """

    vhost: str
    exchange: str
    routing_key: str
    properties: tuple[tuple[str, str | int], ...]
    headers: bytes | None


class MappedRecord(NamedTuple):
    """The parts of a record that mappings look at; `document` is its body as `body_document`."""

    key: bytes | None = None
    headers: ForeignHeaders = ()
    document: Any = None
    partition: int = 0
    offset: int = 0
    at_ms: int = -1


class NotJson(NamedTuple):
    """A body that is not JSON, and why."""

    why: str


def body_document(value: bytes | None) -> Any:
    """Read a body as JSON: the document, or NotJson."""
    try:
        return read_json(value or b"")
    except ValueError as error:
        return NotJson(f"the body is not JSON: {error}")


class _UnfitError(Exception):
    """A value that cannot become what the setting needs."""

    def __init__(self, cause: str, words: str) -> None:
        super().__init__(cause, words)
        self.cause = cause
        self.words = words


Read = Callable[[MappedRecord], Any]
Convert = Callable[[Any], Any]


class TopicMapper:
    """Applies the mapping of one topic.

    Args:
        vhosts: the vhosts of the job.
        max_header_bytes: the most bytes of a record's headers, with those that the mapping makes.

    Attributes:
        needs_key, needs_body: whether the mapping looks at record keys, and into bodies.
        header_names: the record headers that it looks at.
        properties: the properties that it makes.
        needs_place: whether it looks at partitions, offsets or timestamps.
    """

    def __init__(
        self, topic: str, mapping: TopicMapping, vhosts: Collection[str], max_header_bytes: int
    ) -> None:
        self._where = f"{join_key('inputs', topic)}.mapping"
        self._topic = topic
        self._vhosts = vhosts
        self._max_header_bytes = max_header_bytes
        self.needs_key = self.needs_body = False
        self.needs_place = False
        self.header_names: set[str] = set()
        self._vhost = self._field("vhost", mapping.vhost, self._known_vhost)
        self._exchange = self._field("exchange", mapping.exchange, _short_text)
        self._routing_key = self._field("routing_key", mapping.routing_key, _short_text)
        self._properties = [
            (name, self._field(name, chosen, _property(name, chosen)))
            for name in PROPERTIES
            if (chosen := getattr(mapping, name)) is not None
        ]
        self.properties = [name for name, _read in self._properties]
        self._headers = [
            (name, self._field(join_key("headers", name), chosen, _header_value))
            for name, chosen in mapping.headers.items()
        ]

    def publish(self, record: MappedRecord, header_bytes: int = 0) -> MappedPublish:
        """Return what the record becomes.

        Args:
            header_bytes: size of the record's own headers.

        Raises:
            MalformedRecordError: the record lacks a value that the mapping needs, or has a wrong
                one.
        """
        return MappedPublish(
            self._vhost(record),
            self._exchange(record),
            self._routing_key(record),
            self._properties_of(record) if self._properties else (),
            self._headers_of(record, header_bytes) if self._headers else None,
        )

    def _properties_of(self, record: MappedRecord) -> tuple[tuple[str, str | int], ...]:
        return tuple(
            [
                (name, value)
                for name, read in self._properties
                if (value := read(record)) is not None
            ]
        )

    def _headers_of(self, record: MappedRecord, header_bytes: int) -> bytes:
        table = {name: value for name, read in self._headers if (value := read(record)) is not None}
        headers = msgspec.json.encode(table)
        size = header_bytes + len(headers)
        if size > self._max_header_bytes:
            raise MalformedRecordError(
                "headers_too_large",
                f"with those that {self._where}.headers makes, the headers have {size} bytes, more "
                f"than {self._max_header_bytes}",
            )
        try:
            table_from_json(msgspec.json.decode(headers))
        except ValueError as error:
            raise MalformedRecordError("wrong_type", f"{self._where}.headers: {error}") from error
        return headers

    def _known_vhost(self, value: Any) -> str:
        vhost = _short_text(value)
        if vhost not in self._vhosts:
            raise _UnfitError("unlisted_vhost", f"is {vhost!r}, and this job has no such vhost")
        return vhost

    def _field(self, name: str, selector: Selector, convert: Convert) -> Read:
        """Return a function that finds a setting's value; None: it is left out."""
        where = f"{self._where}.{name}"
        if isinstance(selector, int | float):
            return lambda _record: selector
        parts: tuple[str | Source, ...]
        options: Template | Source | None = None if isinstance(selector, str) else selector
        if isinstance(selector, str | Template):
            parts = template_parts(selector if isinstance(selector, str) else selector.name)
        else:
            parts = (selector,)
        if len(parts) == 1 and isinstance(parts[0], str):
            literal = _converted(convert, parts[0], where)
            return lambda _record: literal

        def missing(record: MappedRecord, source: Source) -> Any:
            if options is not None and options.otherwise is not None:
                return _converted(convert, options.otherwise, where)
            if options is not None and options.optional:
                return None
            subject = f"{source}, from which {where} is made,"
            if isinstance(source, JsonValue) and isinstance(record.document, NotJson):
                raise MalformedRecordError(
                    "bad_json", f"{subject} cannot be found: {record.document.why}"
                )
            raise MalformedRecordError("unmapped", f"{subject} is missing")

        if not isinstance(selector, str | Template):
            only, read = selector, self._reader(selector)
            subject = f"{only}, from which {where} is made,"

            def single(record: MappedRecord) -> Any:
                value = read(record)
                if value is None:
                    return missing(record, only)
                try:
                    return convert(value)
                except _UnfitError as error:
                    raise MalformedRecordError(error.cause, f"{subject} {error.words}") from error

            return single
        readers = [
            (part, self._reader(part), f"{part}, from which {where} is made,")
            for part in parts
            if not isinstance(part, str)
        ]
        pattern = "".join(
            part.replace("{", "{{").replace("}", "}}") if isinstance(part, str) else "{}"
            for part in parts
        )

        def joined(record: MappedRecord) -> Any:
            texts = []
            for source, read, subject in readers:
                value = read(record)
                if value is None:
                    return missing(record, source)
                texts.append(_converted(_text, value, subject))
            return _converted(convert, pattern.format(*texts), where)

        return joined

    def _reader(self, source: Source) -> Read:
        """Return a function that reads a part of a record; None: the record lacks it."""
        match source:
            case RecordKey():
                self.needs_key = True
                return attrgetter("key")
            case RecordHeader(name=header):
                self.header_names.add(header)
                return lambda record: _last(record.headers, header)
            case JsonValue(name=path):
                self.needs_body = True
                return _json_reader(json_steps(path))
            case RecordField(name="topic"):
                topic = self._topic
                return lambda _record: topic
            case RecordField(name="timestamp"):
                self.needs_place = True
                return lambda record: record.at_ms if record.at_ms >= 0 else None
            case _:
                self.needs_place = True
                return attrgetter(source.name)


def _last(headers: ForeignHeaders, wanted: str) -> bytes | None:
    found = None
    for name, value in headers:
        if name == wanted:
            found = value
    return found


def _json_reader(steps: tuple[Step, ...]) -> Read:
    if len(steps) == 1 and isinstance(steps[0], str):
        [name] = steps
        return lambda record: record.document.get(name) if type(record.document) is dict else None

    def read(record: MappedRecord) -> Any:
        value = record.document
        for step in steps:
            if isinstance(step, str):
                value = value.get(step) if isinstance(value, dict) else None
            elif isinstance(value, list) and -len(value) <= step < len(value):
                value = value[step]
            else:
                return None
        return value

    return read


# --- Conversions; each raises _UnfitError ---


def _converted(convert: Convert, value: Any, subject: str) -> Any:
    """Convert a value; `subject` begins the fault if it cannot be converted."""
    try:
        return convert(value)
    except _UnfitError as error:
        raise MalformedRecordError(error.cause, f"{subject} {error.words}") from error


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise _UnfitError("not_utf8", f"is not UTF-8: {error}") from error
    if isinstance(value, bool | int | float):
        return msgspec.json.encode(value).decode()
    raise _UnfitError("wrong_type", f"is {json_type(value)}, not a text")


def _short_text(value: Any) -> str:
    text = _text(value)
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_NAME_BYTES:
        raise _UnfitError("header_too_long", f"has {size} bytes, more than {MAX_NAME_BYTES}")
    return text


def _header_value(value: Any) -> Any:
    """Return a header's value as typed JSON."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"$bytes": base64.b64encode(value).decode()}


def _property(name: str, selector: Selector) -> Convert:
    if name not in WHOLE_PROPERTIES:
        return _short_text
    least, most = WHOLE_PROPERTIES[name]
    if name != "timestamp":
        return lambda value: _within(_whole(value), least, most)
    is_millis = isinstance(selector, RecordField) and selector.name == "timestamp"
    if not isinstance(selector, str | int | float):
        is_millis = is_millis or selector.unit == "ms"
    divisor = _MILLIS if is_millis else 1
    return lambda value: _within(_seconds(value, divisor), least, most)


def _within(number: int, least: int, most: int) -> int:
    if least <= number <= most:
        return number
    raise _UnfitError("out_of_range", f"must be from {least} to {most}, not {number}")


def _whole(value: Any) -> int:
    """Return a whole number, which may be written as a text."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, bytes | str) and _WHOLE.fullmatch(text := _text(value).strip()):
        return int(text)
    raise _UnfitError("wrong_type", "is not a whole number")


def _seconds(value: Any, divisor: int) -> int:
    """Return epoch seconds; a time without a zone is in UTC."""
    if isinstance(value, float) and math.isfinite(value):
        return math.floor(value / divisor)
    if isinstance(value, bytes | str):
        text = _text(value).strip()
        if _WHOLE.fullmatch(text):
            return int(text) // divisor
        if _DECIMAL.fullmatch(text):
            return math.floor(float(text) / divisor)
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise _UnfitError(
                "wrong_type", 'is neither a number nor a time such as "2026-11-22T14:05:00Z"'
            ) from None
        return math.floor((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    return _whole(value) // divisor
