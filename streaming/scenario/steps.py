"""The steps of a scenario: publishes, commands (`streaming.protocol.command_json`), and waiting.

Each has a virtual time, `at_ms`, in milliseconds since the scenario began. Steps at equal times run
in file order. A `comment` may explain a step.
"""

from typing import Any, Final

import msgspec

from streaming.broker.commands import Command, Get
from streaming.broker.message import Publication, publication_of
from streaming.protocol.amqp_properties import property_fault
from streaming.protocol.command_json import KINDS, read_command
from streaming.protocol.json_input import CommandFields
from topology.declarations import too_long
from topology.definitions.json_object import Fields, Report
from topology.suggestions import did_you_mean
from topology.validation.arguments import MAX_TTL_MS
from topology.values import Table, json_type, table_from_json

MAX_MS: Final = MAX_TTL_MS
"""Ten years, the longest duration RabbitMQ accepts."""

_ALSO_KNOWN = ("op", "at_ms", "comment")
_GET_LABEL = "g"
"""The label of a get without `as`: its deliveries are `g/0`, `g/1`, ..."""


class Publish(msgspec.Struct, frozen=True):
    """A confirmed publish.

    Attributes:
        publication: the part that the broker looks at.
        properties: without headers.
    """

    publication: Publication
    properties: dict[str, Any]
    headers: Table | None
    body: str
    mandatory: bool = False
    immediate: bool = False
    channel: str = "pub"


class Sleep(msgspec.Struct, frozen=True):
    """A step that only lets time pass."""


class Step(msgspec.Struct, frozen=True):
    """An action at a virtual time, in milliseconds since the scenario began."""

    at_ms: int
    op: str
    action: Publish | Command | Sleep
    comment: str = ""


def read_steps(value: object, where: str, report: Report) -> tuple[Step, ...]:
    """Read the steps of a scenario; problems go to the report."""
    if not isinstance(value, list):
        what = "is missing" if value is None else f"expected an array, got {json_type(value)}"
        report.problem(where, what)
        return ()
    steps: list[Step] = []
    before_ms = 0
    for index, item in enumerate(value):
        fields = CommandFields(item, f"{where}[{index}]", report)
        if not isinstance(item, dict):
            continue
        at_ms = _at_ms(fields, before_ms)
        before_ms = max(before_ms, at_ms)
        comment = fields.text("comment", "")
        action = _action(item, fields)
        if action is not None:
            steps.append(Step(at_ms, item["op"], action, comment))
    return tuple(steps)


def _at_ms(fields: CommandFields, before_ms: int) -> int:
    if fields.value("at_ms") is None:
        fields.report.problem(fields.at("at_ms"), "is missing")
        return before_ms
    at_ms = fields.whole("at_ms", before_ms, 0, MAX_MS)
    if at_ms < before_ms:
        fields.report.problem(fields.at("at_ms"), f"is before the previous step, at {before_ms}")
    return at_ms


def _action(item: dict[str, Any], fields: CommandFields) -> Publish | Command | Sleep | None:
    report, where = fields.report, fields.where
    op = fields.text("op")
    if op == "publish":
        return _publish(item, where, report)
    if op == "sleep":
        _note_unknown(fields)
        return Sleep()
    if op and op not in KINDS:
        hint = did_you_mean(op, [*KINDS, "publish", "sleep"])
        report.problem(f"{where}.op", f"unknown op {op!r}{hint}")
    if op not in KINDS:
        return None
    if op in {"get", "consume"} and item.get("as") == "":
        report.problem(f"{where}.as", "must not be empty")
    command = read_command(item, where, report, _ALSO_KNOWN)
    if isinstance(command, Get) and command.label is None:
        return msgspec.structs.replace(command, label=_GET_LABEL)
    return command


def _publish(item: dict[str, Any], where: str, report: Report) -> Publish:
    fields = CommandFields(item, where, report)
    for name in ("exchange", "routing_key"):
        value = item.get(name)
        if isinstance(value, str) and (complaint := too_long(value)):
            report.problem(fields.at(name), complaint)
    properties, headers = _properties(fields)
    exchange, routing_key = fields.text("exchange", ""), fields.text("routing_key", "")
    publish = Publish(
        publication_of(exchange, routing_key, properties, headers),
        properties,
        headers,
        fields.text("body", ""),
        fields.flag("mandatory", default=False),
        fields.flag("immediate", default=False),
        fields.text("channel", "pub"),
    )
    _note_unknown(fields)
    return publish


def _properties(publish: Fields) -> tuple[dict[str, Any], Table | None]:
    """The AMQP properties and the headers of a publish."""
    value, where, report = publish.value("properties"), publish.at("properties"), publish.report
    if value is None:
        return {}, None
    if not isinstance(value, dict):
        report.problem(where, f"expected an object, got {json_type(value)}")
        return {}, None
    properties: dict[str, Any] = {}
    headers = None
    for name, member in value.items():
        if member is None:
            continue
        if name == "headers":
            try:
                headers = table_from_json(member)
            except ValueError as error:
                report.problem(f"{where}.headers", str(error))
        elif fault := property_fault(name, member):
            report.problem(f"{where}.{name}", fault.words)
        else:
            properties[name] = member
    return properties, headers


def _note_unknown(fields: Fields) -> None:
    for path, what in fields.unknown(_ALSO_KNOWN):
        fields.report.problem(path, what)
