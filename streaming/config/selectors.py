"""Selectors: where a mapped topic finds the exchange, the routing key and everything else.

A selector is a text, in which `{...}` stands for a part of the record, or an inline table:

    "order.{header.type}"                         the same parts as below: {key}, {header.NAME},
                                                  {json.PATH}, {record.FIELD}; {{ and }} are braces
    { record_key = true }                         the key of the Kafka record
    { header = "type" }                           a Kafka header; its last value, if it is repeated
    { json = "$.customer.name" }                  a value inside the body, which must be JSON
    { record = "offset" }                         topic, partition, offset or timestamp
    { template = "order.{key}", otherwise = "x" } a text with a fallback

This module reads and checks them; `streaming.topic_mapping` applies them to records.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite
from typing import Any, ClassVar, Final, Literal

import attrs

from streaming.config import types
from topology.errors import Problem
from topology.suggestions import did_you_mean
from topology.values import INTEGERS

Scalar = str | int | float | bool
Unit = Literal["s", "ms"]
Step = str | int
"""A step of a JSON path: the name of a member, or the index of an element."""

RECORD_FIELDS: Final = ("topic", "partition", "offset", "timestamp")
UNITS: Final = ("s", "ms")

FORMS: Final = (
    '"text", {record_key = true}, {header = "name"}, {json = "$.path"}, {record = "offset"} or '
    '{template = "text"}'
)
_PLACEHOLDERS: Final = "{key}, {header.NAME}, {json.PATH} or {record.FIELD}"
_PLACES: Final = ("record_key", "key", "header", "json", "record", "template")
_OPTIONS: Final = ("otherwise", "optional", "unit")

_TOKEN: Final = re.compile(
    r"""\{\{ | \}\} | \{ ( (?: "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [^{}"'] )* ) \} | [{}]""",
    re.VERBOSE,
)
_STEP: Final = re.compile(
    r"""\.(?P<name>[^\s.\[\]{}"'*?]+)
      | \[\s*(?P<index>-?[0-9]{1,9})\s*\]
      | \[\s*(?P<quoted>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*')\s*\]""",
    re.VERBOSE,
)


@attrs.frozen
class _Place:
    """A place of a value in a record.

    Without `otherwise` and `optional`, a record that lacks the value is quarantined.

    Attributes:
        member: the inline table's member that names the place.
        otherwise: the value to use instead.
        optional: whether to leave the property or header out instead.
        unit: what a number means as a time, for the property `timestamp`.
    """

    member: ClassVar[str]
    otherwise: Scalar | None = attrs.field(default=None, kw_only=True)
    optional: bool = attrs.field(default=False, kw_only=True)
    unit: Unit = attrs.field(default="s", kw_only=True)

    def toml(self) -> dict[str, object]:
        """The inline table that it is in `dlx.toml`."""
        table: dict[str, object] = {self.member: getattr(self, "name", True)}
        if self.otherwise is not None:
            table["otherwise"] = self.otherwise
        if self.optional:
            table["optional"] = True
        if self.unit != "s":
            table["unit"] = self.unit
        return table


@attrs.frozen
class RecordKey(_Place):
    """The key of the Kafka record."""

    member: ClassVar = "record_key"

    def __str__(self) -> str:
        return "the record key"


@attrs.frozen
class RecordHeader(_Place):
    """The last value of a Kafka header."""

    member: ClassVar = "header"
    name: str

    def __str__(self) -> str:
        return f"header {self.name!r}"


@attrs.frozen
class JsonValue(_Place):
    """A value inside a body of JSON, by its path; null counts as missing."""

    member: ClassVar = "json"
    name: str

    def __str__(self) -> str:
        return f"{self.name} of the body"


@attrs.frozen
class RecordField(_Place):
    """Where the record is in Kafka, or its timestamp: epoch milliseconds as a text or number."""

    member: ClassVar = "record"
    name: str

    def __str__(self) -> str:
        return f"the record's {self.name}"


@attrs.frozen
class Template(_Place):
    """A text with placeholders and options; a text without options is a plain `str`."""

    member: ClassVar = "template"
    name: str


Source = RecordKey | RecordHeader | JsonValue | RecordField
Selector = Scalar | Source | Template
"""Where a value comes from; a number or a boolean is the value itself."""


def template_parts(text: str) -> tuple[str | Source, ...]:
    """Split a text into literal texts and the parts of the record between them.

    Raises:
        InvalidConfigError: a placeholder is not one of those that this module describes.
    """
    parts: list[str | Source] = []
    literal, end = "", 0
    for found in _TOKEN.finditer(text):
        literal += text[end : found.start()]
        end = found.end()
        if found[0] in {"{{", "}}"}:
            literal += found[0][0]
        elif found[1] is None:
            raise types.invalid(
                f"has a single {found[0]}: write {{{{ or }}}} for a brace, or a placeholder: "
                f"{_PLACEHOLDERS}"
            )
        else:
            parts += [literal] if literal else []
            parts.append(_placeholder(found[1]))
            literal = ""
    literal += text[end:]
    return (*parts, literal) if literal or not parts else tuple(parts)


def literal_text(selector: Selector) -> str | None:
    """The text that a selector always gives, with braces unescaped; None if a record decides it."""
    text = selector.name if isinstance(selector, Template) else selector
    parts = template_parts(text) if isinstance(text, str) else ()
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else None


def _placeholder(inside: str) -> Source:
    kind, _, argument = inside.partition(".")
    match kind:
        case "key" if inside == "key":
            return RecordKey()
        case "header" if argument:
            return RecordHeader(argument)
        case "json" if argument:
            path = argument if argument.startswith("$") else f"$.{argument}"
            json_steps(path)
            return JsonValue(path)
        case "record" if argument in RECORD_FIELDS:
            return RecordField(argument)
        case "record":
            hint = did_you_mean(argument, RECORD_FIELDS)
            listed = ", ".join(f"{{record.{name}}}" for name in RECORD_FIELDS)
            raise types.invalid(f"{{{inside}}} is not a placeholder{hint}: write one of {listed}")
        case _:
            hint = did_you_mean(kind, ("key", "header", "json", "record"))
            raise types.invalid(f"{{{inside}}} is not a placeholder{hint}: write {_PLACEHOLDERS}")


def json_steps(path: str) -> tuple[Step, ...]:
    """The steps of a JSON path such as `$.items[0]["unit price"]`.

    Raises:
        InvalidConfigError: it is not a path to a single value.
    """
    steps: list[Step] = []
    end = 1
    while path.startswith("$") and end < len(path):
        found = _STEP.match(path, end)
        if found is None:
            break
        if found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            steps.append(found["name"] or _unquoted(found["quoted"]))
        end = found.end()
    if not path.startswith("$") or end < len(path):
        raise types.invalid(
            f"{types.write_string(path)} is not a path to one value: write $ and then .name, "
            '["name"] or [index], such as $.items[0].sku'
        )
    return tuple(steps)


def _unquoted(quoted: str) -> str:
    """The name between quotes; single quotes and JSON's double quotes mean the same."""
    if quoted.startswith("'"):
        inside = quoted[1:-1].replace("\\'", "'").replace('"', '\\"')
        quoted = f'"{inside}"'
    try:
        return str(json.loads(quoted))
    except ValueError as error:
        raise types.invalid(f"the name {quoted} in a path is not quoted as in JSON") from error


# --- Reading selectors from the configuration ---

Fault = Callable[[Any], str | None]
"""What is wrong with a literal value or a fallback; None if nothing is."""


def selector(
    fault: Fault, *, literal: Any = str, may_lack: bool = False, is_time: bool = False
) -> types.Kind:
    """The kind of a selector.

    Args:
        fault: for literal values and fallbacks.
        literal: the types of literal values.
        may_lack: whether the result may be left out (`optional`).
        is_time: whether the result is a time, so that numbers have a `unit`.
    """

    def read(raw: Any) -> Selector:
        if isinstance(raw, _Place):
            raw = raw.toml()
        if not isinstance(raw, dict):
            return _literal(raw, literal, fault)
        return _inline(raw, fault, may_lack=may_lack, is_time=is_time)

    return types.Kind("a selector", read)


def selectors(fault: Fault) -> types.Kind:
    """The kind of a table of selectors by name, whose values may be of any type."""
    one = selector(fault, literal=Scalar, may_lack=True)

    def read(raw: Any) -> dict[str, Selector]:
        if not isinstance(raw, Mapping):
            raise types.invalid(f"expected a table, got {types.kind_of(raw)}")
        problems: list[Problem] = []
        found: dict[str, Selector] = {}
        for name, member in raw.items():
            path = types.join_key("", name)
            what = types.name_fault(name)
            if what is not None:
                problems.append(Problem(path, f"the name of this header {what}"))
                continue
            try:
                found[name] = one.read(member)
            except types.InvalidConfigError as error:
                problems += error.within(path)
        types.refuse(problems)
        return found

    return types.Kind("a table of selectors", read)


def _literal(raw: Any, literal: Any, fault: Fault) -> Scalar:
    if isinstance(raw, str):
        what = _text_fault(raw, fault)
    elif not isinstance(raw, literal):
        raise types.invalid(f"expected {FORMS}, got {types.kind_of(raw)}")
    else:
        what = fault(raw)
    if what is not None:
        raise types.invalid(what)
    value: Scalar = raw
    return value


def _text_fault(text: str, fault: Fault) -> str | None:
    """What is wrong with a text, as far as the record does not decide it."""
    parts = template_parts(text)
    if len(parts) == 1 and isinstance(parts[0], str):
        return fault(parts[0])
    return types.short_string_fault("".join(part for part in parts if isinstance(part, str)))


def _inline(raw: dict[str, Any], fault: Fault, *, may_lack: bool, is_time: bool) -> Selector:
    known = [name for name in (*_PLACES, *_OPTIONS) if name != "key"]
    problems = types.unknown_keys({name: None for name in raw if name != "key"}, known)
    named = [name for name in _PLACES if name in raw]
    if not named:
        problems.append(Problem("", f"expected {FORMS}"))
    elif len(named) > 1:
        both = " and ".join(named)
        problems.append(Problem("", f"names both {both}: use only one of them"))
    for name in named:
        problems += _problems_within(name, partial(_place_faults, name, raw[name], fault))
    problems += _problems_within(
        "", lambda: _option_faults(raw, fault, may_lack=may_lack, is_time=is_time)
    )
    types.refuse(problems)
    options: dict[str, Any] = {name: raw[name] for name in _OPTIONS if name in raw}
    [member] = named
    if member in {"record_key", "key"}:
        return RecordKey(**options)
    return _CLASSES[member](raw[member], **options)


_CLASSES: Final[Mapping[str, type[RecordHeader | JsonValue | RecordField | Template]]] = {
    each.member: each for each in (RecordHeader, JsonValue, RecordField, Template)
}


def _problems_within(path: str, faults: Callable[[], Iterator[Problem]]) -> list[Problem]:
    try:
        return list(faults())
    except types.InvalidConfigError as error:
        return error.within(path)


def _place_faults(name: str, value: Any, fault: Fault) -> Iterator[Problem]:
    if name in {"record_key", "key"}:
        if value is not True:
            yield Problem(name, "must be true")
    elif not isinstance(value, str):
        yield Problem(name, f"expected a string, got {types.kind_of(value)}")
    elif name == "header" and (what := types.name_fault(value)) is not None:
        yield Problem(name, what)
    elif name == "record" and value not in RECORD_FIELDS:
        listed = " or ".join(map(types.write_string, RECORD_FIELDS))
        yield Problem(name, f"must be {listed}{did_you_mean(value, RECORD_FIELDS)}")
    elif name == "json":
        json_steps(value)
    elif name == "template" and (what := _text_fault(value, fault)) is not None:
        yield Problem(name, what)


def _option_faults(
    raw: dict[str, Any], fault: Fault, *, may_lack: bool, is_time: bool
) -> Iterator[Problem]:
    otherwise = raw.get("otherwise")
    if otherwise is not None:
        if not isinstance(otherwise, str | int | float):
            yield Problem("otherwise", f"expected a string, got {types.kind_of(otherwise)}")
        elif (what := fault(otherwise)) is not None:
            yield Problem("otherwise", what)
    if "optional" in raw:
        if not may_lack:
            yield Problem("optional", 'every publish needs this value: use otherwise = "text"')
        elif not isinstance(raw["optional"], bool):
            yield Problem("optional", f"expected a boolean, got {types.kind_of(raw['optional'])}")
        elif raw["optional"] and otherwise is not None:
            yield Problem("optional", "has no effect together with otherwise: use only one of them")
    if "unit" in raw:
        if not is_time:
            yield Problem("unit", "is only for the property timestamp")
        elif raw["unit"] not in UNITS:
            yield Problem("unit", 'must be "s" or "ms"')


def short_text(value: Any) -> str | None:
    """What is wrong with a routing key, an exchange's name or a property that is a text."""
    if not isinstance(value, str):
        return f"expected a string, got {types.kind_of(value)}"
    return types.short_string_fault(value)


def name_text(value: Any) -> str | None:
    """What is wrong with the name of a vhost."""
    return short_text(value) or types.name_fault(value)


def whole_number(least: int, most: int) -> Fault:
    """What is wrong with a property that is a whole number."""

    def fault(value: Any) -> str | None:
        if not isinstance(value, int) or isinstance(value, bool):
            return f"expected a whole number, got {types.kind_of(value)}"
        if least <= value <= most:
            return None
        return f"must be from {types.write_whole(least)} to {types.write_whole(most)}"

    return fault


def any_scalar(value: Any) -> str | None:
    """What is wrong with the value of a header, which may be of any type."""
    if isinstance(value, float) and not isfinite(value):
        return "must be a finite number"
    if isinstance(value, int) and value not in INTEGERS:
        return "is a number beyond 64 bits"
    return None
