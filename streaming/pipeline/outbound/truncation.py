"""What is left out of an outbound record that its topic would not take (D11).

A message takes on an entry of `x-death` with every queue it dies in, so its record has no bound
though its body has one. A consumer must be able to settle it whatever its size; so, until it fits:

    the oldest entries of x-death are left out     at least the latest stays
    the body is left out
    the body and what entries are too many
    everything but names, ids and the channel

The header `dlx-left-out` says so: a JSON object, from what was left out to how much of it: entries
of `x-death`, bytes of the `body`, members of `headers` and `properties`, number of `kafka_headers`.
`dlx-topic-number`, `dlx-partition` and `dlx-offset` name the message, which is whole in the tables.
An answer that is too large loses the ends of the longest lists in its result.

Replay: what is left out follows from the record and the limit alone.
"""

from __future__ import annotations

import json
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from streaming.broker.dead_letters.x_death import X_DEATH
from streaming.pipeline.rows.messages import headers_json
from streaming.protocol.headers import (
    HEADERS,
    LEFT_OUT,
    OFFSET,
    PARTITION,
    PROPERTIES,
    TOPIC_NUMBER,
)
from topology.values import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.broker.message import Message

Header = tuple[str, bytes | None]
LeftOut = dict[str, int]

_RECORD_BYTES = 256
"""Of a record, beside its key, value and headers; with LEFT_OUT and its like."""
_HEADER_BYTES = 10
"""Of a header, beside name and value: two lengths."""
_MOST_ERROR_CHARACTERS = 1_000


class CutRecord(msgspec.Struct, frozen=True):
    """A record that went out with something left out.

    Attributes:
        seq: its `dlx-seq`.
        bytes: of the whole record.
        message: topic number, partition and offset of the message; None for an answer.
    """

    vhost: str
    lane: int
    seq: int
    kind: str
    channel: str
    bytes: int
    left_out: dict[str, int]
    message: tuple[int, int, int] | None = None


class MessageParts(NamedTuple):
    """A delivery or a return.

    Attributes:
        short: headers that always go.
        headers: the AMQP headers.
        kafka_headers: the publisher's own.
    """

    message: Message
    body: bytes
    short: list[Header]
    properties: dict[str, Any]
    headers: dict[str, Any] | None
    kafka_headers: list[Header]

    def all_headers(self) -> list[Header]:
        """The headers of the record."""
        found = [*self.kafka_headers, *self.short]
        if self.properties:
            found.append((PROPERTIES, json_bytes(self.properties)))
        text = headers_json(self.headers)
        if text is not None:
            found.append((HEADERS, text.encode()))
        return found


class Fitted(NamedTuple):
    """A record that fits: `left_out` is empty where it is whole; `size` is that of the whole."""

    value: bytes
    headers: list[Header]
    left_out: LeftOut
    size: int


def record_size(key: bytes, value: bytes, headers: list[Header]) -> int:
    """The bytes of a record in Kafka, at most."""
    size = _RECORD_BYTES + len(key) + len(value)
    for name, text in headers:
        characters = len(name) if name.isascii() else len(name.encode())
        size += _HEADER_BYTES + characters + len(text or b"")
    return size


def fit_message(parts: MessageParts, key: bytes, most: int) -> Fitted:
    """The record of a message, of at most so many bytes."""
    headers = parts.all_headers()
    size = record_size(key, parts.body, headers)
    if size <= most:
        return Fitted(parts.body, headers, {}, size)
    form: tuple[MessageParts, LeftOut] = (parts, {})
    for form in _smaller(parts, key, most):  # the last is taken whatever its size
        if record_size(key, form[0].body, form[0].all_headers()) <= most:
            break
    smaller, left_out = form
    message = parts.message
    named: list[Header] = [
        (LEFT_OUT, json_bytes(left_out)),
        (TOPIC_NUMBER, b"%d" % message.topic_number),
        (PARTITION, b"%d" % message.partition),
        (OFFSET, b"%d" % message.offset),
    ]
    known = {name for name, _text in smaller.short}
    headers = smaller.all_headers() + [each for each in named if each[0] not in known]
    return Fitted(smaller.body, headers, left_out, size)


