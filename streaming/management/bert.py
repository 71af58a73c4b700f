"""Answers as terms of Erlang (`Accept: application/bert`), as an old exporter of metrics wants.

An object is a list of pairs, and its names are atoms. What clients of AMQP named, as arguments, is
a map with binaries, since atoms are never forgotten.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from starlette.responses import Response

from streaming.management.answers import LongAnswer
from streaming.management.pacing import Pace

KIND: Final = "application/bert"

_VERSION: Final = b"\x83"
_END: Final = b"j"
_LONGEST_ATOM: Final = 255
_MAPS: Final = frozenset({"arguments", "definition", "effective_policy_definition", "metadata"})
"""Members with names that are not the API's own."""


async def as_bert(response: Response) -> LongAnswer:
    """An answer in JSON as terms of Erlang."""
    pieces = response.pieces if isinstance(response, LongAnswer) else [bytes(response.body)]
    if not isinstance(response, LongAnswer):
        return LongAnswer([_VERSION + encoded(msgspec.json.decode(pieces[0]))], KIND)
    start, end = pieces[0].index(b"[") + 1, pieces[-1].rindex(b"]")
    around: Any = msgspec.json.decode(pieces[0][:start] + pieces[-1][end:])
    pieces = [*pieces[:-1], pieces[-1][:end]]
    pieces[0] = pieces[0][start:]
    terms, pace = [], Pace()
    for piece in pieces:
        items: list[Any] = msgspec.json.decode(b"[" + piece.strip(b",") + b"]")
        terms += [encoded(item) async for item in pace.each(items)]
    if isinstance(around, list):
        return LongAnswer([_VERSION, *_listed(terms)], KIND)
    around.pop("items")
    members = [_pair(name, encoded(value)) for name, value in around.items()]
    members.append(_pair("items", b"".join(_listed(terms))))
    return LongAnswer([_VERSION, *_listed(members)], KIND)


def encoded(value: Any, *, is_map: bool = False) -> bytes:
    """A value of JSON as a term.

    Args:
        is_map: whether an object is a map, and those in it.
    """
    match value:
        case None | bool():
            return _atom({None: "null", True: "true", False: "false"}[value])
        case int():
            return _integer(value)
        case float():
            return b"F" + struct.pack(">d", value)
        case str():
            return _binary(value)
        case list():
            return b"".join(_listed([encoded(item, is_map=is_map) for item in value]))
        case _ if is_map:
            pairs = [_binary(name) + encoded(each, is_map=True) for name, each in value.items()]
            return b"t" + struct.pack(">I", len(pairs)) + b"".join(pairs)
        case _:
            found = [
                _pair(name, encoded(each, is_map=name in _MAPS)) for name, each in value.items()
            ]
            return b"".join(_listed(found))


def _pair(name: str, term: bytes) -> bytes:
    return b"h\x02" + _atom(name) + term


def _listed(terms: list[bytes]) -> Iterator[bytes]:
    if terms:
        yield b"l" + struct.pack(">I", len(terms)) + b"".join(terms)
    yield _END


def _atom(name: str) -> bytes:
    data = name.encode("utf-8", "surrogatepass")
    return b"w" + bytes([len(data)]) + data if len(data) <= _LONGEST_ATOM else _binary(name)


def _binary(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return b"m" + struct.pack(">I", len(data)) + data


def _integer(value: int) -> bytes:
    if 0 <= value < 1 << 8:
        return b"a" + bytes([value])
    if -(1 << 31) <= value < 1 << 31:
        return b"b" + struct.pack(">i", value)
    size = abs(value)
    data = size.to_bytes((size.bit_length() + 7) // 8, "little")
    return b"n" + bytes([len(data), value < 0]) + data
