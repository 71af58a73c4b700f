"""Values as Erlang prints them, for replies in RabbitMQ's words.

    erlang_term([1, "x"])       '[{signedint,1},{longstr,<<"x">>}]'
    erlang_binary("größer")     '<<"größer"/utf8>>'
    erlang_string(b"1 second")  '"1 second"'

What cannot be read is printed as numbers: `<<0,97>>`, `[0,97]`.
"""

from typing import Final

from topology.values import AmqpValue, Timestamp, amqp_type

_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\b": "\\b",
    "\f": "\\f",
    "\x1b": "\\e",
}
_FIRST_OF_LATIN1: Final = "\xa0"


def erlang_term(value: AmqpValue) -> str:
    """Print a value as RabbitMQ does: as an Erlang term, such as `<<"some">>`, `-1` or `true`."""
    match value:
        case None:
            return "undefined"
        case bool():
            return "true" if value else "false"
        case str() | bytes():
            return erlang_binary(value)
        case Timestamp():
            return str(value.seconds)
        case list():
            return f"[{','.join(f'{{{amqp_type(item)},{erlang_term(item)}}}' for item in value)}]"
        case dict():
            members = (
                f"{{{erlang_binary(name)},{amqp_type(item)},{erlang_term(item)}}}"
                for name, item in sorted(value.items())
            )
            return f"[{','.join(members)}]"
        case _:
            return str(value)


def erlang_binary(value: str | bytes) -> str:
    """Print an Erlang binary: `<<"some">>`, or `<<"größer"/utf8>>` if not ASCII."""
    data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return quoted_binary(data) or f"<<{_numbers(data)}>>"


def readable(data: bytes) -> str:
    """Text that may be of UTF-8, and is of Latin-1 if it is not."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def quoted_binary(data: bytes) -> str | None:
    """The text of a binary that can be read; None if it cannot, or is empty."""
    for coding, name in (("utf-8", "/utf8"), ("latin-1", "")):
        try:
            shown = _quoted(data.decode(coding))
        except UnicodeDecodeError:
            continue
        if data and shown is not None:
            return f"<<{shown}{'' if data.isascii() else name}>>"
    return None


def erlang_string(data: bytes) -> str:
    """Print bytes as an Erlang string, which is a list of numbers."""
    return _quoted(data.decode("latin-1")) or f"[{_numbers(data)}]"


def _quoted(text: str) -> str | None:
    """Text in quotes; None if it cannot be read."""
    if not all(map(_can_be_read, text)):
        return None
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def _can_be_read(character: str) -> bool:
    return character in _ESCAPES or " " <= character <= "~" or character >= _FIRST_OF_LATIN1


def _numbers(data: bytes) -> str:
    return ",".join(map(str, data))
