"""`dlx publish`: publishes messages to a running job."""

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from streaming.cli import options
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.options import ConfigFile
from streaming.cli.output import printable
from streaming.cli.topology import parse_headers


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
    config: ConfigFile = None,
    user: options.User = options.DEFAULT_USER,
    vhost: options.Vhost = options.DEFAULT_VHOST,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
) -> int:
    """Publish a message and wait for the broker's confirm.

    While flow control stops publishers, the command says so and gives up after --timeout.

    Exit status: 0 if every message is confirmed, 1 if one is returned, refused, unconfirmed or not
    sent.
    """
    from streaming.client import ClientError, FlowStoppedError, NoAnswerError

    if lines and body is not None:
        raise typer.BadParameter("reads stdin: omit BODY", param_hint="--lines")
    bodies: Iterable[bytes]
    if lines:
        bodies = _stdin_lines()
    else:
        bodies = [sys.stdin.buffer.read() if body is None else body.encode()]
    amqp_properties = parse_properties(properties or [])
    headers = parse_headers(header) if header else None
    failures = unsent = 0
    with options.connect(config, user, vhost, timeout) as connection:
        publisher = connection.publisher(blocked_timeout_s=timeout)
        confirms = []
        try:
            for one in bodies:
                confirm = publisher.publish(
                    exchange, routing_key, one, amqp_properties, headers, mandatory=mandatory
                )
                confirms.append(confirm)
        except (FlowStoppedError, NoAnswerError) as error:
            unsent = 1
            place = f"line {len(confirms) + 1} and all that follow: " if lines else ""
            print(printable(f"{place}{error}"), file=sys.stderr)
        for confirm in confirms:
            try:
                confirm.result()
            except ClientError as error:
                failures += 1
                print(printable(str(error)), file=sys.stderr)
    print(f"{len(confirms) - failures} confirmed")
    return EXIT_FINDINGS if failures or unsent else EXIT_OK


def _stdin_lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n")


def parse_properties(given: list[str]) -> dict[str, Any]:
    """Read `NAME=VALUE` options as AMQP properties; `priority` and the like are numbers.

    Raises:
        typer.BadParameter: an option has no `=`, or a number is invalid.
    """
    from streaming.protocol.amqp_properties import WHOLE_PROPERTIES

    found: dict[str, Any] = {}
    for option in given:
        name, equals, text = option.partition("=")
        if not name or not equals:
            raise typer.BadParameter(
                f"expected NAME=VALUE, got {option!r}", param_hint="--property"
            )
        name = name.replace("-", "_")
        if name in WHOLE_PROPERTIES and not text.isdigit():
            raise typer.BadParameter(f"{name}: must be a number", param_hint="--property")
        found[name] = int(text) if name in WHOLE_PROPERTIES else text
    return found
