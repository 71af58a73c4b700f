"""RabbitMQ's words for a frame that cannot be, or that may not come now.

They show the first bytes of the frame as Erlang prints a binary: in quotes if all can be read, else
as numbers; what does not fit a line goes on in the next.
"""

from typing import Final

from streaming.amqp.errors import FRAME_ERROR, UNEXPECTED_FRAME, AmqpError, error
from topology.erlang_terms import quoted_binary

_LINE: Final = 79
_SHOWN_BYTES: Final = 16


def unknown_frame(kind: int, payload: bytes) -> AmqpError:
    """501: there is no such type of frame, or its payload cannot be of this type."""
    return error(FRAME_ERROR, f"{_snippet(kind, payload)}: unknown_frame")


def unexpected_frame(kind: int, payload: bytes) -> AmqpError:
    """505: a frame may not come on this channel, or not yet."""
    return error(UNEXPECTED_FRAME, _snippet(kind, payload))


def frame_too_large(kind: int, size: int, largest: int) -> AmqpError:
    """501: a frame says that it is larger than agreed; its payload is not waited for."""
    why = f"{{frame_too_large,{size},{largest}}}"
    return error(FRAME_ERROR, f"{_snippet(kind, b'')}: {why}")


def invalid_frame_end(kind: int, payload: bytes, marker: int) -> AmqpError:
    """501: a frame does not end where it says."""
    before = f"{_snippet(kind, payload)}: "
    column = len(before.rpartition("\n")[2])
    why = f"{{invalid_frame_end_marker,{marker}}}"
    if column + len(why) > _LINE:
        why = why.replace(",", ",\n" + " " * (column + 1))
    return error(FRAME_ERROR, before + why)


def _snippet(kind: int, payload: bytes) -> str:
    which = "all" if len(payload) <= _SHOWN_BYTES else f"first {_SHOWN_BYTES}"
    before = f"type {kind}, {which} octets = "
    return before + _erlang(payload[:_SHOWN_BYTES], len(before))


def _erlang(data: bytes, column: int) -> str:
    """A binary as Erlang prints it from a column on."""
    if not data:
        return "<<>>"
    quoted = quoted_binary(data)
    if quoted is not None:
        return quoted
    lines = ["<<"]
    room = _LINE - column
    for number, byte in enumerate(data):
        item = f"{byte}," if number < len(data) - 1 else f"{byte}>>"
        if len(lines[-1]) + len(item) > room:
            lines.append("  ")
        lines[-1] += item
    return ("\n" + " " * column).join(lines)
