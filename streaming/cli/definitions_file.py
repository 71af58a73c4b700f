"""The FILE argument of commands that examine a topology."""

from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from topology.declarations import Definitions
from topology.definitions.load import LoadedDefinitions, load_definitions
from topology.errors import InvalidTopologyError, Problem
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


class ChosenVhost(NamedTuple):
    """One vhost of a file."""

    name: str
    definitions: Definitions


def load(file: Path, compat: Compat = "4.0") -> LoadedDefinitions:
    """Read all vhosts of a file.

    Raises:
        InvalidTopologyError: the file is not valid; carries every problem.
    """
    return load_definitions(_definitions_in(file.read_bytes()), compat=compat)


def _definitions_in(text: bytes) -> object:
    """The decoded definitions of a scenario; any other text as it is."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    if isinstance(document, dict) and "steps" in document and "definitions" in document:
        return document["definitions"]
    return text


def choose_vhost(loaded: LoadedDefinitions, name: str | None) -> ChosenVhost:
    """Choose the named vhost, or the only one.

    Raises:
        InvalidTopologyError: no vhost has that name, or none was named and there are several.
    """
    if name is None and len(loaded.vhosts) == 1:
        (name,) = loaded.vhosts
    if name is None:
        names = ", ".join(repr(vhost) for vhost in loaded.vhosts)
        raise InvalidTopologyError(
            [Problem("--vhost", f"the file has several vhosts, choose one: {names}")]
        )
    if name not in loaded.vhosts:
        hint = did_you_mean(name, loaded.vhosts)
        raise InvalidTopologyError([Problem("--vhost", f"the file has no vhost {name!r}{hint}")])
    return ChosenVhost(name, loaded.vhosts[name])
