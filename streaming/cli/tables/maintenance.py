"""`dlx tables`: the state of the Delta tables, their snapshots, retention, and recreation."""

from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from streaming.cli.command_group import command_group
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, listing
from streaming.cli.options import (
    DEFAULT_FILE,
    ConfigFile,
    TablesLocation,
    User,
    bounded_memory,
    find_config,
    locate,
    open_at,
    open_tables,
)
from streaming.cli.run.checkpoint import rebuild as rebuild_checkpoint
from streaming.protocol.defaults import DEFAULT_USER

app = command_group(
    "tables",
    "Show, trim, erase and rebuild tables; rebuild a checkpoint.",
    "dlx tables info --tables tables",
    "dlx tables snapshot --tables tables",
    "dlx tables trim --yes",
    "dlx tables erase --where \"headers ->> 'customer' = '17'\" --reason 'request 4711'",
    "dlx tables rebuild --tables tables",
    "dlx tables checkpoint --dry-run",
)


_TABLES: Final = Listing(
    (
        Column("name", 0, "table"),
        Column("version", 4),
        Column("files", 2),
        Column("rows", 1),
        Column("bytes", 1),
        Column("last_batch", 1),
        Column("behind", 3),
    )
)


@app.command()
@listing
def info(*, view: OutputOptions, tables: TablesLocation = None, config: ConfigFile = None) -> int:
    """Show size, files and last batch of each table."""
    from streaming.queries.table_info import describe

    _TABLES.check(view)
    with open_tables(tables, config) as opened:
        found = [msgspec.to_builtins(each) for each in describe(opened)]
    print_listing(_TABLES, found, view)
    return EXIT_OK


@app.command()
def rebuild(*, tables: TablesLocation = None, config: ConfigFile = None) -> int:
    """Recreate queue_contents from events.

    Needed only if the table was lost or damaged: the job keeps it current. The job may run
    meanwhile.
    """
    from streaming.contents.updater import ContentsUpdater

    location = locate(tables, config)
    with open_at(location) as opened:
        opened.table("events")
    done = ContentsUpdater(location, threads=None).rebuild()
    print(
        f"queue_contents: {done.rows} rows in {done.files} files, as of batch {done.batch_id}, "
        f"{done.seconds:.1f} s"
    )
    return EXIT_OK


@app.command()
def snapshot(
    *,
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", min=0, help="After this batch, not the last."),
    ] = None,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Write a snapshot: the totals, the copies in queues and the topology after a batch.

    --as-of and `dlx balance` then start there, and retention can remove what lies before. The job
    does it too, every tables.snapshot_interval_ms. It may run meanwhile.
    """
    from streaming.contents.snapshot_writer import SnapshotWriter

    location = locate(tables, config)
    with open_at(location) as opened:
        opened.table("events")
    done = SnapshotWriter(location, threads=None).write(batch)
    if done is None:
        print("there is such a snapshot already, or no batch has happened yet")
        return EXIT_OK
    print(
        f"wrote a snapshot after batch {done.batch_id}: {done.copies} copies in queues, "
        f"{done.totals} totals, {done.seconds:.1f} s"
    )
    return EXIT_OK


_SNAPSHOTS: Final = Listing(
    (
        Column("batch_id", 0, "batch"),
        Column("at", 1, kind="instant"),
        Column("messages", 1),
        Column("opening", 2),
    ),
    more=("query_id",),
)


@app.command()
@listing
def snapshots(
    *, view: OutputOptions, tables: TablesLocation = None, config: ConfigFile = None
) -> int:
    """List the snapshots, the oldest first.

    OPENING marks the one before which retention has removed events.
    """
    from streaming.queries.as_of.snapshots import list_snapshots, opening_batch

    _SNAPSHOTS.check(view)
    with open_tables(tables, config) as opened:
        opening = opening_batch(opened, "events")
        found = [
            {
                "batch_id": one.batch_id,
                "at": None if one.at is None else f"{one.at:%Y-%m-%dT%H:%M:%S.%f}Z",
                "messages": one.resident,
                "opening": one.batch_id == opening,
                "query_id": one.query_id,
            }
            for one in list_snapshots(opened)
        ]
    print_listing(_SNAPSHOTS, found, view, nothing="there is no snapshot yet")
    return EXIT_OK


_REMOVALS: Final = Listing(
    (
        Column("table", 0),
        Column("batch_id", 1, "up_to"),
        Column("files", 2),
        Column("rows", 1),
        Column("kept", 1),
    )
)


@app.command()
@listing
def trim(
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove the rows; without it, only list them.")
    ] = False,
    view: OutputOptions,
    config: ConfigFile = None,
) -> int:
    """Remove the rows whose period in tables.retention is over.

    Only rows before a snapshot go, without those that a message in a queue needs
    (KEPT).
    The job does it too, after each snapshot. It may run meanwhile.
    """
    from streaming.config import read_config
    from streaming.contents.retention import periods_of, retain

    _REMOVALS.check(view)
    file = find_config(config)
    periods = periods_of(read_config(file).tables.retention)
    location = locate(None, file)
    with open_at(location) as opened:
        opened.table("events")
    done = retain(location, periods, datetime.now(UTC), threads=None, dry=not yes)
    notes = [] if yes or not done else ["Nothing is removed yet: repeat it with --yes."]
    print_listing(
        _REMOVALS,
        [msgspec.to_builtins(one) | {"table": one.table} for one in done],
        view,
        nothing="no rows to remove: no snapshot is older than a period of tables.retention",
        notes=notes,
    )
    return EXIT_OK


@app.command()
def erase(
    *,
    where: Annotated[
        str, typer.Option("--where", metavar="SQL", help="A DuckDB condition on `messages`.")
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Kept in the event.")],
    yes: Annotated[
        bool, typer.Option("--yes", help="Erase them; without it, only count them.")
    ] = False,
    user: User = DEFAULT_USER,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Erase the bodies, headers and properties of messages, in dead letters too.

    Their events stay, and an event of kind `erased` says how many, who and why. Messages still in a
    queue keep their data. It removes your plans of these letters and the checkpoints that rebuilds
    have kept, and names the records that Kafka may still have.
    """
    from streaming.cli.tables.left_copies import say_and_remove
    from streaming.contents.erasure import erase as erase_messages

    if not reason.strip():
        raise typer.BadParameter("is empty: say why, such as 'request 4711'", param_hint="--reason")
    location = locate(tables, config)
    with open_at(location) as opened:
        opened.table("events")
    with bounded_memory():
        done = erase_messages(location, where, reason, datetime.now(UTC), user=user, dry=not yes)
    verb = "erased" if yes else "would erase"
    print(f"{verb} {done.messages} messages and {done.dead_letters} dead letters")
    if done.in_queues:
        print(f"{done.in_queues} more are still in queues: consume or purge them, then repeat it")
    if done.keys:
        known = config or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
        for line in say_and_remove(done, known, yes=yes):
            print(line)
    if not yes:
        print("nothing is erased yet: repeat it with --yes")
    elif done.messages or done.dead_letters:
        print("the old files leave the disk with the next vacuum after tables.vacuum_retention_ms")
    return EXIT_OK


app.command("checkpoint")(rebuild_checkpoint)
