"""`dlx dead-letters groups` and `summary`: dead letters counted."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streaming.cli.dead_letters.filters import Filter
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.times import parse_time, relative
from streaming.cli.listing.view import OutputOptions
from streaming.cli.options import ConfigFile, TablesLocation
from streaming.cli.output import print_in_colour, print_json
from streaming.cli.tables.history import AsOf, AsUser, open_as_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.queries.dead_letters.summary import DeadLetterSummary

_BARS: Final = "▁▂▃▄▅▆▇█"
_PLAIN_BARS: Final = "_.-=+*%#"
"""The same for a terminal that knows only ASCII."""

_NONE: Final = "(none)"
"""How a group without a value for an attribute is written in a table."""


def groups(
    *,
    which: Filter,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="A,B",
            help="Group by these: vhost, queue, reason, exchange, routing_key, outcome, cause, or "
            "header:NAME.",
        ),
    ] = "queue,reason",
    new_since: Annotated[
        str | None,
        typer.Option(
            "--new-since",
            metavar="TIME",
            help="Show which groups have no death before this time; written as for --since.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Show only this many, the largest; 0: all.")
    ] = 50,
    as_of: AsOf = None,
    as_user: AsUser = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Count dead letters in groups: how many, since when, and whether they increase.

    A cause is the reason that the consumer gave, or the text of a header such as x-exception,
    without numbers, ids and addresses: equal mistakes are one group. TREND divides the period into
    twelve parts. REDRIVEN counts messages that were sent back before and died again; LOST, those
    that no queue took.
    """
    names = [name.strip() for name in by.split(",")]
    since = None if new_since is None else parse_time(new_since, datetime.now(UTC), "--new-since")
    listed = _listing(names, has_news=since is not None)
    listed.check(view)
    from streaming.queries.dead_letters.groups import dead_letter_groups

    with open_as_of(tables, config, as_of, as_user) as opened:
        rows = dead_letter_groups(opened, which.read(), names, since).rows()
        if not rows:
            which.require_known(opened)
    if view.output == "table":
        for row in rows:
            row.update({name: _NONE for name in names if row[name] is None})
    print_listing(
        listed,
        rows,
        view,
        nothing=f"no dead letters{which.said()}",
        limit=limit,
        what=f"groups{which.period()}",
        notes=which.notes(len(rows) <= (limit or len(rows))),
    )
    return EXIT_OK


def _listing(names: list[str], *, has_news: bool) -> Listing:
    columns = [Column(name, 0, kind="free" if name == "cause" else "plain") for name in names]
    columns.append(Column("deaths", 0))
    if has_news:
        columns += [Column("is_new", 0, "new?"), Column("new", 1)]
    columns += [
        Column("trend", 2),
        Column("last_seen", 1, "last", kind="instant"),
        Column("first_seen", 3, "first", kind="instant"),
        Column("redriven", 4),
        Column("lost", 4),
        Column("dropped", 5),
    ]
    return Listing(tuple(columns), cells={"trend": _sparkline})


def _sparkline(counts: Any) -> str:
    """The trend as bars: `▁▁▂█`."""
    bars = _BARS if (sys.stdout.encoding or "").lower() in {"utf-8", "utf8"} else _PLAIN_BARS
    most = max(counts)
    return "".join(
        " " if not count else bars[min(count * len(bars) // (most + 1), len(bars) - 1)]
        for count in counts
    ).replace(" ", "·" if bars == _BARS else " ")


def summary(
    *,
    which: Filter,
    as_of: AsOf = None,
    as_user: AsUser = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Take a first look: how many dead letters, since when, which, and which are new."""
    from streaming.queries.dead_letters.summary import summary_of

    with open_as_of(tables, config, as_of, as_user) as opened:
        found = summary_of(opened, which.read())
        if not found.deaths:
            which.require_known(opened)
    if view.output == "json":
        print_json(found)
    elif view.output == "csv":
        rows = [*found.groups, *found.causes]
        print_listing(_listing(["queue", "reason", "cause"], has_news=False), rows, view)
    else:
        print_in_colour(_summary(found, which))
    return EXIT_OK


def _summary(found: "DeadLetterSummary", which: Filter) -> "Iterator[tuple[str, str]]":
    if not found.deaths or found.first_seen is None or found.last_seen is None:
        yield f"no dead letters{which.said()}", "plain"
        return
    now = datetime.now(UTC)
    queues = f"{found.queues} queue{'s' if found.queues != 1 else ''}"
    yield f"{found.deaths:,} dead letters{which.said()}, in {queues}", "title"
    yield f"first {relative(found.first_seen, now)}: {found.first_seen}", "plain"
    yield f"last  {relative(found.last_seen, now)}: {found.last_seen}", "plain"
    ends = f"{found.lost:,} lost, {found.dropped:,} dropped as declared"
    yield f"{found.bytes:,} bytes; {ends}", "bad" if found.lost else "plain"
    yield f"{found.in_queues:,} dead letters wait in queues now", "plain"
    for title, names, rows in (
        ("largest groups", ("queue", "reason"), found.groups),
        ("largest causes", ("cause",), found.causes),
        ("new in the hour before the last death", ("queue", "reason"), found.new),
    ):
        if not rows:
            continue
        yield "", "plain"
        yield f"{title}:", "head"
        for row in rows:
            what = ": ".join(str(row[name]) for name in names)
            yield f"  {row['deaths']:>9,}  {_sparkline(row['trend'])}  {what}", "plain"
    yield "", "plain"
    yield "`dlx dead-letters groups` shows more, and `list` shows the letters.", "quiet"
