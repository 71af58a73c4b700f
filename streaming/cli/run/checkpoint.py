"""`dlx checkpoint`: make a new checkpoint from the tables."""

import os
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from streaming.cli.command_group import command_group
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, listing
from streaming.cli.options import OwnConfigFile, find_config

if TYPE_CHECKING:
    from streaming.pipeline.rebuild.plan import RebuildPlan
    from streaming.pipeline.rebuild.rebuild import Rebuild
    from streaming.storage.location import AnyPath

app = command_group(
    "checkpoint",
    "Make a new checkpoint from the tables.",
    "dlx checkpoint rebuild --dry-run",
    "dlx checkpoint rebuild",
    "dlx checkpoint rebuild --replace --shuffle-partitions 8",
)

_SHARDS: Final = Listing(
    (
        Column("vhost", 0),
        Column("lane", 3),
        Column("queues", 2),
        Column("ready", 0),
        Column("unacked", 0, "requeued"),
        Column("held", 1),
        Column("channels", 1, "closed_channels"),
        Column("redrives", 2, "cancelled_redrives"),
    )
)


@app.callback()
def _group() -> None:
    """Keep the command's own name, although it is the only one."""


@app.command()
@listing
def rebuild(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would write; change nothing.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace a complete checkpoint; its folder is kept under another name.",
        ),
    ] = False,
    shuffle_partitions: Annotated[
        int | None,
        typer.Option(
            "--shuffle-partitions",
            metavar="N",
            min=1,
            max=10_000,
            help="Shuffle partitions of the new checkpoint. Default: job.shuffle_partitions, or "
            "else the number of cores.",
        ),
    ] = None,
    view: OutputOptions,
    config: OwnConfigFile = None,
) -> int:
    """Make a new checkpoint from the tables: after a loss, or for other partitions or lanes.

    Messages that were ready are ready again, in order. Unacked ones are requeued as redelivered
    when the job starts, and their channels are closed. Sequence numbers and offsets continue. It
    first says what the tables do not know. The lanes are those of the configuration. A sequenced
    vhost is folded from its log again, and goes on as if nothing had happened.

    The job must not run. Without --replace, a complete checkpoint is refused.

    Exit status: 0, 2 if the checkpoint cannot be rebuilt.
    """
    from streaming.config import load_config
    from streaming.made_vhosts import with_made_vhosts
    from streaming.pipeline.rebuild.rebuild import Rebuild
    from streaming.spark.session import available_cores

    _SHARDS.check(view)
    settings = with_made_vhosts(load_config(find_config(config, or_demo=False)))
    partitions = shuffle_partitions or settings.job.shuffle_partitions or available_cores()
    work = Rebuild(settings, partitions)
    with work.locked(replace=replace or dry_run):
        plan = work.plan()
        rows = [msgspec.to_builtins(each) for each in plan.shards]
        print_listing(_SHARDS, rows, view)
        is_text = view.output == "table"
        if is_text:
            _print_plan(plan, partitions, sum(one.lanes for one in settings.vhosts.values()))
        if dry_run:
            if is_text:
                print("\nnothing was written; leave out --dry-run to rebuild the checkpoint")
            return EXIT_OK
        kept = _write(work, plan)
    if is_text:
        configured = settings.job.shuffle_partitions or available_cores()
        _print_result(work.path, kept, partitions, configured)
    return EXIT_OK


def _write(work: "Rebuild", plan: "RebuildPlan") -> "AnyPath | None":
    """Write the checkpoint with a Spark session of its own."""
    from rich.console import Console

    from streaming.spark.session import make_session, stop_session

    spark = make_session(work.session_config(os.environ), Console(stderr=True))
    try:
        return work.write(plan, spark)
    finally:
        stop_session(spark)


def _print_plan(plan: "RebuildPlan", partitions: int, lanes: int) -> None:
    print(f"\nafter batch {plan.batch_id}, {partitions} shuffle partitions")
    for topic, ends in sorted(plan.offsets.items()):
        places = ", ".join(f"{partition}: {end}" for partition, end in sorted(ends.items()))
        print(f"topic {topic} continues at {places}")
    for table, rows in plan.half_written.items():
        print(f"table {table}: {rows} rows of a batch that never ended are removed, and read again")
    for note in plan.notes:
        print(f"note: {note}")
    if lanes > partitions:
        print(
            f"note: {lanes} lanes have only {partitions} shuffle partitions: no more than "
            f"{partitions} of them work at once; --shuffle-partitions {lanes} spreads them"
        )


def _print_result(
    path: "AnyPath", kept: "AnyPath | None", partitions: int, configured: int
) -> None:
    print(f"\nrebuilt {path}")
    if kept is not None:
        print(f"the old one is in {kept}; remove it once the job runs")
    if configured != partitions:
        print(
            f"set job.shuffle_partitions = {partitions} in the configuration before the next start"
        )
