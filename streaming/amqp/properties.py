"""The properties of a message, as they travel: flags, then the properties that are there.

Nearly every message passes through with its properties untouched. Only what the broker looks at is
read at a publish (headers, priority, expiration, user and reply address), and only deaths, requeues
and headers that name further keys change them at a delivery.
"""

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

from streaming.amqp.errors import syntax_error
from streaming.amqp.tables import (
    Entries,
    read_entries,
    read_table,
    rewrite_table,
    write_short_text,
    write_table,
)
from streaming.broker.message import BROKER_HEADERS
from topology.values import Table

HEADERS, PRIORITY, REPLY_TO, EXPIRATION = 1 << 13, 1 << 11, 1 << 9, 1 << 8
USER_ID: Final = 1 << 4
_LOOKED_AT: Final = HEADERS | PRIORITY | REPLY_TO | EXPIRATION | USER_ID
_CONTINUED: Final = 1

_SHORT_TEXT, _OCTET, _TIMESTAMP, _TABLE = range(4)
_SIZES: Final = {_SHORT_TEXT: 0, _OCTET: 1, _TIMESTAMP: 8}
FIELDS: Final = (
    (1 << 15, "content_type", _SHORT_TEXT),
    (1 << 14, "content_encoding", _SHORT_TEXT),
    (HEADERS, "headers", _TABLE),
    (1 << 12, "delivery_mode", _OCTET),
    (PRIORITY, "priority", _OCTET),
    (1 << 10, "correlation_id", _SHORT_TEXT),
    (REPLY_TO, "reply_to", _SHORT_TEXT),
    (EXPIRATION, "expiration", _SHORT_TEXT),
    (1 << 7, "message_id", _SHORT_TEXT),
    (1 << 6, "timestamp", _TIMESTAMP),
    (1 << 5, "type", _SHORT_TEXT),
    (USER_ID, "user_id", _SHORT_TEXT),
    (1 << 3, "app_id", _SHORT_TEXT),
    (1 << 2, "cluster_id", _SHORT_TEXT),
)
"""Flag, name and form of each property, in the order in which they follow each other."""


class Seen(msgspec.Struct, gc=False):
    """What the broker looks at.

    Attributes:
        headers: the whole table; None if there is none.
    """

    expiration: str | None = None
    priority: int | None = None
    reply_to: str | None = None
    user_id: str | None = None
    headers: Table | None = None


PLAIN: Final = Seen()
"""What is seen of properties of which the broker looks at none."""

_MAX_KNOWN: Final = 1000
_MAX_KNOWN_SIZE: Final = 40
_known_plain: set[bytes] = set()
"""Properties that are plain and sound: most clients repeat few."""


@cache
def _fields_of(flags: int) -> tuple[tuple[int, int], ...]:
    """Flag and form of each property that is there; there are at most 2 ** 14 answers."""
    return tuple((flag, form) for flag, _name, form in FIELDS if flags & flag)


@cache
def _sizes_of(flags: int) -> tuple[int, ...]:
    """The size of each property that is there, if the broker looks at none; 0: of a short text."""
    return tuple(_SIZES[form] for _flag, form in _fields_of(flags))


