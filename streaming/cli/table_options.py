"""Where the tables are that a command asks: --tables, or what dlx.toml says."""

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
        help="The folder (or URL) that has one folder a table. Default: the tables_location of "
        "dlx.toml if that is here, else tables.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON for programs, one value a line.")]
VhostFilter = Annotated[
    str | None, typer.Option("--vhost", metavar="NAME", help="Only this vhost.")
]


class Location(NamedTuple):
    """A root of tables and what is needed to reach it."""

    root: str
    options: dict[str, str]


def locate(given: str | None) -> Location:
    """The tables that are meant.

    Raises:
        DlxError: dlx.toml is here and cannot be used.
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
    """The tables that are meant, for one command's queries."""
    from streaming.queries.duckdb_tables import Tables

    location = locate(given)
    tables = Tables(location.root, location.options)
    try:
        yield tables
    finally:
        tables.close()
