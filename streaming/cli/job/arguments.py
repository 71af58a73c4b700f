"""`--argument NAME=VALUE`: the arguments of queues, exchanges and bindings, with AMQP's types."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
import typer

from topology.suggestions import did_you_mean
from topology.values import Table, from_json

Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--argument",
        "-a",
        metavar="NAME=VALUE",
        help="An argument; repeat the option for several. VALUE is JSON: 60000 is a number, true a "
        "boolean, '\"60000\"' a string. Anything that is not JSON is a string.",
    ),
]


def parse_arguments(given: list[str] | None, known: Iterable[str] = ()) -> Table:
    """Read `NAME=VALUE` options as an AMQP table.

    Args:
        known: names that RabbitMQ knows. Others are allowed, unless they look misspelt.

    Raises:
        typer.BadParameter: an option has no `=`, a value has no AMQP type, or a name is misspelt.
    """
    table: Table = {}
    for option in given or ():
        name, equals, text = option.partition("=")
        if not name or not equals:
            what = f"expected NAME=VALUE, such as x-message-ttl=60000, got {option!r}"
            raise typer.BadParameter(what, param_hint="--argument")
        suggestion = "" if name in (names := list(known)) else did_you_mean(name, names)
        if suggestion:
            raise typer.BadParameter(f"unknown name {name!r}{suggestion}", param_hint="--argument")
        if name in table:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint="--argument")
        try:
            table[name] = from_json(_document(text))
        except ValueError as error:
            raise typer.BadParameter(f"{name}: {error}", param_hint="--argument") from None
    return table


def _document(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if text.startswith(("{", "[", '"')):
            raise ValueError(f"is not valid JSON: {error}") from None
        return text
