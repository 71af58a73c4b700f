"""`dlx permissions set` and `clear`: what the users of a running job may do."""

from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.command_group import command_group
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import JobOptions, job_options
from streaming.cli.refusals import refuse_missing
from topology.errors import DlxError
from topology.suggestions import did_you_mean_or_known

app = command_group(
    "permissions",
    "List, set and clear permissions.",
    "dlx permissions list",
    "dlx permissions set clerk '^$' '^orders$' '.*'",
    "dlx permissions clear clerk",
)

UserName = Annotated[str, typer.Argument(metavar="USER")]
_PATTERN = "A regular expression for names; '^$' permits nothing."


@app.command("set")
@job_options
def set_(
    who: UserName,
    configure: Annotated[str, typer.Argument(metavar="CONFIGURE", help=_PATTERN)],
    write: Annotated[str, typer.Argument(metavar="WRITE")],
    read: Annotated[str, typer.Argument(metavar="READ")],
    *,
    job: JobOptions,
) -> int:
    """Set what a user may configure, write to and read from in a vhost."""
    _check_user(job.file, who)
    with job.connect() as connection:
        connection.channel().set_permissions(who, configure=configure, write=write, read=read)
    print(f"permissions of user {who!r} are set in vhost {job.vhost!r}")
    return EXIT_OK


@app.command()
@job_options
def clear(
    who: UserName,
    *,
    job: JobOptions,
) -> int:
    """Remove all permissions of a user in a vhost."""
    with job.connect() as connection:
        what = f"user {who!r} has no permissions in vhost {job.vhost!r}"
        refuse_missing(connection, "permissions", "user", who, what)
        connection.channel().clear_permissions(who)
    print(f"permissions of user {who!r} are removed from vhost {job.vhost!r}")
    return EXIT_OK


def _check_user(file: Path, who: str) -> None:
    from streaming.config import read_config

    users = read_config(file).users
    if who not in users:
        hint = did_you_mean_or_known(who, sorted(users))
        raise DlxError(f"{file}: users: there is no user {who!r}{hint}")
