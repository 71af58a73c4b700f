"""The JSON Schema of scenario files, for editors and for tools that write scenarios.

The steps are not described a second time: their readers run on a `_Sketch`, which notes every
member that a reader asks for, with its type and bounds. A document that breaks the schema is also
refused by the reader. The reader checks more: references between steps, times in order, routing
key lengths in bytes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from streaming.protocol.amqp_properties import PROPERTIES, WHOLE_PROPERTIES
from streaming.protocol.command_json import READERS
from streaming.protocol.definitions_packing import PACKED, PLAIN
from streaming.protocol.json_input import CommandFields
from streaming.scenario.document import DESCRIPTIVE
from streaming.scenario.steps import MAX_MS
from topology.definitions import objects
from topology.definitions.json_object import Fields, Report

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
IDENTIFIER = "urn:dlx-stream:scenario"
"""The name by which other schemas refer to this one; it is not an address to fetch."""
MAX_NAME_LENGTH = 255

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_OBJECT: Schema = {"type": "object"}
_NAME: Schema = {"type": "string", "maxLength": MAX_NAME_LENGTH}
_TABLE: Schema = {
    "description": "AMQP values by name",
    "anyOf": [_OBJECT, {"type": "array", "maxItems": 0}],
}
_REFS: Schema = {"type": "array", "items": _TEXT}
_TIME: Schema = {
    "description": "milliseconds of virtual time since the scenario began",
    "type": "integer",
    "minimum": 0,
    "maximum": MAX_MS,
}
_SETTLEMENTS = ("ack", "reject", "nack")


class _Sketch(CommandFields):
    """Fields of an object that is not there: notes what its reader asks for."""

    def __init__(self) -> None:
        super().__init__({}, "", Report())
        self.properties: dict[str, Schema] = {}
        self.required: list[str] = []

    def note(self, name: str, schema: Schema, *, required: bool = False) -> None:
        """Note a member; null counts as missing where a member is optional."""
        self.properties[name] = schema if required else {"anyOf": [schema, {"type": "null"}]}
        if required and name not in self.required:
            self.required.append(name)

    def value(self, name: str) -> object:
        """Note a member that may be anything, unless more is known about it."""
        self.properties.setdefault(name, {})
        return None

    def text(self, name: str, default: str | None = None) -> str:
        self.note(name, _TEXT, required=default is None)
        return ""

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        self.note(name, {"enum": list(choices)}, required=default is None)
        return choices[0]

    def flag(self, name: str, *, default: bool) -> bool:
        self.note(name, _FLAG)
        return default

    def integer(self, name: str, default: int) -> int:
        self.note(name, {"type": "integer"})
        return default

    def whole(self, name: str, default: int, least: int, most: int = 1 << 53) -> int:
        self.note(name, {"type": "integer", "minimum": least, "maximum": most})
        return default

    def optional_whole(self, name: str, least: int) -> int | None:
        return self.whole(name, least, least)

    def optional_text(self, name: str) -> str | None:
        return self.text(name, "")

    def name(self, name: str, default: str | None = None) -> str:
        self.note(name, _NAME, required=default is None)
        return ""

    def optional_name(self, name: str) -> str | None:
        return self.name(name, "")

    def refs(self) -> tuple[str, ...]:
        self.note("refs", _REFS, required=True)
        return ()

    def table(self, name: str, *, required: bool = False) -> dict[str, Any]:
        self.note(name, _TABLE, required=required)
        return {}

    def inner(self, name: str) -> Fields:
        """Note an object, whose members its own reader describes."""
        self.note(name, {"$ref": f"#/$defs/{name}"}, required=True)
        return _Sketch()

    def schema(self, *, closed: bool) -> Schema:
        """The object as a schema; a closed one has no other members."""
        found: Schema = {"type": "object", "properties": self.properties}
        if self.required:
            found["required"] = self.required
        if closed:
            found["additionalProperties"] = False
        return found


def json_schema() -> Schema:
    """The schema of a scenario file: one scenario, or an array of them."""
    return {
        "$schema": DIALECT,
        "$id": IDENTIFIER,
        "title": "dlx-stream scenario",
        "anyOf": [
            {"$ref": "#/$defs/scenario"},
            {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/scenario"}},
        ],
        "$defs": {
            "scenario": _scenario(),
            "definitions": _definitions(),
            "step": {
                "type": "object",
                "required": ["op", "at_ms"],
                "properties": {"op": {"enum": ["publish", "sleep", *READERS]}},
                "allOf": [
                    {
                        "if": {"properties": {"op": {"const": op}}, "required": ["op"]},
                        "then": {"$ref": f"#/$defs/{op}"},
                    }
                    for op in ("publish", "sleep", *READERS)
                ],
            },
            "publish": _publish(),
            "sleep": _step(_Sketch()),
            **{op: _command(op) for op in READERS},
            "queue": _object(objects.read_queue, closed=True),
            "exchange": _object(objects.read_exchange, closed=True),
            "binding": _object(objects.read_binding, closed=True),
            "policy": _object(objects.read_policy, closed=True),
            "operator_policy": _object(objects.read_operator_policy, closed=True),
            "expected_queue": _expected_queue(),
        },
    }


def _scenario() -> Schema:
    fields = _Sketch()
    for name in ("id", "title"):
        fields.text(name, "")
    fields.note("definitions", {"$ref": "#/$defs/definitions"})
    steps = {"type": "array", "items": {"$ref": "#/$defs/step"}}
    fields.note("steps", steps, required=True)
    fields.note("end_ms", _TIME, required=True)
    outcomes = "recorded outcomes by version of RabbitMQ, such as 4.0.5"
    fields.note(
        "outcomes", {"description": outcomes, "type": "object", "additionalProperties": _OBJECT}
    )
    expect = "what each queue holds at the end; null: there is no such queue"
    queues = {"$ref": "#/$defs/expected_queue"}
    fields.note("expect", {"description": expect, "type": "object", "additionalProperties": queues})
    for name in DESCRIPTIVE:
        fields.value(name)
    return fields.schema(closed=False)


def _definitions() -> Schema:
    """The members of RabbitMQ's definitions files; unknown ones are skipped with a note."""
    fields = _Sketch()
    readers: dict[str, Callable[[Fields], object]] = {
        "exchanges": objects.read_exchange,
        "queues": objects.read_queue,
        "bindings": objects.read_binding,
        "policies": objects.read_policy,
        "operator_policies": objects.read_operator_policy,
    }
    for name, read in readers.items():
        fields.note(name, {"type": "array", "items": _object(read, closed=False)})
    fields.note("parameters", {"type": "array", "items": _OBJECT})
    return fields.schema(closed=False)


