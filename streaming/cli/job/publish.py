"""`dlx publish`: publishes messages to a running job."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from streaming.cli.options import JobOptions, job_options
from streaming.cli.output import printable
from streaming.cli.refusals import live_names, missing_name
from streaming.cli.topology.commands import parse_headers

if TYPE_CHECKING:
    from streaming.client import Connection, Properties

MAX_DIGITS = 19
"""Python refuses to read thousands of digits."""


@job_options
def publish(
    body: Annotated[str | None, typer.Argument(metavar="[BODY]", help="Default: stdin.")] = None,
    *,
    exchange: Annotated[
        str, typer.Option("--exchange", "-e", help="Default: the default exchange.")
    ] = "",
    routing_key: Annotated[
        str,
        typer.Option("--routing-key", "-k", help="For the default exchange, the name of a queue."),
    ] = "",
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="NAME=VALUE", help="An AMQP property, such as expiration=5000."
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header. The value is JSON or text."),
    ] = None,
    mandatory: Annotated[
        bool, typer.Option("--mandatory", help="Fail if the message reaches no queue.")
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Publish one message per line of stdin.")
    ] = False,
    job: JobOptions,
) -> int:
    """Publish a message and wait for the broker's confirm.

    Messages are published as mandatory, so that the broker says which of them no queue took. While
    flow control stops publishers, the command says so and gives up after --timeout.

    Exit status: 0 if every message is confirmed and routed, 1 if one is refused, unconfirmed or not
    sent, 3 if all are confirmed but no queue took one of them (1 with --mandatory).
    """
    from streaming.cli.job.publish_outcome import PublishOutcome
    from streaming.client import FlowStoppedError, NoAnswerError

    if lines and body is not None:
        raise typer.BadParameter("reads stdin: omit BODY", param_hint="--lines")
    amqp_properties = cast("Properties", parse_properties(properties or []))
    headers = parse_headers(header) if header else None
    if not exchange and not routing_key and not (headers or {}).keys() & {"CC", "BCC"}:
        what = "the default exchange needs the name of a queue; or choose another with --exchange"
        raise typer.BadParameter(what, param_hint="--routing-key")
    with job.connect() as connection:
        publisher = connection.publisher(blocked_timeout_s=job.timeout_s)
        outcome = PublishOutcome(mandatory=mandatory)
        confirms = []
        try:
            for one in read_bodies(body, lines=lines):
                confirms.append(  # noqa: PERF401 (kept if one fails)
                    publisher.publish(
                        exchange, routing_key, one, amqp_properties, headers, mandatory=True
                    )
                )
        except (FlowStoppedError, NoAnswerError) as error:
            place = f"line {len(confirms) + 1} and all that follow: " if lines else ""
            outcome.failed(error, place)
        for confirm in confirms:
            outcome.add(confirm)
        outcome.raise_common()
        for text in outcome.problems():
            print(printable(text), file=sys.stderr)
        if outcome.unrouted:
            print(printable(_not_routed(connection, exchange, routing_key)), file=sys.stderr)
    print(outcome)
    return outcome.exit_code


def _not_routed(connection: "Connection", exchange: str, routing_key: str) -> str:
    """Say why no queue took a message, and what to do."""
    if exchange:
        return (
            f"no queue took it: exchange {exchange!r} has no binding that matches routing key "
            f"{routing_key!r}; `dlx bindings list` shows the bindings, `dlx bindings declare` adds "
            "one"
        )
    hint = missing_name(live_names(connection), "queue", routing_key)
    return (
        "no queue took it: the default exchange routes to the queue that the key names, and there "
        f"is no queue {routing_key!r}{hint}"
    )


def read_bodies(body: str | None, *, lines: bool) -> Iterator[bytes]:
    """Yield the bodies to publish; a terminal is told that it is read."""
    if body is not None:
        yield body.encode()
        return
    if sys.stdin.isatty():
        what = "one message per line" if lines else "the body"
        print(f"reading {what} from stdin; end it with Ctrl-D", file=sys.stderr)
    if lines:
        yield from _stdin_lines()
    else:
        yield sys.stdin.buffer.read()


def _stdin_lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n")


def parse_properties(given: list[str]) -> dict[str, Any]:
    """Read `NAME=VALUE` options as AMQP properties; `priority` and the like are numbers.

    Raises:
        typer.BadParameter: an option has no `=`, a name is unknown, or a value is invalid.
    """
    from streaming.protocol.amqp_properties import WHOLE_PROPERTIES, property_fault

    found: dict[str, Any] = {}
    for option in given:
        name, equals, text = option.partition("=")
        if not name or not equals:
            what = f"expected NAME=VALUE, such as expiration=5000, got {option!r}"
            raise typer.BadParameter(what, param_hint="--property")
        name = name.replace("-", "_")
        is_whole = name in WHOLE_PROPERTIES and text.isascii() and text.isdigit()
        value = int(text) if is_whole and len(text) <= MAX_DIGITS else text
        fault = property_fault(name, value)
        if fault is not None:
            raise typer.BadParameter(f"{name}={text}: {fault.words}", param_hint="--property")
        found[name] = value
    return found
