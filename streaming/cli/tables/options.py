"""Which tables a command queries: --tables, or the `tables_location` of dlx.toml."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from streaming.cli.config import DEFAULT_FILE

if TYPE_CHECKING:
    from streaming.queries.duckdb_tables import Tables

DEFAULT_FOLDER: Final = "tables"

TablesLocation = Annotated[
    str | None,
    typer.Option(
        "--tables",
        metavar="DIR",
        help="Folder or URL with one folder per table. Default: tables_location of ./dlx.toml, or "
        "tables without that file.",
    ),
]
VhostFilter = Annotated[
    str | None, typer.Option("--vhost", metavar="NAME", help="Only this vhost.")
]


class Location(NamedTuple):
    """The folder or URL of the tables, and the storage options to open it."""

    root: str
    options: dict[str, str]


def locate(given: str | None) -> Location:
    """Return the location of the tables.

    Raises:
        DlxError: ./dlx.toml is invalid.
    """
    if given is not None:
        return Location(given, {})
    if not DEFAULT_FILE.exists():
        return Location(DEFAULT_FOLDER, {})
    from streaming.config import read_config, reveal

    config = read_config(DEFAULT_FILE)
    options = reveal(config.tables.storage_options, "tables.storage_options", os.environ)
    return Location(config.job.tables_location, {name: str(text) for name, text in options.items()})


@contextmanager
def open_tables(given: str | None) -> Iterator["Tables"]:
    """Open the tables for the queries of one command."""
    from streaming.queries.duckdb_tables import Tables

    location = locate(given)
    tables = Tables(location.root, location.options)
    try:
        yield tables
    finally:
        tables.close()
