"""`dlx check`, `dlx route` and `dlx diagram`: examine a definitions file, without a broker."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INVALID, EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, output
from streaming.cli.output import print_json, printable
from streaming.cli.topology.definitions_file import DefinitionsFile, VhostName, choose, examine_file
from topology.errors import InvalidTopologyError, Problem
from topology.findings import KINDS, Severity
from topology.routing.router import Hop
from topology.suggestions import did_you_mean
from topology.values import AmqpValue, Compat, Table, from_json, table_to_json

CompatOption = Annotated[Compat, typer.Option("--compat", help="RabbitMQ version to behave like.")]


class Finding(msgspec.Struct):
    """One line of `dlx check --json`."""

    file: str
    vhost: str | None
    severity: Severity
    code: str
    path: str
    message: str
    remedy: str


_HOPS: Final = Listing(
    tuple(
        Column(name)
        for name in (
            *("exchange", "destination_type", "destination", "via", "routing_key"),
            *("arguments", "again", "skipped"),
        )
    )
)


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            exists=True,
            dir_okay=False,
            help="RabbitMQ definitions files, or scenario files for their definitions.",
        ),
    ],
    *,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with status 1 if anything is skipped or warned about."),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print each finding as one line of JSON: file, vhost, severity (error, skipped or "
            "warning), code, path, message, remedy.",
        ),
    ] = False,
    compat: CompatOption = "4.0",
) -> int:
    """Validate definitions files, and warn about probable mistakes.

    Everything is reported at once: what is not valid, what RabbitMQ has and dlx-stream skips, and
    what is valid although it is probably a mistake, such as dead letters that go nowhere or in
    cycles, unreachable queues, policies without effect.

    Exit status: 0 if all files are valid; 1 if something is skipped or warned about and --strict
    was given; 2 if a file is not valid.
    """
    counts: Counter[Severity] = Counter()
    for file in files:
        here: Counter[Severity] = Counter()
        for finding, text in _findings(file, compat):
            here[finding.severity] += 1
            if as_json:
                print_json(finding)
            else:
                stream = sys.stderr if finding.severity == "error" else sys.stdout
                print(printable(f"{file}: {text}"), file=stream)
        if not as_json and not here["error"]:
            print(printable(f"{file}: valid, {_summary(here)}"))
        counts += here
    if counts["error"]:
        return EXIT_INVALID
    return EXIT_FINDINGS if strict and counts else EXIT_OK


def _findings(file: Path, compat: Compat) -> Iterator[tuple[Finding, str]]:
    """Everything found in a file, each with its words for people."""
    from topology.analysis.lint import lint

    found = examine_file(file, compat)
    vhosts = found.loaded.vhosts

    def finding(problem: Problem, path: str, message: str, vhost: str | None) -> Finding:
        kind = KINDS[problem.code]
        return Finding(str(file), vhost, kind.severity, problem.code, path, message, kind.remedy)

    for problem in (*found.problems, *found.loaded.skipped):
        each = finding(problem, problem.where, problem.what, problem.vhost)
        mark = "" if each.severity == "error" else "skipped: "
        yield each, f"{mark}{problem}; {each.remedy}"
    for vhost, definitions in vhosts.items():
        place = f"vhost {vhost!r}: " if len(vhosts) > 1 else ""
        for problem in lint(definitions, compat, found.loaded.skipped_in(vhost)):
            path = found.paths[vhost].get(problem.where, problem.where)
            each = finding(problem, path, str(problem), vhost)
            yield each, f"warning: {place}{problem}; {each.remedy}"


def _summary(counts: Mapping[Severity, int]) -> str:
    skipped, warnings = counts.get("skipped", 0), counts.get("warning", 0)
    words = [f"{skipped} skipped"] if skipped else []
    return ", ".join([*words, f"{warnings or 'no'} {'warning' if warnings == 1 else 'warnings'}"])


@output
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
    view: OutputOptions,
) -> int:
    """Show which queues a message reaches, and by which bindings.

    Each line is one step: along a binding, or from an exchange to its alternate exchange. The
    headers CC and BCC, arrays of strings, add routing keys. Steps to what RabbitMQ has and
    dlx-stream skips, such as streams, are marked.
    """
    from topology.vhost import Vhost

    headers = parse_headers(header or [])
    keys = (routing_key, *additional_keys(headers, "CC"), *additional_keys(headers, "BCC"))
    headers.pop("BCC", None)
    chosen = choose(file, vhost, compat)
    skipped = chosen.skipped.reasons
    whole = chosen.skipped.beside(chosen.definitions, follow=False)
    router = Vhost.from_definitions(whole, compat).router
    if exchange not in router.exchanges:
        hint = did_you_mean(exchange, router.exchanges)
        what = f"no exchange is named {exchange!r} in vhost {chosen.name!r} of {file}{hint}"
        raise InvalidTopologyError([Problem("EXCHANGE", what)])
    if ("exchange", exchange) in skipped:
        what = f"exchange {exchange!r} of {file} is skipped: {skipped['exchange', exchange]}"
        raise InvalidTopologyError([Problem("EXCHANGE", what)])
    if router.exchanges[exchange].internal:
        print(
            f"note: exchange {exchange!r} is internal: clients may not publish to it",
            file=sys.stderr,
        )
    hops = router.explain(exchange, keys, headers)
    if view.output != "table":
        rows = [_hop_row(hop, skipped.get((hop.destination_type, hop.destination))) for hop in hops]
        print_listing(_HOPS, rows, view)
        return EXIT_OK
    for hop in hops:
        why = skipped.get((hop.destination_type, hop.destination))
        print(describe_hop(hop) + ("" if why is None else printable(f" (skipped: {why})")))
    reached = router.route(exchange, keys, headers).queues
    queues = [queue for queue in reached if ("queue", queue) not in skipped]
    print(
        f"queues: {', '.join(map(printable, queues))}"
        if queues
        else "no queue: dropped, or returned if mandatory"
    )
    only_there = [queue for queue in reached if ("queue", queue) in skipped]
    if only_there:
        print(f"skipped, and reached in RabbitMQ: {', '.join(map(printable, only_there))}")
    return EXIT_OK


def _hop_row(hop: Hop, skipped: str | None) -> dict[str, object]:
    binding = hop.binding
    return {
        "exchange": hop.exchange,
        "destination_type": hop.destination_type,
        "destination": hop.destination,
        "via": hop.via,
        "routing_key": None if binding is None else binding.routing_key,
        "arguments": {} if binding is None else table_to_json(binding.arguments),
        "again": hop.again,
        "skipped": skipped,
    }


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
    its own alternate exchange. Thick lines lead to the alternate exchange of an exchange. What
    RabbitMQ has and dlx-stream skips, such as streams, is dashed and grey.
    """
    from topology.analysis.diagram import dot, draw, mermaid

    chosen = choose(file, vhost, compat)
    picture = draw(chosen.definitions, compat, chosen.skipped)
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
