"""`dlx dead-letters export`: dead letters as a file for other programs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.dead_letters.filters import Filter
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import ConfigFile, TablesLocation, locate
from streaming.cli.output import lasting_stderr, printable
from streaming.cli.tables.history import AsOf, AsUser, open_as_of
from topology.suggestions import did_you_mean

if TYPE_CHECKING:
    from streaming.queries.dead_letters.export import Format, Progress


def export(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A file or URL (s3://bucket/letters.parquet), or - for stdout."
        ),
    ],
    *,
    which: Filter,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="csv, jsonl, parquet or arrow. Default: what the file's name ends in.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Export only this many, the latest; 0: all.")
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_of: AsOf = None,
    as_user: AsUser = None,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Export dead letters with all columns to a file or URL.

    CSV and JSON lines hold what `list` prints; Parquet and Arrow have the types of the table. Rows
    are in no particular order unless --limit is given. A local file appears when it is complete.
    """
    from msgspec.structs import replace

    from streaming.queries.dead_letters.export import export as write
    from streaming.queries.dead_letters.letters import count_dead_letters, dead_letters

    chosen = _format(target, form)
    options = locate(tables, config).options
    with open_as_of(tables, config, as_of, as_user) as opened:
        wanted = replace(which.read(), limit=limit or None)
        total = count_dead_letters(opened, wanted)
        if not total:
            which.require_known(opened)
        with _progress(min(total, limit or total)) as progress:
            count = write(
                dead_letters(opened, wanted),
                target,
                chosen,
                options=options,
                replace=force,
                stdout=sys.stdout.buffer,
                progress=progress,
            )
    letters = "dead letter" if count == 1 else "dead letters"
    place = "stdout" if target == "-" else target
    print(printable(f"{count:,} {letters} exported to {place}"), file=sys.stderr)
    return EXIT_OK


def _format(target: str, given: str | None) -> "Format":
    from streaming.queries.dead_letters.export import FORMATS, format_of

    for known in FORMATS:
        if given == known:
            return known
    if given is not None:
        what = f"unknown format {given!r}{did_you_mean(given, FORMATS)}: {', '.join(FORMATS)}"
        raise typer.BadParameter(what, param_hint="--format")
    found = format_of(target)
    if found is None:
        what = f"{target!r} does not say which; give one of {', '.join(FORMATS)}"
        raise typer.BadParameter(what, param_hint="--format")
    return found


@contextmanager
def _progress(total: int) -> Iterator["Progress"]:
    """A bar on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=lasting_stderr()), transient=True) as bar:
        task = bar.add_task("export", total=total)
        yield lambda rows: bar.update(task, completed=rows)
