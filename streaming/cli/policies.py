"""`dlx policies`: policies of a running job."""

from typing import Annotated, Any

import msgspec
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
from streaming.cli.exit_codes import EXIT_OK

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
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Which names it is for.")],
    definition: Annotated[str, typer.Argument(metavar="DEFINITION", help="A JSON object.")],
    *,
    priority: Annotated[int, typer.Option("--priority")] = 0,
    apply_to: Annotated[
        str | None,
        typer.Option("--apply-to", help="all, queues, exchanges, classic_queues, quorum_queues."),
    ] = None,
    operator: Operator = False,
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    vhost: Vhost = DEFAULT_VHOST,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Create or replace a policy; it takes effect at once."""
    with connected(config, user, vhost, timeout) as connection:
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
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    vhost: Vhost = DEFAULT_VHOST,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Remove a policy; what it set is no longer in force."""
    with connected(config, user, vhost, timeout) as connection:
        connection.channel().clear_policy(name, operator=operator)
    print(f"policy {name!r} is cleared in vhost {vhost!r}")
    return EXIT_OK


def _definition(text: str) -> dict[str, Any]:
    from topology.values import table_from_json

    try:
        return table_from_json(msgspec.json.decode(text))
    except (msgspec.DecodeError, ValueError) as error:
        raise typer.BadParameter(f"is no JSON object: {error}", param_hint="DEFINITION") from None
