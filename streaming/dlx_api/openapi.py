"""The OpenAPI document of `/api/dlx`, made from the questions and the types of their answers."""

import re
from inspect import cleandoc
from typing import Any, Final

import msgspec

from streaming.dlx_api.answers import Refusal
from streaming.dlx_api.questions import QUESTIONS, Parameter, Question
from streaming.management.routing import PREFIX
from streaming.program_version import program_version

OPENAPI: Final = "3.1.0"
_REF: Final = "#/components/schemas/{name}"
_REFUSALS: Final = {
    "400": "The request makes no sense; the reason says why",
    "401": "Not logged in, or not allowed",
    "404": "There is no such object that you may see",
    "409": "This needs the tables of a job, or a broker in memory",
    "413": "The answer would be too large",
    "429": "Too many requests of this user are not answered yet",
    "503": "Not now: it takes too long, or another front serves it",
}


def document() -> dict[str, Any]:
    """The document."""
    types = [kind for one in QUESTIONS for kind in (one.answer, one.body) if kind is not None]
    schemas, components = msgspec.json.schema_components([*types, Refusal], ref_template=_REF)
    by_type = dict(zip(map(str, types), schemas, strict=False))
    bodies = {_name_of(one.body) for one in QUESTIONS if one.body is not None}
    for name, schema in components.items():
        schema["description"] = cleandoc(schema["description"])
        if name not in bodies:  # answers have all of their members
            schema["required"] = list(schema["properties"])
    paths: dict[str, dict[str, Any]] = {}
    for one in QUESTIONS:
        paths.setdefault(f"/{one.path}", {})[one.method.lower()] = _operation(one, by_type)
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "dlx-stream",
            "version": program_version(),
            "description": "What died, why, and what was in the queues: beside RabbitMQ's "
            "management API, with its users, permissions and errors.",
        },
        "servers": [{"url": f"{PREFIX}dlx"}],
        "security": [{"basic": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


def _name_of(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _operation(one: Question, by_type: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _operation_id(one),
        "summary": one.summary,
        "parameters": [
            *({**_variable(name)} for name in one.variables),
            *(_parameter(each) for each in one.parameters),
        ],
        "responses": {
            "200": {"description": "The answer", "content": _json(by_type[str(one.answer)])},
            **{
                status: {
                    "description": text,
                    "content": _json({"$ref": _REF.format(name=Refusal.__name__)}),
                }
                for status, text in _REFUSALS.items()
            },
        },
    }
    if one.body is not None:
        found["requestBody"] = {"required": True, "content": _json(by_type[str(one.body)])}
    return found


def _operation_id(one: Question) -> str:
    return re.sub("[^a-z]+", "_", f"{one.method.lower()} {one.path}").strip("_")


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _variable(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _parameter(one: Parameter) -> dict[str, Any]:
    return {
        "name": one.name,
        "in": "query",
        "description": one.text,
        "required": one.is_needed,
        "schema": one.schema,
    }
