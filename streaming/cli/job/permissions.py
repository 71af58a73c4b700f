"""`dlx permissions set` and `clear`: what the users of a running job may do."""

from pathlib import Path
from typing import Annotated

import typer

from streaming.cli import options
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import ConfigFile, find_config
from streaming.cli.refusals import live_definitions
from topology.errors import DlxError
from topology.suggestions import did_you_mean_or_known

app = typer.Typer(
    name="permissions",
    help="List, set and clear permissions.",
    epilog="Examples:\n\ndlx permissions list\n\ndlx permissions set clerk '^$' '^orders$' '.*'\n\n"
    "dlx permissions clear clerk",
    no_args_is_help=True,
    rich_markup_mode=None,
)

UserName = Annotated[str, typer.Argument(metavar="USER")]
_PATTERN = "A regular expression for names; '^$' permits nothing."


@app.command("set")
def set_(
    who: UserName,
    configure: Annotated[str, typer.Argument(metavar="CONFIGURE", help=_PATTERN)],
    write: Annotated[str, typer.Argument(metavar="WRITE")],
    read: Annotated[str, typer.Argument(metavar="READ")],
    *,
    config: ConfigFile = None,
    user: options.User = options.DEFAULT_USER,
    vhost: options.Vhost = options.DEFAULT_VHOST,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
    require_job: options.RequireJob = False,
) -> int:
    """Set what a user may configure, write to and read from in a vhost."""
    file = find_config(config)
    _check_user(file, who)
    with options.connect(file, user, vhost, timeout, require_job=require_job) as connection:
        connection.channel().set_permissions(who, configure=configure, write=write, read=read)
    print(f"permissions of user {who!r} are set in vhost {vhost!r}")
    return EXIT_OK


@app.command()
def clear(
    who: UserName,
    *,
    config: ConfigFile = None,
    user: options.User = options.DEFAULT_USER,
    vhost: options.Vhost = options.DEFAULT_VHOST,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
    require_job: options.RequireJob = False,
) -> int:
    """Remove all permissions of a user in a vhost."""
    with options.connect(config, user, vhost, timeout, require_job=require_job) as connection:
        document = live_definitions(connection)
        users = [each["user"] for each in document.get("permissions", ())]
        if document and who not in users:
            raise DlxError(
                f"404 NOT_FOUND - user {who!r} has no permissions in vhost {vhost!r}"
                f"{did_you_mean_or_known(who, users)}"
            )
        connection.channel().clear_permissions(who)
    print(f"permissions of user {who!r} are removed from vhost {vhost!r}")
    return EXIT_OK


def _check_user(file: Path, who: str) -> None:
    from streaming.config import read_config

    users = read_config(file).users
    if who not in users:
        hint = did_you_mean_or_known(who, sorted(users))
        raise DlxError(f"{file}: users: there is no user {who!r}{hint}")
