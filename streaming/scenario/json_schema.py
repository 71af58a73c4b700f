"""The JSON Schema of scenario files, for editors and for tools that write scenarios.

The commands and declarations are not described a second time: their schemas follow from the types
of their members. A document that breaks the schema is also refused by the reader. The reader checks
more: references between steps, times in order, routing key lengths in bytes.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from streaming.broker.commands import CheckedPublish, Name
from streaming.protocol.amqp_properties import PROPERTIES, WHOLE_PROPERTIES
from streaming.protocol.command_json import KINDS
from streaming.protocol.definitions_packing import PACKED, PLAIN
from streaming.scenario.document import DESCRIPTIVE
from streaming.scenario.steps import MAX_MS
from topology.declarations import Binding, Exchange, Policy, Queue

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
IDENTIFIER = "urn:dlx-stream:scenario"
"""The name by which other schemas refer to this one; it is not an address to fetch."""

_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_OBJECT: Final[Schema] = {"type": "object"}
_NAME: Final[Schema] = msgspec.json.schema(Name)
_TABLE: Final[Schema] = {
    "description": "AMQP values by name",
    "anyOf": [_OBJECT, {"type": "array", "maxItems": 0}],
}
_TIME: Final[Schema] = {
    "description": "milliseconds of virtual time since the scenario began",
    "type": "integer",
    "minimum": 0,
    "maximum": MAX_MS,
}
_STEP: Final[dict[str, Schema]] = {"op": _TEXT, "at_ms": _TIME, "comment": _TEXT}
_REQUIRED_OF_STEP: Final = {"op", "at_ms"}
_SETTLEMENTS = ("ack", "reject", "nack")
_DECLARATIONS: Final[dict[str, type[msgspec.Struct]]] = {
    "queue": Queue,
    "exchange": Exchange,
    "binding": Binding,
    "policy": Policy,
    "operator_policy": Policy,
}


def _object(
    members: Mapping[str, Schema], required: Collection[str] = (), *, closed: bool
) -> Schema:
    """An object; a closed one has no other members. Null counts as missing where one is optional.

    Members that may be anything have an empty schema.
    """
    properties = {
        name: schema if name in required or not schema else {"anyOf": [schema, {"type": "null"}]}
        for name, schema in members.items()
    }
    found: Schema = {"type": "object", "properties": properties}
    if required:
        found["required"] = [name for name in members if name in required]
    if closed:
        found["additionalProperties"] = False
    return found


def _members(kind: type[msgspec.Struct]) -> tuple[dict[str, Schema], set[str]]:
    """The members of a struct by their types, and which of them are required."""
    fields = msgspec.structs.fields(kind)
    names = {field.name: field.encode_name.replace("apply_to", "apply-to") for field in fields}
    members = {names[field.name]: _schema_of(field.type) for field in fields}
    return members, {names[field.name] for field in fields if field.required}


def _schema_of(kind: Any) -> Schema:
    """The schema of a member; an empty one if its own reader knows more than its type says."""
    for name, declaration in _DECLARATIONS.items():
        if kind is declaration:
            return {"$ref": f"#/$defs/{name}"}
    if getattr(kind, "__origin__", kind) is dict:
        return _TABLE
    found: Schema = msgspec.json.schema(kind)
    if "$defs" in found:
        return {}
    given = [schema for schema in found.get("anyOf", ()) if schema != {"type": "null"}]
    return given[0] if given else found


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
                "properties": {"op": {"enum": ["publish", "sleep", *KINDS]}},
                "allOf": [
                    {
                        "if": {"properties": {"op": {"const": op}}, "required": ["op"]},
                        "then": {"$ref": f"#/$defs/{op}"},
                    }
                    for op in ("publish", "sleep", *KINDS)
                ],
            },
            "publish": _publish(),
            "sleep": _step({}),
            **{op: _command(op) for op in KINDS},
            **{name: _declaration(kind, closed=True) for name, kind in _DECLARATIONS.items()},
            "expected_queue": _expected_queue(),
        },
    }


def _scenario() -> Schema:
    steps = {"type": "array", "items": {"$ref": "#/$defs/step"}}
    outcomes = "recorded outcomes by version of RabbitMQ, such as 4.0.5"
    expect = "what each queue holds at the end; null: there is no such queue"
    queues = {"$ref": "#/$defs/expected_queue"}
    members: dict[str, Schema] = {
        "id": _TEXT,
        "title": _TEXT,
        "definitions": {"$ref": "#/$defs/definitions"},
        "steps": steps,
        "end_ms": _TIME,
        "outcomes": {"description": outcomes, "type": "object", "additionalProperties": _OBJECT},
        "expect": {"description": expect, "type": "object", "additionalProperties": queues},
    }
    members.update((name, {}) for name in DESCRIPTIVE)
    return _object(members, {"steps", "end_ms"}, closed=False)


def _definitions() -> Schema:
    """The members of RabbitMQ's definitions files; unknown ones are skipped with a note."""
    kinds: dict[str, type[msgspec.Struct]] = {
        "exchanges": Exchange,
        "queues": Queue,
        "bindings": Binding,
        "policies": Policy,
        "operator_policies": Policy,
    }
    members: dict[str, Schema] = {
        name: {"type": "array", "items": _declaration(kind, closed=False)}
        for name, kind in kinds.items()
    }
    members["parameters"] = {"type": "array", "items": _OBJECT}
    return _object(members, closed=False)


