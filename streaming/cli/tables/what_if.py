"""`dlx topology replay`: what would have happened with another topology."""

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import View, listing
from streaming.cli.options import ConfigFile, TablesLocation, locate, open_at
from streaming.cli.tables.history import instant_of
from streaming.cli.topology.commands import CompatOption
from streaming.cli.topology.definitions_file import load

app = typer.Typer(
    name="topology",
    help="Replay what happened with another topology.",
    epilog="Examples:\n\ndlx topology replay --since yesterday --definitions new.json",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FATES: Final = Listing(
    (
        Column("vhost", 4, identifies=True),
        Column("queue", 0),
        Column("fate", 0),
        Column("reason", 1),
        Column("recorded", 0),
        Column("replayed", 0),
        Column("difference", 0, "diff"),
    )
)


@app.callback()
def _group() -> None:
    """Keep `replay` a subcommand, although it is the only one."""


@app.command()
@listing
def replay(
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="WHEN",
            help="Replay what happened after a batch (1234), a time (2h, 07:07), or a message "
            "(1/0/42). Default: from the beginning.",
        ),
    ] = None,
    definitions: Annotated[
        Path,
        typer.Option(
            "--definitions",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The other topology: a definitions file of RabbitMQ.",
        ),
    ],
    processes: Annotated[
        int,
        typer.Option(
            "--processes", min=0, help="Lanes to replay at once; 0: one per core.", metavar="N"
        ),
    ] = 0,
    every: Annotated[
        bool, typer.Option("--all", help="List also what would have been the same.")
    ] = False,
    compat: CompatOption = "4.0",
    view: View,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Compare what happened with what another topology would have done.

    The recorded publishes and settlements run through the broker's core in memory, with the
    topology of the file, and with the copies that were in queues at the beginning: with age,
    expiration, priority, x-death and holder, but as if they had never been requeued. The answer is
    the same each time. It cannot know what consumers would have done with other messages: a message
    that was not delivered then waits, and deliveries and settlements without a message are counted.
    """
    FATES.check(view)
    load(definitions, compat)  # names every problem, with the file
    from streaming.queries.as_of import resolve
    from streaming.queries.cut import Cut
    from streaming.queries.life.what_if import what_if

    location = locate(tables, config)
    with open_at(location) as opened:
        cut = Cut(-1) if since is None else resolve(opened, since, instant_of)
        found = what_if(
            opened,
            cut,
            definitions.read_bytes(),
            options=location.options,
            compat=compat,
            processes=processes or os.cpu_count() or 1,
        )
    rows = [
        {
            **{name: getattr(one, name) for name in one.__struct_fields__},
            "difference": one.replayed - one.recorded,
        }
        for one in found.fates
        if every or one.recorded != one.replayed
    ]
    print_listing(FATES, rows, view, nothing="every message would have had the same fate")
    print(
        f"replayed {found.publishes:,} publishes, with {found.resident:,} copies in queues at the "
        f"beginning; {found.unplayed:,} recorded deliveries and settlements found no message",
        file=sys.stderr,
    )
    print(
        "unknown: what consumers would have done otherwise; a message that no consumer took waits",
        file=sys.stderr,
    )
    if found.moved:
        print(
            f"not replayed: {found.moved:,} letters that were redriven, discarded, restored or "
            "published again; they stay where they were",
            file=sys.stderr,
        )
    if found.unlisted:
        names = ", ".join(repr(vhost) for vhost in found.unlisted)
        print(f"not replayed, since {definitions} does not have it: vhost {names}", file=sys.stderr)
    return EXIT_OK
