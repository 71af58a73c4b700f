"""`dlx publish`: messages into a running job."""

import sys
from typing import Annotated, Any

import typer

from streaming.cli.connection_options import (
    DEFAULT_CONFIG,
    DEFAULT_TIMEOUT_S,
    DEFAULT_USER,
    DEFAULT_VHOST,
    ConfigFile,
    Timeout,
    User,
    Vhost,
    connected,
)
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.terminal import printable
from streaming.cli.topology import parse_headers


def publish(
    body: Annotated[
        str | None, typer.Argument(metavar="[BODY]", help="Default: what comes on stdin.")
    ] = None,
    *,
    exchange: Annotated[
        str, typer.Option("--exchange", "-e", help="Default: the default exchange.")
    ] = "",
    routing_key: Annotated[str, typer.Option("--routing-key", "-k")] = "",
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="NAME=VALUE", help="An AMQP property, such as expiration=5000."
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", metavar="NAME=VALUE", help="A header. The value is JSON, or else text."
        ),
    ] = None,
    mandatory: Annotated[
        bool, typer.Option("--mandatory", help="Fail if it reaches no queue.")
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line of stdin is a message.")
    ] = False,
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    vhost: Vhost = DEFAULT_VHOST,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Publish a message and wait until the broker has confirmed it.

    While flow control holds publishers back it says so, and gives up after --timeout. Exit status:
    0 if all were confirmed, 1 if one was returned, refused, not confirmed or not sent.
    """
    from streaming.client import ClientError, FlowStoppedError, NoAnswerError

    if lines and body is not None:
        raise typer.BadParameter("reads stdin: leave BODY out", param_hint="--lines")
    bodies = _lines() if lines else [sys.stdin.buffer.read() if body is None else body.encode()]
    amqp_properties = parse_properties(properties or [])
    headers = parse_headers(header) if header else None
    failures = unsent = 0
    with connected(config, user, vhost, timeout) as connection:
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
            place = f"line {len(confirms) + 1}, and what follows it: " if lines else ""
            print(printable(f"{place}{error}"), file=sys.stderr)
        for confirm in confirms:
            try:
                confirm.result()
            except ClientError as error:
                failures += 1
                print(printable(str(error)), file=sys.stderr)
    print(f"{len(confirms) - failures} confirmed")
    return EXIT_FINDINGS if failures or unsent else EXIT_OK


def _lines() -> Any:
    """The lines of stdin, as they come."""
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n")


def parse_properties(options: list[str]) -> dict[str, Any]:
    """The properties that `NAME=VALUE` options give; `priority` and its like are numbers.

    Raises:
        typer.BadParameter: an option has no `=`, or a number is none.
    """
    from streaming.protocol.properties import WHOLE_PROPERTIES

    found: dict[str, Any] = {}
    for option in options:
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
