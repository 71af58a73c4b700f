"""AMQP table values: their Python types, their JSON form, and typed equality.

| AMQP | Python | JSON |
|---|---|---|
| void | None | null |
| boolean | bool | true, false |
| integer of any width | int | 1 |
| float, double | float | 1.0 |
| long or short string | str | "text" |
| byte array | bytes | {"$bytes": base64} |
| timestamp, seconds | Timestamp | {"$timestamp": seconds} |
| decimal | decimal.Decimal | {"$decimal": "1.50"} |
| array | list | [...] |
| table | dict with str keys | {...} |

An object with exactly one member, named as above, is that value; every other object is a table. A
headers or arguments table itself is always a table, whatever its members are called.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from topology.sentences import say

Compat = Literal["4.0", "3.10"]
"""The RabbitMQ version to behave like."""

MAX_DEPTH = 64
"""Deepest nesting of arrays and tables that is accepted."""


class Timestamp(msgspec.Struct, frozen=True):
    """An AMQP timestamp, in whole seconds since 1970 UTC."""

    seconds: int


if TYPE_CHECKING:
    AmqpValue: TypeAlias = (
        "bool | int | float | str | bytes | Timestamp | Decimal"
        " | list[AmqpValue] | dict[str, AmqpValue] | None"
    )
    Table: TypeAlias = dict[str, AmqpValue]
else:  # msgspec inspects these types in other modules, where the names would be unknown
    AmqpValue = object
    Table = dict
MatchKey: TypeAlias = tuple[object, ...]
"""A hashable, sortable stand-in for a value: equal keys mean values equal in type and content."""

_32_BITS = range(-(2**31), 2**31)
INTEGERS = range(-(2**63), 2**63)
"""The integers that AMQP can carry."""


_AMQP_TYPES: dict[type, str] = {
    type(None): "void",
    bool: "bool",
    float: "double",
    str: "longstr",
    bytes: "binary",
    Timestamp: "timestamp",
    Decimal: "decimal",
    list: "array",
    dict: "table",
}
_TYPE_WORDS: dict[type, str] = {
    type(None): say("null"),
    bool: say("a boolean"),
    int: say("an integer"),
    float: say("a floating-point number"),
    str: say("a string"),
    bytes: say("bytes"),
    Timestamp: say("a timestamp"),
    Decimal: say("a decimal"),
    list: say("an array"),
    dict: say("a table"),
}


def type_in_words(value: AmqpValue) -> str:
    """The type of a value for people, with its article: `a string`."""
    return _TYPE_WORDS[type(value)]


def amqp_type(value: AmqpValue) -> str:
    """RabbitMQ's name for the type of a value, such as `longstr`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "signedint" if value in _32_BITS else "long"
    return _AMQP_TYPES[type(value)]


def match_key(value: AmqpValue) -> MatchKey:
    """A key that two values share exactly if they are equal in type and content (R-HDR-6).

    Arrays are ordered, tables are not; all integer widths are one type; True is not 1, 1 is not
    1.0, "a" is not b"a", and decimals of different scale differ.
    """
    match value:
        case str():
            return ("longstr", value)
        case None:
            return ("void",)
        case bool():
            return ("bool", value)
        case int():
            return ("int", value)
        case float():
            return ("double", repr(value + 0.0))  # -0.0 is 0.0, and NaN equals itself
        case bytes():
            return ("binary", value.hex())
        case Timestamp():
            return ("timestamp", value.seconds)
        case Decimal():
            return ("decimal", str(value))
        case list():
            return ("array", tuple(match_key(item) for item in value))
        case _:
            return table_key(value)


def table_key(table: Mapping[str, AmqpValue]) -> MatchKey:
    """The match key of a whole table: member order does not matter."""
    return ("table", tuple((name, match_key(table[name])) for name in sorted(table)))


def match_key_3_10(value: AmqpValue) -> MatchKey:
    """As `match_key`, but an integral float equals the integer, as on RabbitMQ 3.10 (R-HDR-6).

    This holds for outermost values only: inside arrays and tables, 3.10 compares the types too.
    """
    if isinstance(value, float) and value.is_integer():
        return ("int", int(value))
    return match_key(value)


