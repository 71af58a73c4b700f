"""Truncation of outbound records that their topic would not accept (D11).

A message gains an entry of `x-death` in every queue it dies in, so its record has no bound although
its body has one. A consumer must be able to settle every message. So a record that is too large is
truncated:

1. The oldest entries of `x-death` are left out; the latest entry stays.
2. If that is not enough, the body is left out too.
3. If that is not enough, only names, ids and the channel are sent.

The header `dlx-left-out` is a JSON object with what was left out and how much of it: entries of
`x-death`, bytes of the `body`, members of `headers` and `properties`, number of `kafka_headers`.
`dlx-topic-number`, `dlx-partition` and `dlx-offset` name the message; the tables have all of it.
An answer that is too large loses the ends of the longest lists in its result.

Replay: the omitted parts depend only on the record and the limit.
"""

import json
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from streaming.broker.message import X_DEATH, Message
from streaming.pipeline.rows.amqp_columns import table_bytes
from streaming.protocol import record_headers as wire
from topology.values import to_json

Header = tuple[str, bytes | None]
LeftOut = dict[str, int]

_RECORD_BYTES = 256
"""Estimated bytes of a record without key, value and headers; includes `dlx-left-out`."""
HEADER_BYTES = 10
"""Bytes of a header without name and value: two lengths."""
_MAX_ERROR_CHARACTERS = 1_000
_MAX_REPLY_ID_CHARACTERS = 255


class MessageParts(NamedTuple):
    """The parts of a delivery or a return.

    Attributes:
        required: headers that are always sent.
        headers: the AMQP headers.
        kafka_headers: the publisher's own.
    """

    message: Message
    body: bytes
    required: list[Header]
    properties: dict[str, Any]
    headers: dict[str, Any] | None
    kafka_headers: list[Header]

    def all_headers(self) -> list[Header]:
        """Return the headers of the record."""
        found = [*self.kafka_headers, *self.required]
        if self.properties:
            found.append((wire.PROPERTIES, table_bytes(self.properties)))
        if self.headers is not None:
            found.append((wire.HEADERS, table_bytes(self.headers)))
        return found


class Fitted(NamedTuple):
    """A record that fits its topic; `size` is that of the complete record."""

    value: bytes
    headers: list[Header]
    left_out: LeftOut
    size: int


def record_size(key: bytes, value: bytes, headers: list[Header]) -> int:
    """Return an upper bound of a record's bytes in Kafka."""
    size = _RECORD_BYTES + len(key) + len(value)
    for name, text in headers:
        characters = len(name) if name.isascii() else len(name.encode())
        size += HEADER_BYTES + characters + len(text or b"")
    return size


def fit_message(parts: MessageParts, key: bytes, max_bytes: int) -> Fitted:
    """Return the record of a message, truncated to at most `max_bytes`."""
    headers = parts.all_headers()
    size = record_size(key, parts.body, headers)
    if size <= max_bytes:
        return Fitted(parts.body, headers, {}, size)
    bodiless = parts._replace(body=b"")
    sent = _with_shorter_history(parts, key, max_bytes)
    sent = sent or _with_shorter_history(bodiless, key, max_bytes)
    sent = sent or bodiless._replace(properties={}, headers=None, kafka_headers=[])
    left_out = _left_out(parts, sent)
    message = parts.message
    place: list[Header] = [
        (wire.TOPIC_NUMBER, b"%d" % message.topic_number),
        (wire.PARTITION, b"%d" % message.partition),
        (wire.OFFSET, b"%d" % message.offset),
    ]
    known = {name for name, _text in sent.required}
    headers = [*sent.all_headers(), (wire.LEFT_OUT, json_bytes(left_out))]
    headers += [each for each in place if each[0] not in known]
    return Fitted(sent.body, headers, left_out, size)


def _with_shorter_history(parts: MessageParts, key: bytes, max_bytes: int) -> MessageParts | None:
    """Return the parts with as many of the latest deaths as fit; None if not even one does."""
    headers = parts.headers or {}
    deaths = _deaths(headers)
    if not deaths:
        fits = record_size(key, parts.body, parts.all_headers()) <= max_bytes
        return parts if fits else None
    without = parts._replace(headers={**headers, X_DEATH: []})
    room = max_bytes - record_size(key, parts.body, without.all_headers())
    kept = _how_many_fit([to_json(death) for death in deaths], room)
    if not kept:
        return None
    return parts._replace(headers={**headers, X_DEATH: deaths[:kept]})


def _deaths(headers: dict[str, Any] | None) -> list[Any]:
    found = (headers or {}).get(X_DEATH)
    return found if isinstance(found, list) else []


def _left_out(whole: MessageParts, sent: MessageParts) -> LeftOut:
    found = {"body": len(whole.body) - len(sent.body)}
    if sent.headers is not None:
        found[X_DEATH] = len(_deaths(whole.headers)) - len(_deaths(sent.headers))
    for name in ("headers", "kafka_headers", "properties"):
        found[name] = len(getattr(whole, name) or ()) - len(getattr(sent, name) or ())
    return {name: count for name, count in found.items() if count}


def fit_answer(answer: dict[str, Any], key: bytes, headers: list[Header], max_bytes: int) -> Fitted:
    """Return the record of an answer, truncated to at most `max_bytes`."""
    value = json_bytes(answer)
    size = record_size(key, value, headers)
    if size <= max_bytes:
        return Fitted(value, headers, {}, size)
    left_out: LeftOut = {}
    for smaller, also_left_out in _smaller_answers(
        answer, max_bytes - record_size(key, b"", headers)
    ):
        left_out |= {name: count for name, count in also_left_out.items() if count}
        value = json_bytes(smaller)
        if record_size(key, value, headers) <= max_bytes:
            break
    return Fitted(value, [*headers, (wire.LEFT_OUT, json_bytes(left_out))], left_out, size)


def _smaller_answers(answer: dict[str, Any], room: int) -> Iterator[tuple[dict[str, Any], LeftOut]]:
    """Yield ever smaller forms of an answer, each with the parts that it omits in addition."""
    result = dict(answer.get("result") or {})
    lists = [name for name, value in result.items() if isinstance(value, list)]
    for name in sorted(lists, key=lambda name: len(json_bytes(result[name])), reverse=True):
        whole = result[name]
        rest = len(json_bytes({**answer, "result": {**result, name: []}}))
        kept = _how_many_fit(whole, room - rest)
        result[name] = whole[:kept]
        yield {**answer, "result": result}, {name: len(whole) - kept}
    smallest, left_out = dict(answer), {"result": len(result)}
    if "error" in answer:
        text = answer["error"]["text"]
        smallest["error"] = {**answer["error"], "text": text[:_MAX_ERROR_CHARACTERS]}
        left_out = {"error": max(len(text) - _MAX_ERROR_CHARACTERS, 0)}
    else:
        smallest["result"] = {}
    reply_id = answer.get("reply_id") or ""
    if len(reply_id) > _MAX_REPLY_ID_CHARACTERS:
        smallest["reply_id"] = None
        left_out["reply_id"] = len(reply_id)
    yield smallest, left_out


def _how_many_fit(elements: list[Any], room: int) -> int:
    """Return how many of the first elements fit into `room` bytes of JSON."""
    sizes = accumulate(len(json_bytes(element)) + 1 for element in elements)
    return sum(size <= room for size in sizes)


def json_bytes(document: Any) -> bytes:
    """Return JSON as records have it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str).encode()
