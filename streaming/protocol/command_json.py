"""Reading commands from JSON objects: steps of scenario files, values of the command topic.

`{"op": "get", "queue": "work", "count": 2, "as": "first", "channel": "worker"}`
"""

from collections.abc import Callable
from typing import Any

import msgspec

from streaming.broker import commands
from streaming.broker.commands import CheckedPublish, Command, Settlement
from streaming.broker.redrives.agreement import FINISH, SHARE, STOP, TRUST
from streaming.protocol.definitions_packing import read_definitions
from streaming.protocol.json_input import CommandFields
from streaming.protocol.redrive_json import read_letters, read_redrive_options
from topology.declarations import Binding, Exchange, Policy, Queue, too_long
from topology.definitions.json_object import Fields, Report
from topology.definitions.objects import (
    read_binding,
    read_exchange,
    read_operator_policy,
    read_policy,
    read_queue,
)
from topology.errors import InvalidTopologyError, Problem
from topology.suggestions import did_you_mean
from topology.values import json_type

MAX_COUNT = 1_000_000
"""How many messages one `get` may fetch."""

Reader = Callable[[CommandFields], Command]

_BOUNDS = {
    "count": (0, MAX_COUNT),
    "prefetch": (0, 65535),
    "first": (0, 1 << 53),
    "last": (0, 1 << 53),
    "tag": (0, 1 << 53),
    "total": (0, 1 << 31),
    "round": (0, 1 << 53),
    "share": (0, 1 << 31),
}
_TEXTS = frozenset({"configure", "expiration", "read", "reason", "reply_id", "seal", "write"})
"""The strings that are not names, so that AMQP does not limit their length."""

_DECLARATIONS: dict[type, Callable[[Fields], Any]] = {
    Binding: read_binding,
    Exchange: read_exchange,
    Policy: read_policy,
    Queue: read_queue,
}


def _reader(kind: type[Any]) -> Callable[[CommandFields], Any]:
    """Make the reader of a command from the names, types and defaults of its fields."""
    members = {field.name: _member_reader(kind, field) for field in msgspec.structs.fields(kind)}
    return lambda fields: kind(**{name: read(fields) for name, read in members.items()})


def _member_reader(
    kind: type[Any], field: msgspec.structs.FieldInfo
) -> Callable[[CommandFields], Any]:
    name = field.encode_name
    default: Any = None if field.required else field.default
    if name in _SPECIAL:
        return _SPECIAL[name]
    if field.type in _DECLARATIONS:
        operator = kind is commands.SetOperatorPolicy
        read = read_operator_policy if operator else _DECLARATIONS[field.type]
        return lambda fields: _declaration(fields, name, read)
    if field.type is bool:
        return lambda fields: fields.flag(name, default=default)
    if field.type is int and field.required:
        return lambda fields: fields.required_whole(name, *_BOUNDS[name])
    if field.type is int:
        return lambda fields: fields.whole(name, default, *_BOUNDS[name])
    if field.type == int | None:
        return lambda fields: fields.optional_whole(name, 1)
    if field.type == str | None and name in _TEXTS:
        return lambda fields: fields.optional_text(name)
    if field.type == str | None:
        return lambda fields: fields.optional_name(name)
    if field.type is str and name in _TEXTS:
        return lambda fields: fields.text(name, default)
    if field.type is str:
        return lambda fields: fields.name(name, default)
    return lambda fields: fields.table(name)


def _declaration(fields: CommandFields, name: str, read: Callable[[Fields], Any]) -> Any:
    inner = fields.inner(name)
    declaration = read(inner)
    for path, what in inner.unknown(also_known=("vhost",)):
        fields.report.problem(path, what)
    return declaration


def _steps(fields: CommandFields) -> tuple[CheckedPublish | Settlement, ...]:
    """Read the steps of a check."""
    value = fields.value("steps")
    if not isinstance(value, list):
        wrong = "is missing" if value is None else f"expected an array, got {json_type(value)}"
        fields.report.problem(fields.at("steps"), wrong)
        value = []
    steps = [
        _step(CommandFields(item, f"{fields.at('steps')}[{index}]", fields.report))
        for index, item in enumerate(value)
    ]
    return tuple(step for step in steps if step is not None)


def _step(fields: CommandFields) -> CheckedPublish | Settlement | None:
    """Read a step of a check: the checked attributes of a publish, or a settlement."""
    op = fields.choice("op", ("publish", "ack", "reject", "nack"))
    step: CheckedPublish | Settlement | None = None
    if op == "publish":
        step = _read_checked_publish(fields)
    elif fields.sound:
        settlement = READERS[op](fields)
        assert isinstance(settlement, Settlement)
        step = settlement
    for path, what in fields.unknown():
        fields.report.problem(path, what)
    return step


_SPECIAL: dict[str, Callable[[CommandFields], Any]] = {
    "action": lambda fields: fields.choice("action", ("pause", "resume", "cancel", "status")),
    "definitions": read_definitions,
    "lane": lambda fields: fields.optional_whole("lane", 0),
    "letters": read_letters,
    "message": lambda fields: fields.message_id("message"),
    "options": read_redrive_options,
    "outcome": lambda fields: fields.choice("outcome", ("ack", "requeue", "reject"), "ack"),
    "refs": lambda fields: fields.refs(),
    "steps": _steps,
    "verdict": lambda fields: fields.choice("verdict", (TRUST, SHARE, STOP, FINISH)),
}
_read_checked_publish = _reader(CheckedPublish)

_settlements = msgspec.json.Decoder(commands.Ack | commands.Reject | commands.Nack)
_routed = msgspec.json.Decoder(
    commands.Ack
    | commands.Reject
    | commands.Nack
    | commands.Check
    | commands.GetOnLanes
    | commands.Renew
)

READERS: dict[str, Reader] = {
    str(kind.__struct_config__.tag): _reader(kind) for kind in Command.__subclasses__()
}
"""The reader of each command, by its op."""


def read_settlement(value: bytes) -> Settlement | None:
    """Read the JSON of an ack, reject or nack, the most frequent commands, in one step.

    Returns:
        What `read_command` would; None if it is another command or malformed.
    """
    try:
        settlement = _settlements.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    channel = settlement.channel
    return None if channel is not None and too_long(channel) else settlement


def read_routed(value: bytes) -> Command:
    """Read a command that the first stage has changed for a lane (`broker.lanes`)."""
    command: Command = _routed.decode(value)
    return command


def read_command(
    document: object, where: str, report: Report, also_known: tuple[str, ...] = ()
) -> Command | None:
    """Read a command; None, with problems in the report, if the object is malformed.

    Args:
        where: path of the object, which begins the paths of problems.
        also_known: members that the caller reads.
    """
    fields = CommandFields(document, where, report)
    before = len(report.problems)
    op = fields.text("op")
    reader = READERS.get(op)
    if reader is None:
        if len(report.problems) == before:
            report.problem(fields.at("op"), f"unknown op {op!r}{did_you_mean(op, READERS)}")
        return None
    command = reader(fields)
    for path, what in fields.unknown(also_known):
        report.problem(path, what)
    return None if len(report.problems) > before else command


def parse_command(document: object, where: str = "command") -> Command:
    """Read a command.

    Raises:
        InvalidTopologyError: the object is not a valid command; carries every problem.
    """
    report = Report()
    command = read_command(document, where, report)
    if command is None:
        raise InvalidTopologyError(report.problems or [Problem(where, "is not a command")])
    return command