def _smaller(parts: MessageParts, key: bytes, most: int) -> Iterator[tuple[MessageParts, LeftOut]]:
    """Ever smaller forms of a message, with what each leaves out."""
    bodiless = parts._replace(body=b"")
    without_body = {"body": len(parts.body)} if parts.body else {}
    yield from _shorter_history(parts, key, most, {})
    yield bodiless, without_body
    yield from _shorter_history(bodiless, key, most, without_body)
    counts = {
        "headers": len(parts.headers or ()),
        "kafka_headers": len(parts.kafka_headers),
        "properties": len(parts.properties),
    }
    yield (
        bodiless._replace(properties={}, headers=None, kafka_headers=[]),
        {**without_body, **{name: count for name, count in counts.items() if count}},
    )


def _shorter_history(
    parts: MessageParts, key: bytes, most: int, left_out: LeftOut
) -> Iterator[tuple[MessageParts, LeftOut]]:
    """With as many of the latest deaths as there is room for, if for any."""
    deaths = (parts.headers or {}).get(X_DEATH)
    if not isinstance(deaths, list):
        return
    nothing = parts._replace(headers={**(parts.headers or {}), X_DEATH: []})
    room = most - record_size(key, parts.body, nothing.all_headers())
    sizes = accumulate(len(json_bytes(to_json(death))) + 1 for death in deaths)
    kept = sum(size <= room for size in sizes)
    if 0 < kept < len(deaths):
        headers = {**(parts.headers or {}), X_DEATH: deaths[:kept]}
        yield parts._replace(headers=headers), {**left_out, X_DEATH: len(deaths) - kept}


def fit_answer(answer: dict[str, Any], key: bytes, headers: list[Header], most: int) -> Fitted:
    """The record of an answer, of at most so many bytes."""
    value = json_bytes(answer)
    size = record_size(key, value, headers)
    if size <= most:
        return Fitted(value, headers, {}, size)
    left_out: LeftOut = {}
    for smaller, also_left_out in _smaller_answers(answer, most - record_size(key, b"", headers)):
        left_out |= {name: much for name, much in also_left_out.items() if much}
        value = json_bytes(smaller)
        if record_size(key, value, headers) <= most:
            break
    return Fitted(value, [*headers, (LEFT_OUT, json_bytes(left_out))], left_out, size)


def _smaller_answers(answer: dict[str, Any], room: int) -> Iterator[tuple[dict[str, Any], LeftOut]]:
    """Ever smaller forms of an answer, with what each leaves out beside the one before."""
    result = dict(answer.get("result") or {})
    lists = [name for name, value in result.items() if isinstance(value, list)]
    for name in sorted(lists, key=lambda name: len(json_bytes(result[name])), reverse=True):
        whole = result[name]
        rest = len(json_bytes({**answer, "result": {**result, name: []}}))
        sizes = accumulate(len(json_bytes(element)) + 1 for element in whole)
        kept = sum(size <= room - rest for size in sizes)
        result[name] = whole[:kept]
        yield {**answer, "result": result}, {name: len(whole) - kept}
    if "error" in answer:
        text = answer["error"]["text"]
        answer = {**answer, "error": {**answer["error"], "text": text[:_MOST_ERROR_CHARACTERS]}}
        yield answer, {"error": max(len(text) - _MOST_ERROR_CHARACTERS, 0)}
    else:
        answer = {**answer, "result": {}}
        yield answer, {"result": len(result)}
    yield {**answer, "reply_id": None}, {"reply_id": len(answer["reply_id"] or "")}


def json_bytes(document: Any) -> bytes:
    """JSON as records have it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str).encode()
