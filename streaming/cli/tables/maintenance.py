"""`dlx tables`: the state of the Delta tables, and the recreation of queue_contents."""

from typing import Final

import msgspec
import typer

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import View, listing
from streaming.cli.options import ConfigFile, TablesLocation, locate, open_at, open_tables

app = typer.Typer(
    name="tables",
    help="Show the state of the tables, and rebuild queue_contents.",
    epilog="Examples:\n\ndlx tables info --tables tables\n\ndlx tables rebuild --tables tables",
    no_args_is_help=True,
    rich_markup_mode=None,
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
def info(*, view: View, tables: TablesLocation = None, config: ConfigFile = None) -> int:
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
    from streaming.ledger.storage import Place

    location = locate(tables, config)
    with open_at(location) as opened:
        opened.table("events")
    done = ContentsUpdater(Place(location.root, location.options), threads=None).rebuild()
    print(
        f"queue_contents: {done.rows} rows in {done.files} files, as of batch {done.batch_id}, "
        f"{done.seconds:.1f} s"
    )
    return EXIT_OK
