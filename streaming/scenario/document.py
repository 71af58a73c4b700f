"""Reading a scenario file: definitions, steps with their virtual times, expectations.

{"id": ..., "title": ..., "definitions": {...}, "steps": [{"at_ms": 0, "op": ..., ...}, ...],
 "end_ms": 1000, "outcomes": {"4.0.5": {...}}, "expect": {queue: [{"body": ..., "reasons": [...]}]}}
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from streaming.broker.commands import Command
from streaming.broker.message import Publication
from streaming.command_documents import READERS, CommandFields, read_command
from topology.declarations import Binding, Exchange, Policy, Queue
from topology.documents import (
    read_binding,
    read_exchange,
    read_operator_policy,
    read_policy,
    read_queue,
)
from topology.errors import DlxError, Problem
from topology.fields import Fields, Report
from topology.suggestions import did_you_mean
from topology.values import json_type, table_from_json

KNOWN = (
    "id",
    "title",
    "rules",
    "version_note",
    "definitions",
    "steps",
    "end_ms",
    "difference",
    "outcomes",
    "expect",
    "seed",
)
PROPERTIES = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""The AMQP basic properties, in the order of the protocol; headers apart."""

_WHOLE = ("delivery_mode", "priority", "timestamp")


class MalformedScenarioError(DlxError):
    """A scenario file that cannot be read; lists every problem."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class Publish(msgspec.Struct, frozen=True):
    """A publish step."""

    publication: Publication
    body: str
    mandatory: bool = False
    immediate: bool = False
    channel: str = "pub"


class Sleep(msgspec.Struct, frozen=True):
    """A step that does nothing."""


class Step(msgspec.Struct, frozen=True):
    """One step: at a virtual time, do something. `document` is the step as written."""

    at_ms: int
    op: str
    action: Publish | Command | Sleep
    document: dict[str, Any]


class Scenario(msgspec.Struct, frozen=True):
    """A scenario, read and checked for form; whether the topology makes sense shows when it runs."""

    id: str
    title: str
    policies: tuple[Policy, ...]
    operator_policies: tuple[Policy, ...]
    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]
    bindings: tuple[Binding, ...]
    steps: tuple[Step, ...]
    end_ms: int
    outcomes: dict[str, Any]
    expect: dict[str, Any] | None


def parse_scenario(text: str | bytes, name: str) -> Scenario:
    """Read a scenario.

    Args:
        text: JSON.
        name: what it is called if it has no `id`.

    Raises:
        MalformedScenarioError: with every problem found.
    """
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedScenarioError([Problem("$", f"is not JSON: {error}")]) from error
    report = Report()
    fields = CommandFields(document, "", report)
    identity = fields.text("id", name)
    title = fields.text("title", "")
    definitions = CommandFields(_member(fields, "definitions"), "definitions", report)
    scenario = Scenario(
        identity,
        title,
        tuple(_each(definitions, "policies", read_policy)),
        tuple(_each(definitions, "operator_policies", read_operator_policy)),
        tuple(_each(definitions, "exchanges", read_exchange)),
        tuple(_each(definitions, "queues", read_queue)),
        tuple(_each(definitions, "bindings", read_binding)),
        _steps(fields.value("steps"), report),
        fields.whole("end_ms", 0, 0),
        _member(fields, "outcomes"),
        _expect(fields, report),
    )
    if isinstance(document, dict):
        if fields.value("end_ms") is None:
            report.problem("end_ms", "is missing")
        for path, what in fields.unknown(KNOWN):
            report.problem(path, what)
        known = ("policies", "operator_policies", "exchanges", "queues", "bindings")
        for path, what in definitions.unknown(
            (*known, "vhosts", "users", "permissions", "parameters")
        ):
            report.problem(path, what)
    if scenario.steps and scenario.end_ms < scenario.steps[-1].at_ms:
        report.problem("end_ms", f"is before the last step, at {scenario.steps[-1].at_ms}")
    if report.problems:
        raise MalformedScenarioError(report.problems)
    return scenario


def _no_constant(name: str) -> None:
    message = f"{name} is not a JSON number"
    raise ValueError(message)


def _member(fields: Fields, name: str) -> dict[str, Any]:
    """An optional object."""
    value = fields.value(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        fields.report.problem(fields.at(name), f"expected an object, got {json_type(value)}")
        return {}
    return value


def _each(definitions: Fields, name: str, read: Any) -> list[Any]:
    value = definitions.value(name)
    if value is None:
        return []
    where = definitions.at(name)
    if not isinstance(value, list):
        definitions.report.problem(where, f"expected an array, got {json_type(value)}")
        return []
    declared = []
    for index, item in enumerate(value):
        fields = Fields(item, f"{where}[{index}]", definitions.report)
        declared.append(read(fields))
        for path, what in fields.unknown(also_known=("vhost", "exclusive", "type")):
            definitions.report.problem(path, what)
    return declared


def _steps(value: object, report: Report) -> tuple[Step, ...]:
    if not isinstance(value, list):
        report.problem(
            "steps", "is missing" if value is None else f"expected an array, got {json_type(value)}"
        )
        return ()
    steps: list[Step] = []
    for index, item in enumerate(value):
        where = f"steps[{index}]"
        fields = CommandFields(item, where, report)
        at_ms = fields.whole("at_ms", 0, 0)
        if isinstance(item, dict) and "at_ms" not in item:
            report.problem(f"{where}.at_ms", "is missing")
        if steps and at_ms < steps[-1].at_ms:
            report.problem(
                f"{where}.at_ms", f"is before the step in front of it, at {steps[-1].at_ms}"
            )
        action = _action(item, where, report)
        if action is not None:
            steps.append(Step(at_ms, item["op"], action, item))
    return tuple(steps)


def _action(item: Any, where: str, report: Report) -> Publish | Command | Sleep | None:
    op = item.get("op") if isinstance(item, dict) else None
    if op == "publish":
        return _publish(item, where, report)
    if op == "sleep":
        return Sleep()
    if isinstance(op, str) and op not in READERS:
        hint = did_you_mean(op, [*READERS, "publish", "sleep"])
        report.problem(f"{where}.op", f"unknown op {op!r}{hint}")
        return None
    if not isinstance(item, dict):
        return None
    return read_command(item, where, report, ("at_ms",))


def _publish(item: dict[str, Any], where: str, report: Report) -> Publish:
    fields = CommandFields(item, where, report)
    fields.value("op")
    publish = Publish(
        Publication(
            fields.text("exchange", ""),
            fields.text("routing_key", ""),
            *_properties(fields.value("properties"), f"{where}.properties", report),
        ),
        fields.text("body", ""),
        fields.flag("mandatory", default=False),
        fields.flag("immediate", default=False),
        fields.text("channel", "pub"),
    )
    for path, what in fields.unknown(("at_ms",)):
        report.problem(path, what)
    return publish


def _properties(
    value: object, where: str, report: Report
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """AMQP properties and headers of a publish."""
    if value is None:
        return {}, None
    if not isinstance(value, dict):
        report.problem(where, f"expected an object, got {json_type(value)}")
        return {}, None
    properties: dict[str, Any] = {}
    headers = None
    for name, member in value.items():
        if name == "headers":
            try:
                headers = None if member is None else table_from_json(member)
            except ValueError as error:
                report.problem(f"{where}.headers", str(error))
        elif name not in PROPERTIES:
            hint = did_you_mean(name, [*PROPERTIES, "headers"])
            report.problem(f"{where}.{name}", f"is not an AMQP property{hint}")
        elif member is not None:
            wanted = int if name in _WHOLE else str
            if not isinstance(member, wanted) or isinstance(member, bool):
                kind = "a whole number" if wanted is int else "a string"
                report.problem(f"{where}.{name}", f"expected {kind}, got {json_type(member)}")
            properties[name] = member
    return properties, headers


def _expect(fields: Fields, report: Report) -> dict[str, Any] | None:
    """The `expect` member: queue -> messages, or null for a queue that is gone."""
    if fields.value("expect") is None:
        return None
    expect = _member(fields, "expect")
    for queue, messages in expect.items():
        where = f"expect.{queue}"
        if messages is None:
            continue
        if not isinstance(messages, list):
            report.problem(where, f"expected an array or null, got {json_type(messages)}")
            continue
        for index, message in enumerate(messages):
            _expected_message(message, f"{where}[{index}]", report)
    return expect


def _expected_message(message: object, where: str, report: Report) -> None:
    if isinstance(message, str):
        return
    fields = Fields(message, where, report)
    fields.text("body")
    reasons = fields.value("reasons")
    if reasons is not None and not (
        isinstance(reasons, list) and all(isinstance(reason, str) for reason in reasons)
    ):
        report.problem(f"{where}.reasons", "expected an array of strings")
    for path, what in fields.unknown(()):
        report.problem(path, what)
