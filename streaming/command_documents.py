"""Commands as JSON objects: the steps of a scenario file, the values of the command topic.

`{"op": "get", "queue": "work", "count": 2, "as": "first", "channel": "worker"}`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streaming.broker import commands
from streaming.broker.commands import Command
from topology.documents import (
    parse_operator_policy,
    read_binding,
    read_exchange,
    read_permission,
    read_policy,
    read_queue,
)
from topology.errors import InvalidTopologyError, Problem
from topology.fields import Fields, Report
from topology.names import too_long
from topology.suggestions import did_you_mean
from topology.values import json_type

MAX_COUNT = 1_000_000
"""The most single gets of one command."""

Reader = Callable[["CommandFields"], Command]


class CommandFields(Fields):
    """The members of one command."""

    def whole(self, name: str, default: int, least: int, most: int = 1 << 53) -> int:
        """A whole number within bounds."""
        value = self.integer(name, default)
        if not least <= value <= most:
            self._problem(name, f"must be from {least} to {most}, not {value}")
            return default
        return value

    def optional_whole(self, name: str, least: int) -> int | None:
        """A whole number, or None if it is missing."""
        return None if self.value(name) is None else self.whole(name, least, least)

    def optional_text(self, name: str) -> str | None:
        """A string, or None if it is missing."""
        return None if self.value(name) is None else self.text(name)

    def name(self, name: str, default: str | None = None) -> str:
        """A string that AMQP could carry as a name; required if there is no default."""
        value = self.text(name, default)
        fault = too_long(value)
        if fault is not None:
            self._problem(name, f"a name {fault}")
        return value

    def optional_name(self, name: str) -> str | None:
        """A name, or None if it is missing."""
        return None if self.value(name) is None else self.name(name)

    def refs(self) -> tuple[str, ...]:
        """The deliveries that a settlement names."""
        value = self.value("refs")
        if not isinstance(value, list) or not all(isinstance(ref, str) for ref in value):
            wrong = "is missing" if value is None else "expected an array of strings"
            self._problem("refs", wrong)
            return ()
        return tuple(value)

    def inner(self, name: str) -> Fields:
        """An object inside this one."""
        value = self.value(name)
        if value is None:
            self._problem(name, "is missing")
            value = {}
            return Fields(value, self.at(name), Report())
        return Fields(value, self.at(name), self.report)

    def reply_id(self) -> str | None:
        """The asker's mark."""
        return self.optional_text("reply_id")


def _declaration(fields: CommandFields, name: str, read: Callable[[Fields], Any]) -> Any:
    inner = fields.inner(name)
    declaration = read(inner)
    for path, what in inner.unknown(also_known=("vhost",)):
        fields.report.problem(path, what)
    return declaration


def _policy(fields: CommandFields) -> Any:
    return _declaration(fields, "policy", read_policy)


def _operator_policy(fields: CommandFields) -> Any:
    document = fields.value("policy")
    try:
        return parse_operator_policy(document, fields.at("policy"))
    except InvalidTopologyError as error:
        fields.report.problems.extend(error.problems)
        return None


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
        policy=_policy(fields), channel=_admin(fields), reply_id=fields.reply_id()
    ),
    "set_operator_policy": lambda fields: commands.SetOperatorPolicy(
        policy=_operator_policy(fields), channel=_admin(fields), reply_id=fields.reply_id()
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
        definitions=_object(fields, "definitions"),
        channel=_admin(fields),
        reply_id=fields.reply_id(),
    ),
    "export_definitions": lambda fields: commands.ExportDefinitions(
        first=fields.whole("first", 0, 0), channel=_admin(fields), reply_id=fields.reply_id()
    ),
    "tick": lambda fields: commands.Tick(reply_id=fields.reply_id()),
}
"""Command name -> how its members are read."""


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


def _object(fields: CommandFields, name: str) -> dict[str, Any]:
    value = fields.value(name)
    if isinstance(value, dict):
        return value
    fields.report.problem(fields.at(name), f"expected an object, got {json_type(value)}")
    return {}


def read_command(
    document: object, where: str, report: Report, also_known: tuple[str, ...] = ()
) -> Command | None:
    """The command that an object describes; None, with problems in the report, if it is malformed.

    Args:
        where: begins the paths of problems.
        also_known: members that somebody else reads.
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
    """As `read_command`.

    Raises:
        InvalidTopologyError: the object is no command; lists every problem.
    """
    report = Report()
    command = read_command(document, where, report)
    if command is None:
        raise InvalidTopologyError(report.problems or [Problem(where, "is not a command")])
    return command