def with_json_form(table: Table) -> Table:
    """A nested table, with another name for its only member if that is named as `SPECIAL` is.

    In JSON, it would be another value.
    """
    if len(table) == 1:
        ((name, value),) = table.items()
        if name in SPECIAL:
            return {f"${name}": value}
    return table


def to_json(value: AmqpValue, *, exact: bool = False) -> object:
    """The JSON form of a value: dicts, lists, str, int, float, bool and None only.

    Args:
        exact: what has no JSON form is refused; else it gets that of `with_json_form`.

    Raises:
        ValueError: a nested table has only one member, named `$bytes`, `$timestamp` or `$decimal`:
            its JSON form would be that of such a value.
    """
    match value:
        case bytes():
            return {"$bytes": base64.b64encode(value).decode("ascii")}
        case Timestamp():
            return {"$timestamp": value.seconds}
        case Decimal():
            return {"$decimal": str(value)}
        case list():
            return [to_json(item, exact=exact) for item in value]
        case dict():
            table = with_json_form(value)
            if exact and table is not value:
                (name,) = value
                raise ValueError(
                    say("a table whose only member is %(name)s has no JSON form", name=repr(name))
                )
            return table_to_json(table, exact=exact)
        case _:
            return value


def table_to_json(table: Mapping[str, AmqpValue], *, exact: bool = False) -> dict[str, object]:
    """The JSON form of a headers or arguments table; see `to_json`."""
    return {name: to_json(value, exact=exact) for name, value in table.items()}


def from_json(document: object, *, depth: int = 0) -> AmqpValue:
    """The value of a decoded JSON document.

    Raises:
        ValueError: not the JSON form of an AMQP value; the message says why.
    """
    if depth > MAX_DEPTH:
        raise ValueError(say("is nested more than %(most)s levels deep", most=MAX_DEPTH))
    if isinstance(document, int) and document not in INTEGERS:
        raise ValueError(say("is a number beyond 64 bits"))
    if document is None or isinstance(document, bool | int | float | str):
        return document
    match document:
        case list():
            return [from_json(item, depth=depth + 1) for item in document]
        case dict():
            if len(document) == 1 and (special := next(iter(document))) in SPECIAL:
                return SPECIAL[special](document[special])
            return table_from_json(document, depth=depth)
        case _:
            raise ValueError(say("%(type)s is not a JSON type", type=type(document).__name__))


def table_from_json(document: object, *, depth: int = 0) -> Table:
    """The headers or arguments table of a decoded JSON object.

    Raises:
        ValueError: not an object, or a member is not an AMQP value; the message says why.
    """
    if not isinstance(document, dict):
        raise ValueError(  # noqa: TRY004 - one kind of error for one kind of fault
            say("expected an object, got %(given)s", given=json_type(document))
        )
    for name in document:
        if not isinstance(name, str):
            raise ValueError(  # noqa: TRY004 - the same
                say("a table has the key %(name)s, which is not a string", name=repr(name))
            )
    return {name: from_json(value, depth=depth + 1) for name, value in document.items()}


_JSON_TYPES: dict[type, str] = {
    type(None): say("null"),
    bool: say("a boolean"),
    int: say("a number"),
    float: say("a number"),
    str: say("a string"),
    list: say("an array"),
}
_OBJECT = say("an object")


def json_type(document: object) -> str:
    """JSON's name for the type of a decoded document, with its article: `a string`."""
    return _JSON_TYPES.get(type(document), _OBJECT)


def _bytes(content: object) -> bytes:
    if isinstance(content, str):
        try:
            return base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise ValueError(say("$bytes must hold base64 text"))


def _timestamp(content: object) -> Timestamp:
    if isinstance(content, int) and not isinstance(content, bool) and content in INTEGERS:
        return Timestamp(content)
    raise ValueError(say("$timestamp must hold whole seconds, in 64 bits"))


def _decimal(content: object) -> Decimal:
    if isinstance(content, str):
        try:
            decimal = Decimal(content)
        except InvalidOperation:
            pass
        else:
            if decimal.is_finite():
                return decimal
    raise ValueError(say("$decimal must hold the text of a decimal number"))


SPECIAL: dict[str, Callable[[object], AmqpValue]] = {
    "$bytes": _bytes,
    "$timestamp": _timestamp,
    "$decimal": _decimal,
}