def _object(read: Callable[[Fields], object], *, closed: bool) -> Schema:
    """A declaration, as its reader describes it."""
    fields = _Sketch()
    read(fields)
    fields.text("vhost", "")
    return fields.schema(closed=closed)


def _step(fields: _Sketch) -> Schema:
    """The schema of a step: its own members, and those that every step has."""
    fields.note("op", _TEXT, required=True)
    fields.note("at_ms", _TIME, required=True)
    fields.text("comment", "")
    return fields.schema(closed=True)


def _command(op: str) -> Schema:
    fields = _Sketch()
    READERS[op](fields)
    match op:
        case "set_operator_policy":
            fields.note("policy", {"$ref": "#/$defs/operator_policy"}, required=True)
        case "get" | "consume":
            label = {**_NAME, "minLength": 1}
            fields.note("as", label, required=op == "consume")
        case "check":
            fields.note("steps", {"type": "array", "items": _checked()}, required=True)
        case "import_definitions":
            fields.note(PLAIN, _OBJECT)
            fields.note(PACKED, _TEXT)
    return _step(fields)


def _checked() -> Schema:
    """A step of a check: part of a publish, or a settlement."""
    publish = _Sketch()
    publish.name("exchange", "")
    publish.optional_text("expiration")
    publish.table("headers")
    kinds = [("publish", publish)]
    for op in _SETTLEMENTS:
        fields = _Sketch()
        READERS[op](fields)
        kinds.append((op, fields))
    for op, fields in kinds:
        fields.note("op", {"const": op}, required=True)
    return {"anyOf": [fields.schema(closed=True) for _op, fields in kinds]}


def _publish() -> Schema:
    fields = _Sketch()
    for name in ("exchange", "routing_key"):
        fields.name(name, "")
    for name in ("body", "channel"):
        fields.text(name, "")
    for name in ("mandatory", "immediate"):
        fields.flag(name, default=False)
    properties = _Sketch()
    for name in PROPERTIES:
        if name in WHOLE_PROPERTIES:
            least, most = WHOLE_PROPERTIES[name]
            properties.whole(name, least, least, most)
        else:
            properties.name(name, "")
    properties.note("headers", _OBJECT)
    fields.note("properties", properties.schema(closed=True))
    return _step(fields)


def _expected_queue() -> Schema:
    """The messages that a queue should hold: as an array, or as two parallel arrays."""
    reasons: Schema = {"anyOf": [_TEXT, {"type": "null"}, {"type": "array", "items": _TEXT}]}
    message = _Sketch()
    message.text("body", "")
    message.note("reasons", reasons)
    bodies: Schema = {"type": "array", "items": {"type": ["string", "null"]}}
    columns = _Sketch()
    columns.note("bodies", bodies)
    columns.note("reasons", {"type": "array", "items": reasons})
    messages: Schema = {"type": "array", "items": {"anyOf": [_TEXT, message.schema(closed=True)]}}
    return {"anyOf": [{"type": "null"}, messages, columns.schema(closed=True)]}