def _text(data: bytes) -> str:
    """A short text as RabbitMQ prints it: as Latin-1 if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def see(properties: bytes) -> Seen:
    """Check the form of properties, and read what the broker looks at.

    Args:
        properties: flags and values, without class, weight and size of the body.

    Raises:
        AmqpError: 501 or 502, they are damaged.
    """
    if properties in _known_plain:
        return PLAIN
    flags = (properties[0] << 8) | properties[1]
    if flags & _CONTINUED:
        raise syntax_error("a message has properties that AMQP does not know")
    end = len(properties)
    try:
        if flags & _LOOKED_AT:
            seen, at = _look(properties, flags)
        else:
            seen, at = PLAIN, 2
            for size in _sizes_of(flags):
                at += size or 1 + properties[at]
    except (IndexError, struct.error):
        raise syntax_error("the properties of a message end too early") from None
    if at != end:
        raise syntax_error("the properties of a message do not have the size of their frame")
    if seen is PLAIN and end <= _MAX_KNOWN_SIZE:
        if len(_known_plain) >= _MAX_KNOWN:
            _known_plain.clear()
        _known_plain.add(properties)
    return seen


def _look(properties: bytes, flags: int) -> tuple[Seen, int]:
    """Read what the broker looks at; return it, and where the properties end."""
    seen, at = Seen(), 2
    for flag, form in _fields_of(flags):
        start = at
        if form == _SHORT_TEXT:
            at += 1 + properties[at]
            if flag & (REPLY_TO | EXPIRATION | USER_ID):
                text = _text(properties[start + 1 : at])
                if flag == EXPIRATION:
                    seen.expiration = text
                elif flag == REPLY_TO:
                    seen.reply_to = text
                else:
                    seen.user_id = text
        elif form == _TABLE:
            seen.headers, at = read_table(properties, at)
        elif form == _OCTET:
            if flag == PRIORITY:
                seen.priority = properties[at]
            at += 1
        else:
            at += 8
    return seen, at


def names_keys(headers: Table | None) -> bool:
    """Whether the broker looks at one of the headers."""
    return headers is not None and any(name in headers for name in BROKER_HEADERS)


def read_properties(properties: bytes, errors: str = "replace") -> dict[str, Any]:
    """Read all properties by name; the headers are among them.

    Args:
        errors: what becomes of text that is not UTF-8; by default it has U+FFFD, as in the tables.
            With `surrogateescape`, `write_properties` gives the same bytes.
    """
    flags = (properties[0] << 8) | properties[1]
    at = 2
    found: dict[str, Any] = {}
    for flag, name, form in FIELDS:
        if not flags & flag:
            continue
        if form == _SHORT_TEXT:
            after = at + 1 + properties[at]
            found[name] = properties[at + 1 : after].decode("utf-8", errors)
            at = after
        elif form == _TABLE:
            found[name], at = read_table(properties, at)
        elif form == _OCTET:
            found[name] = properties[at]
            at += 1
        else:
            (found[name],) = struct.unpack_from(">Q", properties, at)
            at += 8
    return found


def write_properties(values: dict[str, Any]) -> bytes:
    """Write properties by name, the headers among them."""
    flags, parts = 0, []
    for flag, name, form in FIELDS:
        value = values.get(name)
        if value is None:
            continue
        flags |= flag
        if form == _SHORT_TEXT:
            parts.append(write_short_text(value))
        elif form == _TABLE:
            parts.append(write_table(value))
        elif form == _OCTET:
            parts.append(bytes((value,)))
        else:
            parts.append(struct.pack(">Q", value))
    return struct.pack(">H", flags) + b"".join(parts)


def with_changes(
    properties: bytes, headers: Table | None, original: Table | None, expiration: str | None
) -> bytes:
    """The properties of a delivery whose headers or expiration differ from those published.

    All other properties keep their bytes, and so do the entries of the headers that are the same
    objects as in `original`.

    Args:
        headers: the headers of the delivery; None for no table.
        original: the headers as they were published.
        expiration: the expiration of the delivery; None for none.
    """
    parts: dict[int, bytes] = {}
    entries: Entries = {}
    for flag, start, end in _spans(properties):
        if flag == HEADERS:
            entries, _ = read_entries(properties, start)
        parts[flag] = properties[start:end]
    for flag in (HEADERS, EXPIRATION):
        parts.pop(flag, None)
    if headers is not None:
        parts[HEADERS] = rewrite_table(headers, properties, entries, original or {})
    if expiration is not None:
        parts[EXPIRATION] = write_short_text(expiration)
    return _joined(parts)


def with_reply_to(properties: bytes, address: str) -> bytes:
    """The properties with another reply address; all others keep their bytes."""
    parts = {flag: properties[start:end] for flag, start, end in _spans(properties)}
    return _joined(parts | {REPLY_TO: write_short_text(address)})


def _spans(properties: bytes) -> Iterator[tuple[int, int, int]]:
    """The flag, the start and the end of each property that is there."""
    flags = (properties[0] << 8) | properties[1]
    end = 2
    for flag, _name, form in FIELDS:
        if flags & flag:
            start = end
            if form == _SHORT_TEXT:
                end += 1 + properties[end]
            elif form == _TABLE:
                end += 4 + int.from_bytes(properties[end : end + 4], "big")
            else:
                end += 1 if form == _OCTET else 8
            yield flag, start, end


def _joined(parts: dict[int, bytes]) -> bytes:
    """Properties from the bytes of each, by flag: those with higher flags come first."""
    flags = sorted(parts, reverse=True)
    return struct.pack(">H", sum(flags)) + b"".join([parts[flag] for flag in flags])
