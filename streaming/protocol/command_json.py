"""Reading commands from JSON: values of the command topic, steps of scenarios, a client's requests.

    {"op": "get", "queue": "work", "count": 2, "as": "first", "channel": "worker"}

The types of a command's members (`broker.commands`) say what is valid. A command without nested
members is decoded in one step. Any other is read member by member, and so is one that is malformed:
that finds every problem, with its place and what to do.
"""

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec
from msgspec import inspect

from streaming.broker.commands import CheckedPublish, Command, SetOperatorPolicy, Settlement
from streaming.protocol.definitions_packing import read_definitions
from streaming.protocol.json_input import CommandFields
from streaming.protocol.redrive_json import read_letters, read_redrive_options
from topology.declarations import MAX_NAME_BYTES, Binding, Exchange, Policy, Queue, too_long
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

Reader = Callable[[CommandFields], Any]

_DECLARATIONS: Final[dict[type, Callable[[Fields], Any]]] = {
    Binding: read_binding,
    Exchange: read_exchange,
    Policy: read_policy,
    Queue: read_queue,
}


# -- in one step


def _is_name(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return any(map(_is_name, kind.types))
    return isinstance(kind, inspect.StrType) and kind.max_length is not None


def _is_flat(kind: inspect.Type) -> bool:
    """Whether JSON holds values of a type as they are."""
    if isinstance(kind, inspect.UnionType):
        return all(map(_is_flat, kind.types))
    if isinstance(kind, inspect.VarTupleType):
        return _is_flat(kind.item_type)
    flat = inspect.StrType | inspect.IntType | inspect.BoolType | inspect.NoneType
    return isinstance(kind, flat | inspect.LiteralType)


def _members(kind: type[Any]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return info.fields


KINDS: Final[dict[str, type[Command]]] = {
    str(kind.__struct_config__.tag): kind for kind in Command.__subclasses__()
}
"""The commands by their op."""

_NAMES: Final = {
    kind: tuple(member.name for member in _members(kind) if _is_name(member.type))
    for kind in KINDS.values()
}
_flat: Final[msgspec.json.Decoder[Command]] = msgspec.json.Decoder(
    reduce(
        or_, (kind for kind in KINDS.values() if all(_is_flat(one.type) for one in _members(kind)))
    )
)


def read_flat(value: bytes) -> Command | None:
    """Read the JSON of a command without nested members in one step.

    Returns:
        What `read_command` would; None if it is another command or malformed.
    """
    try:
        command = _flat.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(value) > MAX_NAME_BYTES:  # else nothing in it is too long
        for name in _NAMES[type(command)]:
            text = getattr(command, name)
            if text is not None and too_long(text):
                return None
    return command


# -- member by member


def _reader(kind: type[Any]) -> Reader:
    """Make the reader of a command from the names, types and defaults of its members."""
    members = {member.name: _member_reader(kind, member) for member in _members(kind)}
    return lambda fields: kind(**{name: read(fields) for name, read in members.items()})


def _member_reader(kind: type[Any], member: inspect.Field) -> Reader:
    name = member.encode_name
    if name in _SPECIAL:
        return _SPECIAL[name]
    default: Any = None if member.required else member.default
    match member.type:
        case inspect.StructType(cls=declared):
            read = read_operator_policy if kind is SetOperatorPolicy else _DECLARATIONS[declared]
            return lambda fields: _declaration(fields, name, read)
        case inspect.DictType():
            return lambda fields: fields.table(name)
        case inspect.UnionType(types=(given, *_)):
            read_given = _value_reader(name, given, None)
            return lambda fields: None if fields.value(name) is None else read_given(fields)
        case given:
            return _value_reader(name, given, default)


def _value_reader(name: str, kind: inspect.Type, default: Any) -> Reader:
    """Make the reader of a member without members; it is required if the default is None."""
    match kind:
        case inspect.BoolType():
            return lambda fields: fields.flag(name, default=default)
        case inspect.IntType(ge=int(least), le=int(most)):
            return lambda fields: fields.whole(name, default, least, most)
        case inspect.LiteralType(values=values):
            return lambda fields: fields.choice(name, [str(each) for each in values], default)
        case inspect.VarTupleType():
            return lambda fields: fields.texts(name, default)
        case inspect.StrType(max_length=int()):
            return lambda fields: fields.name(name, default)
        case inspect.StrType(pattern=str()):
            return lambda fields: fields.message_id(name)
        case inspect.StrType():
            return lambda fields: fields.text(name, default)
    raise TypeError(f"the member {name!r} of a command has the type {kind}: give it bounds")


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
        step = _READERS[op](fields)
    for path, what in fields.unknown():
        fields.report.problem(path, what)
    return step


_SPECIAL: Final[dict[str, Reader]] = {
    "definitions": read_definitions,
    "letters": read_letters,
    "options": read_redrive_options,
    "steps": _steps,
}
_read_checked_publish: Final = _reader(CheckedPublish)
_READERS: Final = {op: _reader(kind) for op, kind in KINDS.items()}


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
    reader = _READERS.get(op)
    if reader is None:
        if len(report.problems) == before:
            report.problem(fields.at("op"), f"unknown op {op!r}{did_you_mean(op, KINDS)}")
        return None
    command: Command = reader(fields)
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
