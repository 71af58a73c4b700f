"""`dlx definitions replay`: what would have happened with another topology."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.job.definitions import app as definitions
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, listing
from streaming.cli.options import ConfigFile, TablesLocation, known_settings, locate, open_at
from streaming.cli.tables.history import instant_of
from streaming.cli.topology.definitions_file import load
from topology.values import Compat

if TYPE_CHECKING:
    from streaming.broker.config import ShardConfig

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


@definitions.command()
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
    compat: Annotated[
        Compat | None,
        typer.Option(
            "--compat",
            help="RabbitMQ version to behave like. Default: job.compat, or 4.0.",
        ),
    ] = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Compare what happened with what another topology would have done.

    What was recorded runs through the broker's core in memory, with the topology of the file, and
    with the copies that were in queues at the beginning, as they were there: publishes,
    deliveries, settlements, purges, redrives, discards and restores. Exclusive queues, and
    whatever else came and went, come and go like then. What is not replayed is listed, with the
    reason. The answer is the same each time. It cannot know what consumers would have done with
    other messages: a message that was not delivered then waits, and deliveries and settlements
    without a message are counted.

    default_delivery_limit and job.compat are those of the configuration, if there is one.

    Even with the same topology, the answer may differ in these cases. Queues do not expire. A
    message with a TTL of 0, which only a waiting consumer could take, expires. In a queue with a
    length limit whose consumer takes messages at once, dead letters that arrive together count
    against the limit. Of two copies of one message in a queue, the first is delivered and settled.
    """
    FATES.check(view)
    vhosts, known = rules(tables, config)
    compat = compat or known
    load(definitions, compat)  # names every problem, with the file
    from streaming.queries.as_of.instant import resolve
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
            rules=vhosts,
        )
    rows = [
        {
            **{name: getattr(one, name) for name in one.__struct_fields__},
            "difference": one.replayed - one.recorded,
        }
        for one in found.fates
        if every or one.recorded != one.replayed
    ]
    print_listing(
        FATES, rows, view, nothing="no differences: every message would have had the same fate"
    )
    print(
        f"replayed {found.publishes:,} publishes, with {found.resident:,} copies in queues at the "
        f"beginning; {found.unplayed:,} recorded deliveries, settlements and others found none",
        file=sys.stderr,
    )
    print(
        "unknown: what consumers would have done otherwise; a message that no consumer took waits",
        file=sys.stderr,
    )
    for what, count in found.apart.items():
        print(f"not replayed: {count:,} {what}", file=sys.stderr)
    if found.unlisted:
        names = ", ".join(repr(vhost) for vhost in found.unlisted)
        print(f"not replayed, since {definitions} does not have it: vhost {names}", file=sys.stderr)
    return EXIT_OK


def rules(tables: str | None, config: Path | None) -> "tuple[dict[str, ShardConfig], Compat]":
    """What besides the topology decides: the limits of each vhost, and the version."""
    from streaming.broker.config import ShardConfig

    settings = known_settings(tables, config)
    if settings is None:
        return {}, "4.0"
    limits = {name: each.default_delivery_limit for name, each in settings.vhosts.items()}
    found = {name: ShardConfig(default_delivery_limit=limit) for name, limit in limits.items()}
    return found, settings.job.compat
