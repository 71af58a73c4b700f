"""Commands on their way from the intake, which has read and checked them, to the fold: msgpack.

A table may hold values that msgpack lacks; they become extensions, as in the state.
"""

import zlib
from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec

from streaming.broker.commands import (
    AnyCommand,
    Bind,
    Check,
    Command,
    Consume,
    DeclareExchange,
    DeclareQueue,
    Get,
    GetOnLanes,
    ImportDefinitions,
    SetOperatorPolicy,
    SetPolicy,
    Unbind,
)
from streaming.broker.state.encoding import from_msgpack, to_msgpack
from topology.values import Timestamp

_WITH_TABLES: Final = frozenset(
    {
        *(Bind, Check, Consume, DeclareExchange, DeclareQueue, ImportDefinitions),
        *(SetOperatorPolicy, SetPolicy, Unbind),
    }
)
_PLAIN: Final = frozenset({str, bool, type(None)})
_ZLIB: Final = 0x78
"""The first byte of compressed data; no map of msgpack begins with it."""

_LARGE: Final = 1 << 16
_encoder: Final = msgspec.msgpack.Encoder()
_alone: Final[msgspec.msgpack.Decoder[Command]] = msgspec.msgpack.Decoder(
    AnyCommand, ext_hook=from_msgpack
)
_on_lanes: Final[msgspec.msgpack.Decoder[Command]] = msgspec.msgpack.Decoder(
    reduce(or_, (kind for kind in AnyCommand.__args__ if kind is not Get), GetOnLanes),
    ext_hook=from_msgpack,
)


def encode_command(command: Command) -> bytes:
    """Encode a command; large ones and documents of definitions are compressed.

    A number of three digits of JSON takes nine bytes of msgpack.
    """
    has_tables = type(command) in _WITH_TABLES
    data = _encoder.encode(_without_structs(command) if has_tables else command)
    is_large = len(data) > _LARGE or isinstance(command, ImportDefinitions)
    return zlib.compress(data, 1) if is_large else data


def decode_command(data: bytes, lanes: int) -> Command:
    """Decode what `encode_command` returned.

    Args:
        lanes: of the vhost; with several, every `Get` is a `GetOnLanes`.
    """
    if data[0] == _ZLIB:
        data = zlib.decompress(data)
    try:
        return (_alone if lanes == 1 else _on_lanes).decode(data)
    except msgspec.ValidationError:  # a policy's priority is beyond 64 bits, which is refused later
        members = msgspec.msgpack.decode(data, ext_hook=from_msgpack)
        command: Command = msgspec.convert(members, AnyCommand)
        return command


def _without_structs(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, tuple):
        return [_without_structs(item) for item in value]
    if not isinstance(value, msgspec.Struct) or isinstance(value, Timestamp):
        return to_msgpack(value)
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    members = {encoded: _without_structs(getattr(value, name)) for encoded, name in names}
    config = value.__struct_config__
    if config.tag_field is not None:
        members[config.tag_field] = config.tag
    return members
