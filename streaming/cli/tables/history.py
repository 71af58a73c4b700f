"""The past: the option `--as-of` of the commands that query the tables, and `dlx queues diff`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.times import parse_time
from streaming.cli.listing.view import OutputOptions, listing
from streaming.cli.options import (
    ConfigFile,
    TablesLocation,
    VhostFilter,
    known_users,
    open_tables,
)
from streaming.cli.output import printable

if TYPE_CHECKING:
    from streaming.queries.duckdb_tables import Tables
    from streaming.queries.read_rights import ReadRights

AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="WHEN",
        help="Show it as it was then: after a batch (1234), at a time (as for --since), or at the "
        "arrival of a message (1/0/42). Default: after the last batch.",
    ),
]
AsUser = Annotated[
    str | None,
    typer.Option(
        "--as-user",
        metavar="NAME",
        help="Show only what this user may read. Without read permission for a queue, bodies and "
        "headers of its letters are hidden.",
    ),
]
_MAX_NAMED: Final = 3
_CHANGES: Final = Listing(
    (
        Column("at", 0, kind="instant"),
        Column("change", 0),
        Column("message_id", 0, "message"),
        Column("why", 0),
        Column("from_queue", 2, "from"),
        Column("routing_key", 3, "key"),
        Column("user", 4),
        Column("channel", 4),
        Column("body_bytes", 5, "bytes"),
    ),
    more=("vhost", "lane", "seq", "copy_id", "batch_id"),
)


@contextmanager
def open_as_of(
    tables: str | None, config: Path | None, as_of: str | None, as_user: str | None = None
) -> Iterator["Tables"]:
    """Open the tables as they were at an instant, for a user; see `AsOf` and `AsUser`.

    Raises:
        QueryError: the tables do not have that instant, or no longer know it.
    """
    with open_tables(tables, config) as opened:
        if as_user is not None:
            from streaming.queries.vhosts.declared_rights import rights_of

            users = known_users(tables, config).items()
            administrators = [name for name, one in users if one.administrator]
            opened.rights = rights_of(opened, as_user, administrators)
            _say_hidden(opened.rights)
        cut_at(opened, as_of)
        yield opened


def cut_at(tables: "Tables", as_of: str | None) -> None:
    """Let the views end at an instant; None: at the last batch.

    Raises:
        QueryError: the tables do not have that instant, or no longer know it.
    """
    if as_of is not None:
        from streaming.queries.as_of.instant import resolve

        tables.cut = resolve(tables, as_of, instant_of)


def _say_hidden(rights: "ReadRights") -> None:
    """Say on stderr which letters are hidden, since no filter finds their contents."""
    if not rights.hidden:
        return
    names = sorted({queue for _vhost, queue in rights.hidden})
    shown = ", ".join(map(repr, names[:_MAX_NAMED])) + (", ..." if names[_MAX_NAMED:] else "")
    word = "queue" if len(names) == 1 else "queues"
    what = f"user {rights.user!r} may not read {word} {shown}"
    said = f"{what}: bodies and headers of its letters are hidden, and no filter finds them"
    print(printable(said if len(names) == 1 else said.replace(" its ", " their ")), file=sys.stderr)


def instant_of(text: str) -> datetime:
    """The instant that a text of `--as-of` means."""
    return parse_time(text, datetime.now(UTC), "--as-of")


@listing
def diff(
    queue: Annotated[str, typer.Argument(metavar="QUEUE")],
    first: Annotated[str, typer.Argument(metavar="T1", help="The earlier instant, as --as-of.")],
    last: Annotated[
        str, typer.Argument(metavar="[T2]", help="The later instant; now without it.")
    ] = "now",
    *,
    vhost: VhostFilter = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="List only this many, the earliest; 0: all.")
    ] = 50,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Show what entered and left a queue between two instants, and why.

    An instant is a batch (1234), a time (07:07, 2h), or the arrival of a message (1/0/42).
    """
    from streaming.queries.as_of.instant import resolve
    from streaming.queries.queue_changes import queue_changes
    from streaming.queries.vhosts.known_names import require_known

    _CHANGES.check(view)
    with open_tables(tables, config) as opened:
        require_known(opened, "queue", queue, vhost)
        ends = (resolve(opened, first, instant_of), resolve(opened, last, instant_of))
        if not ends[0].is_before(ends[1]):
            what = f"{last!r} is earlier than {first!r}: give the earlier instant first"
            raise typer.BadParameter(what, param_hint="T2")
        rows = queue_changes(opened, queue, *ends, vhost)
    entered = sum(row["change"] == "entered" for row in rows)
    print_listing(
        _CHANGES,
        rows[: limit or None],
        view,
        nothing=f"nothing entered or left queue {queue!r}",
        limit=limit,
        total=len(rows),
        what="changes",
        notes=[f"{entered} entered, {len(rows) - entered} left."],
    )
    return EXIT_OK
