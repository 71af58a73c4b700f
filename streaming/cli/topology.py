"""`dlx check`, `dlx route`, `dlx diagram`: questions about a definitions file, answered at once."""

import sys
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from streaming.cli.definitions_file import DefinitionsFile, VhostName, choose_vhost, load
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.output import printable
from topology.errors import InvalidTopologyError, Problem
from topology.routing.router import Hop
from topology.suggestions import did_you_mean
from topology.values import AmqpValue, Compat, Table, from_json, table_to_json


class CompatChoice(StrEnum):
    """Whose behaviour counts where RabbitMQ's versions differ."""

    RABBITMQ_4_0 = "4.0"
    RABBITMQ_3_10 = "3.10"

    @property
    def compat(self) -> Compat:
        """The choice as the pure packages know it."""
        return "4.0" if self is CompatChoice.RABBITMQ_4_0 else "3.10"


CompatOption = Annotated[
    CompatChoice, typer.Option("--compat", help="Whose behaviour counts where versions differ.")
]


class DiagramFormat(StrEnum):
    """The languages a picture can be written in."""

    MERMAID = "mermaid"
    DOT = "dot"


def check(
    file: DefinitionsFile,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on any lint.")] = False,
    compat: CompatOption = CompatChoice.RABBITMQ_4_0,
) -> int:
    """Validate a definitions file and lint it.

    Lint is what RabbitMQ accepts and is probably a mistake: dead letters that go nowhere or in
    circles, queues that nothing reaches, policies that do nothing.

    Exit status: 0 if it is valid, 1 if it is valid with lint and --strict was given, 2 if it is not
    valid; then stderr has one `path: problem` a line.
    """
    from topology.analysis.lint import lint

    loaded = load(file, compat.compat)
    for left_out in loaded.left_out:
        print(f"left out: {left_out}")
    count = 0
    for vhost, definitions in loaded.vhosts.items():
        place = f"vhost {vhost!r}: " if len(loaded.vhosts) > 1 else ""
        for problem in lint(definitions, compat.compat):
            count += 1
            print(f"lint: {place}{problem}")
    print(f"{file}: valid, {count or 'no'} lint")
    return EXIT_FINDINGS if strict and count else EXIT_OK


def route(
    file: DefinitionsFile,
    exchange: Annotated[str, typer.Argument(metavar="EXCHANGE", help="'' is the default one.")],
    routing_key: Annotated[str, typer.Argument(metavar="KEY", help="The routing key.")],
    *,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="NAME=VALUE",
            help="A header; may be repeated. The value is JSON, or else text.",
        ),
    ] = None,
    vhost: VhostName = None,
    compat: CompatOption = CompatChoice.RABBITMQ_4_0,
) -> int:
    """Show which queues a message reaches, and how.

    Each line is one step: through a binding, or from an exchange to its alternate exchange. The
    headers CC and BCC, arrays of strings, hold further routing keys.
    """
    from topology.vhost import Vhost

    headers = parse_headers(header or [])
    keys = (routing_key, *further_keys(headers, "CC"), *further_keys(headers, "BCC"))
    headers.pop("BCC", None)
    chosen = choose_vhost(load(file, compat.compat), vhost)
    router = Vhost.from_definitions(chosen.definitions, compat.compat).router
    if exchange not in router.exchanges:
        hint = did_you_mean(exchange, router.exchanges)
        what = f"no exchange is named {exchange!r} in vhost {chosen.name!r}{hint}"
        raise InvalidTopologyError([Problem("EXCHANGE", what)])
    if router.exchanges[exchange].internal:
        print(
            f"note: exchange {exchange!r} is internal, no client may publish to it", file=sys.stderr
        )
    for hop in router.explain(exchange, keys, headers):
        print(describe_hop(hop))
    queues = router.route(exchange, keys, headers).queues
    print(
        f"queues: {', '.join(map(printable, queues))}"
        if queues
        else "no queue: dropped, or returned if mandatory"
    )
    return EXIT_OK


def diagram(
    file: DefinitionsFile,
    *,
    picture_format: Annotated[
        DiagramFormat, typer.Option("--format", help="The language of the picture.")
    ] = DiagramFormat.MERMAID,
    vhost: VhostName = None,
    compat: CompatOption = CompatChoice.RABBITMQ_4_0,
) -> int:
    """Draw a topology, dead letters included.

    Solid lines are bindings, dotted ones the ways of dead letters, thick ones lead to alternate
    exchanges.
    """
    from topology.analysis.diagram import dot, draw, mermaid

    chosen = choose_vhost(load(file, compat.compat), vhost)
    picture = draw(chosen.definitions, compat.compat)
    print(mermaid(picture) if picture_format is DiagramFormat.MERMAID else dot(picture), end="")
    return EXIT_OK


def parse_headers(options: list[str]) -> Table:
    """The headers that `NAME=VALUE` options give.

    A value that is JSON has the type JSON gives it, so `count=1` is an integer and `count='"1"'` a
    string; any other value is a string.

    Raises:
        typer.BadParameter: an option has no `=`, or its value stands for nothing AMQP knows.
    """
    headers: Table = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"expected NAME=VALUE, got {option!r}", param_hint="--header")
        try:
            headers[name] = _value(text)
        except ValueError as error:
            raise typer.BadParameter(f"{name}: {error}", param_hint="--header") from None
    return headers


def further_keys(headers: Table, name: str) -> list[str]:
    """The routing keys that a CC or BCC header adds; entries that are no strings add none (R-CC-5).

    Raises:
        typer.BadParameter: the header is no array (R-CC-4).
    """
    entries = headers.get(name, [])
    if not isinstance(entries, list):
        what = f"{name} must be an array, as in {name}='[\"key\"]'"
        raise typer.BadParameter(what, param_hint="--header")
    return [entry for entry in entries if isinstance(entry, str)]


def _value(text: str) -> AmqpValue:
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return from_json(document)


def describe_hop(hop: Hop) -> str:
    """One step as a line: `exchange 'orders' -> queue 'audit' by binding 'order.#'`."""
    source = f"exchange {hop.exchange!r}" if hop.exchange else "default exchange"
    match hop.via:
        case "binding":
            assert hop.binding is not None
            by = f"binding {hop.binding.routing_key!r}"
            if hop.binding.arguments:
                by += f" {msgspec.json.encode(table_to_json(hop.binding.arguments)).decode()}"
        case "default exchange":
            by = "its name"
        case _:
            by = hop.via
    again = " (reached before)" if hop.again else ""
    return f"{source} -> {hop.destination_type} {hop.destination!r} by {by}{again}"
