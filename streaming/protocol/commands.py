"""Reading commands from JSON objects: steps of scenario files, values of the command topic.

`{"op": "get", "queue": "work", "count": 2, "as": "first", "channel": "worker"}`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streaming.broker import commands
from streaming.broker.commands import CheckedPublish, Command, Settlement
from streaming.protocol.command_fields import CommandFields
from streaming.protocol.definitions_packing import read_definitions
from topology.definitions.json_object import Fields, Report
from topology.definitions.objects import (
    read_binding,
    read_exchange,
    read_operator_policy,
    read_permission,
    read_policy,
    read_queue,
)
from topology.errors import InvalidTopologyError, Problem
from topology.suggestions import did_you_mean
from topology.values import json_type

MAX_COUNT = 1_000_000
"""How many messages one `get` may fetch."""

Reader = Callable[[CommandFields], Command]


def _declaration(fields: CommandFields, name: str, read: Callable[[Fields], Any]) -> Any:
    inner = fields.inner(name)
    declaration = read(inner)
    for path, what in inner.unknown(also_known=("vhost",)):
        fields.report.problem(path, what)
    return declaration


def _admin(fields: CommandFields) -> str:
    return fields.name("channel", "admin")


READERS: dict[str, Reader] = {
    "get": lambda fields: commands.Get(
        queue=fields.name("queue"),
        count=fields.whole("count", 1, 0, MAX_COUNT),
        label=fields.optional_name("as"),
        auto_ack=fields.flag("auto_ack", default=False),
        channel=fields.name("channel", "c0"),
        lease_ms=fields.optional_whole("lease_ms", 1),
        reply_id=fields.reply_id(),
    ),
    "consume": lambda fields: commands.Consume(
        queue=fields.name("queue"),
        label=fields.name("as"),
        prefetch=fields.whole("prefetch", 0, 0, 65535),
        auto_ack=fields.flag("auto_ack", default=False),
        channel=fields.name("channel", "c0"),
        lease_ms=fields.optional_whole("lease_ms", 1),
        arguments=fields.table("arguments"),
        reply_id=fields.reply_id(),
    ),
    "cancel": lambda fields: commands.Cancel(
        label=fields.name("as"), channel=fields.optional_name("channel"), reply_id=fields.reply_id()
    ),
    "ack": lambda fields: commands.Ack(
        refs=fields.refs(),
        multiple=fields.flag("multiple", default=False),
        channel=fields.optional_name("channel"),
        reply_id=fields.reply_id(),
    ),
    "reject": lambda fields: commands.Reject(
        refs=fields.refs(),
        requeue=fields.flag("requeue", default=False),
        channel=fields.optional_name("channel"),
        reply_id=fields.reply_id(),
    ),
    "nack": lambda fields: commands.Nack(
        refs=fields.refs(),
        requeue=fields.flag("requeue", default=False),
        multiple=fields.flag("multiple", default=False),
        channel=fields.optional_name("channel"),
        reply_id=fields.reply_id(),
    ),
    "recover": lambda fields: commands.Recover(
        channel=fields.name("channel", "c0"), reply_id=fields.reply_id()
    ),
    "open_channel": lambda fields: commands.OpenChannel(
        channel=fields.name("channel"),
        lease_ms=fields.optional_whole("lease_ms", 1),
        reply_id=fields.reply_id(),
    ),
    "renew": lambda fields: commands.Renew(
        channel=fields.name("channel"), reply_id=fields.reply_id()
    ),
    "close_channel": lambda fields: commands.CloseChannel(
        channel=fields.name("channel", "c0"), reply_id=fields.reply_id()
    ),
    "depth": lambda fields: commands.Depth(
        queue=fields.name("queue"), channel=_admin(fields), reply_id=fields.reply_id()
    ),
    "purge": lambda fields: commands.Purge(
        queue=fields.name("queue"), channel=_admin(fields), reply_id=fields.reply_id()
    ),
    "delete_queue": lambda fields: commands.DeleteQueue(
        queue=fields.name("queue"),
        if_unused=fields.flag("if_unused", default=False),
        if_empty=fields.flag("if_empty", default=False),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    ),
    "delete_exchange": lambda fields: commands.DeleteExchange(
        exchange=fields.name("exchange"),
        if_unused=fields.flag("if_unused", default=False),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    ),
    "declare_queue": lambda fields: commands.DeclareQueue(
        queue=_declaration(fields, "queue", read_queue),
        passive=fields.flag("passive", default=False),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    ),
    "declare_exchange": lambda fields: commands.DeclareExchange(
        exchange=_declaration(fields, "exchange", read_exchange),
        passive=fields.flag("passive", default=False),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    ),
    "bind": lambda fields: commands.Bind(
        binding=_declaration(fields, "binding", read_binding),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    ),
    "unbind": lambda fields: commands.Unbind(
        binding=_declaration(fields, "binding", read_binding),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    ),
    "set_policy": lambda fields: commands.SetPolicy(
        policy=_declaration(fields, "policy", read_policy),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    ),
    "set_operator_policy": lambda fields: commands.SetOperatorPolicy(
        policy=_declaration(fields, "policy", read_operator_policy),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    ),
    "clear_policy": lambda fields: commands.ClearPolicy(
        name=fields.name("name"), channel=_admin(fields), reply_id=fields.reply_id()
    ),
    "clear_operator_policy": lambda fields: commands.ClearOperatorPolicy(
        name=fields.name("name"), channel=_admin(fields), reply_id=fields.reply_id()
    ),
    "clear_permissions": lambda fields: commands.ClearPermissions(
        user=fields.name("user"), channel=_admin(fields), reply_id=fields.reply_id()
    ),
    "import_definitions": lambda fields: commands.ImportDefinitions(
        definitions=read_definitions(fields),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    ),
    "export_definitions": lambda fields: commands.ExportDefinitions(
        first=fields.whole("first", 0, 0), channel=_admin(fields), reply_id=fields.reply_id()
    ),
    "tick": lambda fields: commands.Tick(reply_id=fields.reply_id()),
}
"""The reader of each command, by its op."""


def _set_permissions(fields: CommandFields) -> Command:
    permission = read_permission(fields)
    return commands.SetPermissions(
        user=permission.user,
        configure=permission.configure,
        write=permission.write,
        read=permission.read,
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    )


READERS["set_permissions"] = _set_permissions


def _check(fields: CommandFields) -> Command:
    value = fields.value("steps")
    if not isinstance(value, list):
        wrong = "is missing" if value is None else f"expected an array, got {json_type(value)}"
        fields.report.problem(fields.at("steps"), wrong)
        value = []
    steps = [
        _checked(CommandFields(item, f"{fields.at('steps')}[{index}]", fields.report))
        for index, item in enumerate(value)
    ]
    return commands.Check(
        steps=tuple(step for step in steps if step is not None),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    )


def _checked(fields: CommandFields) -> CheckedPublish | Settlement | None:
    """Read a step of a check: the checked attributes of a publish, or a settlement."""
    op = fields.choice("op", ("publish", "ack", "reject", "nack"))
    step: CheckedPublish | Settlement | None = None
    if op == "publish":
        step = CheckedPublish(
            exchange=fields.name("exchange", ""),
            expiration=fields.optional_text("expiration"),
            headers=fields.table("headers"),
        )
    elif fields.sound:
        settlement = READERS[op](fields)
        assert isinstance(settlement, Settlement)
        step = settlement
    for path, what in fields.unknown():
        fields.report.problem(path, what)
    return step


READERS["check"] = _check


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
