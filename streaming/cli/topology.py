"""`dlx check`, `dlx route` and `dlx diagram`: examine a definitions file, without a broker."""

import sys
from typing import Annotated, Literal

import msgspec
import typer

from streaming.cli.definitions_file import DefinitionsFile, VhostName, choose_vhost, load
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.output import printable
from topology.errors import InvalidTopologyError, Problem
from topology.routing.router import Hop
from topology.suggestions import did_you_mean
from topology.values import AmqpValue, Compat, Table, from_json, table_to_json

CompatOption = Annotated[Compat, typer.Option("--compat", help="RabbitMQ version to behave like.")]


def check(
    file: DefinitionsFile,
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if there are warnings.")
    ] = False,
    compat: CompatOption = "4.0",
) -> int:
    """Validate a definitions file and warn about probable mistakes.

    Warnings are about what RabbitMQ accepts although it is probably a mistake: dead letters that go
    nowhere or in cycles, unreachable queues, policies without effect.

    Exit status: 0 if the file is valid; 1 if it is valid with warnings and --strict was given; 2 if
    it is not valid. In that case stderr lists one `path: problem` per line.
    """
    from topology.analysis.lint import lint

    loaded = load(file, compat)
    for skipped in loaded.skipped:
        print(f"skipped: {skipped}")
    count = 0
    for vhost, definitions in loaded.vhosts.items():
        place = f"vhost {vhost!r}: " if len(loaded.vhosts) > 1 else ""
        for problem in lint(definitions, compat):
            count += 1
            print(f"warning: {place}{problem}")
    print(f"{file}: valid, {count or 'no'} {'warning' if count == 1 else 'warnings'}")
    return EXIT_FINDINGS if strict and count else EXIT_OK


def route(
    file: DefinitionsFile,
    exchange: Annotated[
        str,
        typer.Argument(
            metavar="EXCHANGE", help="Exchange to publish to; '' is the default exchange."
        ),
    ],
    routing_key: Annotated[str, typer.Argument(metavar="KEY", help="Routing key of the message.")],
    *,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="NAME=VALUE",
            help="Header of the message; repeatable. The value is JSON, or else text.",
        ),
    ] = None,
    vhost: VhostName = None,
    compat: CompatOption = "4.0",
) -> int:
    """Show which queues a message reaches, and by which bindings.

    Each line is one step: along a binding, or from an exchange to its alternate exchange. The
    headers CC and BCC, arrays of strings, add routing keys.
    """
    from topology.vhost import Vhost

    headers = parse_headers(header or [])
    keys = (routing_key, *additional_keys(headers, "CC"), *additional_keys(headers, "BCC"))
    headers.pop("BCC", None)
    chosen = choose_vhost(load(file, compat), vhost)
    router = Vhost.from_definitions(chosen.definitions, compat).router
    if exchange not in router.exchanges:
        hint = did_you_mean(exchange, router.exchanges)
        what = f"no exchange is named {exchange!r} in vhost {chosen.name!r}{hint}"
        raise InvalidTopologyError([Problem("EXCHANGE", what)])
    if router.exchanges[exchange].internal:
        print(
            f"note: exchange {exchange!r} is internal: clients may not publish to it",
            file=sys.stderr,
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
        Literal["mermaid", "dot"], typer.Option("--format", help="Output format.")
    ] = "mermaid",
    vhost: VhostName = None,
    compat: CompatOption = "4.0",
) -> int:
    """Draw a topology, including its dead letters.

    Solid lines are bindings. Dotted lines are dead letters, and messages that leave a queue over
    its own alternate exchange. Thick lines lead to the alternate exchange of an exchange.
    """
    from topology.analysis.diagram import dot, draw, mermaid

    chosen = choose_vhost(load(file, compat), vhost)
    picture = draw(chosen.definitions, compat)
    print(mermaid(picture) if picture_format == "mermaid" else dot(picture), end="")
    return EXIT_OK


def parse_headers(options: list[str]) -> Table:
    """Parse `NAME=VALUE` options as headers.

    A value that is JSON has its JSON type: `count=1` is an integer, `count='"1"'` a string. Any
    other value is a string.

    Raises:
        typer.BadParameter: an option has no `=`, or its value has no AMQP type.
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


def additional_keys(headers: Table, name: str) -> list[str]:
    """The routing keys that a CC or BCC header adds; entries must be strings to count (R-CC-5).

    Raises:
        typer.BadParameter: the header is not an array (R-CC-4).
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
    """Describe one step: `exchange 'orders' -> queue 'audit' by binding 'order.#'`."""
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
