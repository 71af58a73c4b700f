"""The FILE argument of commands that examine a topology, and what they say about its contents."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from streaming.cli.output import printable
from topology.declarations import Definitions
from topology.definitions.load import Examined, LoadedDefinitions, examine
from topology.definitions.supported_objects import SkippedObjects
from topology.errors import InvalidTopologyError, Problem
from topology.findings import KINDS
from topology.suggestions import did_you_mean
from topology.values import Compat

DefinitionsFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="RabbitMQ definitions file, or a scenario file for its definitions.",
    ),
]
VhostName = Annotated[
    str | None,
    typer.Option("--vhost", metavar="NAME", help="Vhost to use; required if the file has several."),
]

MAX_SKIPPED = 10
"""Skipped items that a command names beside its own output; `dlx check` names all."""

_NOT_TOLD = (
    "binding-of-skipped",
    "default-exchange-binding",
    "duplicate",
    "predeclared-exchange",
    "unsupported-parameter",
)
"""Skipped items that change nothing about where messages go, or follow from another one."""


class ChosenVhost(NamedTuple):
    """One vhost of a file."""

    name: str
    definitions: Definitions
    skipped: SkippedObjects


def examine_file(file: Path, compat: Compat = "4.0") -> Examined:
    """Read all vhosts of a file, whatever is wrong with it."""
    return examine(_definitions_in(file.read_bytes()), compat=compat)


def load(file: Path, compat: Compat = "4.0") -> LoadedDefinitions:
    """Read all vhosts of a file.

    Raises:
        InvalidTopologyError: the file is not valid; carries every problem, with the file's name.
    """
    found = examine_file(file, compat)
    refuse(file, found.problems)
    return found.loaded


def refuse(file: Path, problems: Iterable[Problem]) -> None:
    """Raise the problems of a file, if there are any, each with the file's name.

    Raises:
        InvalidTopologyError: there are some.
    """
    named = [
        msgspec.structs.replace(
            each, where=f"{file}: {each.where}", what=f"{each.what}; {KINDS[each.code].remedy}"
        )
        for each in problems
    ]
    if named:
        raise InvalidTopologyError(named)


def choose(file: Path, name: str | None, compat: Compat = "4.0") -> ChosenVhost:
    """Read one vhost of a file: the named one, or the only one. Name what is skipped in it.

    Raises:
        InvalidTopologyError: the file is not valid, no vhost has that name, or none was named and
            there are several.
    """
    loaded = load(file, compat)
    if name is None and len(loaded.vhosts) == 1:
        (name,) = loaded.vhosts
    if name is None:
        names = ", ".join(repr(vhost) for vhost in loaded.vhosts)
        what = f"{file} has several vhosts, choose one: {names}"
        raise InvalidTopologyError([Problem("--vhost", what)])
    if name not in loaded.vhosts:
        hint = did_you_mean(name, loaded.vhosts)
        what = f"{file} has no vhost {name!r}{hint}"
        raise InvalidTopologyError([Problem("--vhost", what)])
    _note_skipped(file, [each for each in loaded.skipped if each.vhost in {None, name}])
    return ChosenVhost(name, loaded.vhosts[name], loaded.skipped_in(name))


def _note_skipped(file: Path, skipped: list[Problem]) -> None:
    """Name on stderr what is skipped and may change where messages go."""
    relevant = [each for each in skipped if each.code not in _NOT_TOLD]
    for problem in relevant[:MAX_SKIPPED]:
        print(printable(f"{file}: skipped: {problem}"), file=sys.stderr)
    if len(relevant) > MAX_SKIPPED:
        more = f"{len(relevant) - MAX_SKIPPED} more; `dlx check {file}` lists them"
        print(printable(f"{file}: skipped: {more}"), file=sys.stderr)


def _definitions_in(text: bytes) -> object:
    """The decoded definitions of a scenario; any other text as it is."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    if isinstance(document, dict) and "steps" in document and "definitions" in document:
        return document["definitions"]
    return text
