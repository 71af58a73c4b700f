"""How a group of commands shows its help, and how a wrong command line is reported.

The help lists the commands by section, each with its whole summary. A wrong command line is one
line: the command, what is wrong with it, and where its help is.
"""

from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from topology.suggestions import did_you_mean

PROGRAM: Final = "dlx"

ROOT: Final = Path(__file__).resolve().parents[2]
"""The checkout that this program runs from, or the folder that its packages are installed in."""

COMPLETION_VARIABLE: Final = "_DLX_COMPLETE"
"""A shell that completes a line sets it."""

MAX_SUMMARY_CHARACTERS: Final = 1_000
"""Longer than any summary: none is cut off."""


MAX_WHOLE: Final = 10**15
"""The largest whole number of an option that has no limit of its own."""

_ROUTING_KEY: Final = "--routing-key"
_TYPES: Final = {
    "int range": "a whole number",
    "float range": "a number",
    "int": "a whole number",
    "float": "a number",
}
"""A type as typer calls it -> what to call it."""


class CommandGroup(TyperGroup):
    """A group whose help has one section per panel, in the order of its commands."""

    order: ClassVar[tuple[str, ...]] = ()
    """The order of the commands, if it is not that of their registration."""

    unlisted: ClassVar[frozenset[str]] = frozenset()
    """The sections that the help leaves out."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        names = super().list_commands(ctx)
        return sorted(names, key=self.order.index) if self.order else names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command whose whole numbers have a limit."""
        command: Any = super().get_command(ctx, cmd_name)
        for one in () if command is None else command.params:
            if one.type.name == "int range" and one.type.max is None:
                one.type.convert = partial(_limited, type(one.type).convert, one.type)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first argument names, or fail with the most similar one."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"no such command: {name!r}{did_you_mean(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if not command.hidden:
                panel = command.rich_help_panel
                title = panel if isinstance(panel, str) else "Commands"
                summary = command.get_short_help_str(MAX_SUMMARY_CHARACTERS)
                sections.setdefault(title, []).append((name, summary))
        for title, rows in sections.items():
            if title in self.unlisted:
                continue
            with formatter.section(title):
                formatter.write_dl(rows)


def command_group(name: str, what: str, *examples: str) -> typer.Typer:
    """Return an empty group; its help says what it does, and ends with examples."""
    return typer.Typer(
        name=name,
        help=what,
        epilog="\n\n".join(("Examples:", *examples)),
        no_args_is_help=True,
        rich_markup_mode=None,
    )


def _limited(convert: Any, kind: Any, value: Any, param: Any, ctx: Any) -> Any:
    """Convert an argument, and refuse a number that no program counts to."""
    number = convert(kind, value, param, ctx)
    if number > MAX_WHOLE:
        kind.fail(f"{number} is not in the range {kind.min}<=x<={MAX_WHOLE}", param, ctx)
    return number


def usage_line(error: TyperException, command: str) -> str:
    """Return a wrong use of a command as one line; the help if a command was expected.

    Args:
        error: what typer raised.
        command: the first word after the program's name, for an error that does not say where.
    """
    problem: Any = error
    if type(error).__name__ == "NoArgsIsHelpError":
        return str(problem.format_message())
    text = " ".join(problem.format_message().split()).rstrip(".")
    if getattr(problem, "possibilities", None):
        text = f"{problem.message}{did_you_mean(problem.option_name, problem.possibilities)}"
    for typed, words in _TYPES.items():
        text = text.replace(f"is not a valid {typed}", f"is not {words}")
    context = getattr(problem, "ctx", None)
    if text.startswith("Got unexpected extra argument") and _has_option(context, _ROUTING_KEY):
        text += f"; a routing key is given with {_ROUTING_KEY}"
    path = f"{PROGRAM} {command}" if context is None else context.command_path
    return f"{path}: {text[:1].lower()}{text[1:]}; see `{path} --help`"


def _has_option(context: Any, name: str) -> bool:
    return context is not None and any(name in one.opts for one in context.command.params)