def _declaration(kind: type[msgspec.Struct], *, closed: bool) -> Schema:
    members, required = _members(kind)
    return _object({**members, "vhost": _TEXT}, required, closed=closed)


def _step(members: Mapping[str, Schema], required: Collection[str] = ()) -> Schema:
    """The schema of a step: its own members, and those that every step has."""
    return _object({**members, **_STEP}, {*required, *_REQUIRED_OF_STEP}, closed=True)


def _command(op: str) -> Schema:
    members, required = _members(KINDS[op])
    match op:
        case "set_operator_policy":
            members["policy"] = {"$ref": "#/$defs/operator_policy"}
        case "get" | "consume":
            members["as"] = {**_NAME, "minLength": 1}
        case "check":
            members["steps"] = {"type": "array", "items": _checked()}
        case "import_definitions":
            members |= {PLAIN: _OBJECT, PACKED: _TEXT}
            required = set()
    return _step(members, required)


def _checked() -> Schema:
    """A step of a check: part of a publish, or a settlement."""
    steps = []
    for op in ("publish", *_SETTLEMENTS):
        kind = KINDS.get(op, CheckedPublish)
        members, required = _members(kind)
        steps.append(_object({**members, "op": {"const": op}}, {*required, "op"}, closed=True))
    return {"anyOf": steps}


def _publish() -> Schema:
    properties: dict[str, Schema] = dict.fromkeys(PROPERTIES, _NAME)
    for name, (least, most) in WHOLE_PROPERTIES.items():
        properties[name] = {"type": "integer", "minimum": least, "maximum": most}
    properties["headers"] = _OBJECT
    members = {
        **dict.fromkeys(("exchange", "routing_key"), _NAME),
        **dict.fromkeys(("body", "channel"), _TEXT),
        **dict.fromkeys(("mandatory", "immediate"), _FLAG),
        "properties": _object(properties, closed=True),
    }
    return _step(members)


def _expected_queue() -> Schema:
    """The messages that a queue should hold: as an array, or as two parallel arrays."""
    reasons: Schema = {"anyOf": [_TEXT, {"type": "null"}, {"type": "array", "items": _TEXT}]}
    message = _object({"body": _TEXT, "reasons": reasons}, closed=True)
    bodies: Schema = {"type": "array", "items": {"type": ["string", "null"]}}
    columns = _object(
        {"bodies": bodies, "reasons": {"type": "array", "items": reasons}}, closed=True
    )
    messages: Schema = {"type": "array", "items": {"anyOf": [_TEXT, message]}}
    return {"anyOf": [{"type": "null"}, messages, columns]}
