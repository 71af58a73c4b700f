"""`dlx policies`: sets and clears policies of a running job."""

from typing import Annotated, Any

import msgspec
import typer

from streaming.cli import options
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import ConfigFile

app = typer.Typer(
    name="policies",
    help="Set and clear policies of a running job.",
    epilog="Examples:\n\ndlx policies set DLX '^work' '{\"dead-letter-exchange\": \"dlx\"}' "
    "--apply-to queues\n\ndlx policies clear DLX",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME")]
Operator = Annotated[bool, typer.Option("--operator", help="An operator policy.")]


@app.command("set")
def set_(
    name: Name,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="A regular expression for names.")
    ],
    definition: Annotated[str, typer.Argument(metavar="DEFINITION", help="A JSON object.")],
    *,
    priority: Annotated[
        int, typer.Option("--priority", help="The matching policy with the highest one applies.")
    ] = 0,
    apply_to: Annotated[
        str | None,
        typer.Option(
            "--apply-to",
            help="all, queues, exchanges, classic_queues or quorum_queues. Default: all; queues "
            "for operator policies.",
        ),
    ] = None,
    operator: Operator = False,
    config: ConfigFile = None,
    user: options.User = options.DEFAULT_USER,
    vhost: options.Vhost = options.DEFAULT_VHOST,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
) -> int:
    """Create or replace a policy; it takes effect at once."""
    with options.connect(config, user, vhost, timeout) as connection:
        connection.channel().set_policy(
            name,
            pattern,
            _definition(definition),
            priority=priority,
            apply_to=apply_to or ("queues" if operator else "all"),
            operator=operator,
        )
    print(f"policy {name!r} is set in vhost {vhost!r}")
    return EXIT_OK


@app.command()
def clear(
    name: Name,
    *,
    operator: Operator = False,
    config: ConfigFile = None,
    user: options.User = options.DEFAULT_USER,
    vhost: options.Vhost = options.DEFAULT_VHOST,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
) -> int:
    """Remove a policy; its settings stop applying at once."""
    with options.connect(config, user, vhost, timeout) as connection:
        connection.channel().clear_policy(name, operator=operator)
    print(f"policy {name!r} is removed from vhost {vhost!r}")
    return EXIT_OK


def _definition(text: str) -> dict[str, Any]:
    from topology.values import table_from_json

    try:
        return table_from_json(msgspec.json.decode(text))
    except (msgspec.DecodeError, ValueError) as error:
        raise typer.BadParameter(
            f"is not a JSON object: {error}", param_hint="DEFINITION"
        ) from None
