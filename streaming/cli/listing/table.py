"""The one printer of every listing: a table that fits the terminal, JSON, or CSV.

| stdout | table |
|---|---|
| a terminal, or COLUMNS is set | fits that width: see `_fit` |
| anything else, or `--wide` | every column, whole values, ISO times |

A value is never broken across lines. To fit, titles become short, free text is cut with an
ellipsis, and so is the middle of a name of more than half the width, which no table can do
without; then whole columns are left out, the least important first. What then still has room comes
back. Below the table stands what was left out: columns with the same value in every row, columns
without room, and rows.
"""

import csv
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

import typer

from streaming.cli.listing.times import is_near, relative, short_times, zone_name
from streaming.cli.listing.view import OutputOptions
from streaming.cli.output import compact, print_json, printable, printable_lines
from streaming.csv_cells import csv_cell, plain_text
from topology.suggestions import did_you_mean

Row = dict[str, Any]

WIDE_ONLY: Final = 9
"""The rank of columns that only `--wide` shows."""

MIN_FREE: Final = 16
"""Free text is not cut below this many characters."""

MAX_FREE: Final = 200
"""Free text is cut here in a table that has no width."""

_GAP: Final = 2
_DIGITS: Final = re.compile(r"([0-9]{1,18})")
_NOTHING: Final[tuple[object, ...]] = (None, "", (), [], {})


class Column(NamedTuple):
    """A column of a listing.

    Attributes:
        name: its key in a row, and its title.
        rank: when to leave it out to save room: the highest first, 0 never. A column of rank 0 is
            printed even if all its values are equal.
        short: a shorter title, and another name that `--columns` and `--sort` accept.
        kind: `free` may be cut; an `instant` is printed at its time, an `age` as a distance.
        always: print it even if all its values are equal.
        identifies: it tells rows apart: never leave it out while its values differ.
        older: an older name that `--columns` and `--sort` still accept.
    """

    name: str
    rank: int = 5
    short: str = ""
    kind: Literal["plain", "free", "instant", "age"] = "plain"
    always: bool = False
    identifies: bool = False
    older: str = ""


@dataclass(frozen=True)
class Listing:
    """What a command lists.

    Attributes:
        columns: the columns of its table, in order.
        more: further keys of its rows, for JSON, CSV and `--columns`.
        cells: how to write a value in a table, by column, where its text does not do.
        whole: the command that shows a cut text whole.
    """

    columns: tuple[Column, ...]
    more: tuple[str, ...] = ()
    cells: Mapping[str, Any] | None = None
    whole: str = ""

    def column(self, name: str, option: str) -> Column:
        """The column that a user means.

        Raises:
            typer.BadParameter: there is no such column.
        """
        wanted = name.lower()
        everything = (*self.columns, *(Column(one, kind="free") for one in self.more))
        for column in everything:
            if wanted in {column.name, column.short, column.older}:
                return column
        names = [column.name for column in everything]
        what = f"there is no column {name!r}{did_you_mean(wanted, names)}: {', '.join(names)}"
        raise typer.BadParameter(what, param_hint=option)

    def shown(self, view: OutputOptions) -> list[Column]:
        """The columns that `--columns` names, or all of the table."""
        if view.columns is None:
            return list(self.columns)
        return [self.column(name, "--columns") for name in view.columns]

    def check(self, view: OutputOptions) -> None:
        """Check `--columns` and `--sort`, before a slow query.

        Raises:
            typer.BadParameter: a name is not a column.
        """
        self.shown(view)
        if view.sort is not None:
            self.column(view.sort[0], "--sort")


def print_listing(
    listing: Listing,
    rows: Sequence[Row],
    view: OutputOptions,
    *,
    nothing: str = "",
    limit: int = 0,
    total: int = 0,
    what: str = "rows",
    remedy: str = "--limit 0",
    notes: Sequence[str] = (),
) -> None:
    """Print rows as the options ask.

    Args:
        nothing: what a table says if there are no rows; JSON and CSV are just empty.
        limit: print only this many rows, the first ones after sorting; 0: all.
        total: how many rows there are in all, if `rows` may be only some of them.
        what: the noun of the rows, for saying how many were left out.
        remedy: the options that list all.
        notes: what else to say below a table.
    """
    listing.check(view)
    if view.sort is not None:
        rows = _sorted(listing, rows, view.sort)
    total = max(total, len(rows))
    rows = rows[:limit] if limit else rows
    width = screen_width()
    said = []
    if 0 < len(rows) < total:
        said = [f"{len(rows):,} of {total:,} {what}; {remedy} for all"]
    if view.output == "json":
        for row in rows:
            print_json(_chosen(listing, row, view))
    elif view.output == "csv":
        _print_csv(listing, rows, view)
    elif not rows:
        print(printable(nothing))
    else:
        said = _print_table(listing, rows, view, width, [*notes, *said])
    for line in said:
        print(printable(line), file=sys.stderr)


def print_record(listing: Listing, row: Row, view: OutputOptions) -> None:
    """Print one thing: a line per attribute, JSON, or CSV."""
    columns = listing.shown(view)
    if view.output != "table":
        print_listing(listing, [row], view)
        return
    if view.columns is None:
        columns += [Column(name) for name in listing.more if row.get(name) not in _NOTHING]
    now = datetime.now(UTC)
    length = max(len(column.name) for column in columns)
    for column in columns:
        text = _text(listing, column, row.get(column.name))
        if column.kind in {"age", "instant"} and text != "-" and is_near(text, now):
            text = f"{text} ({relative(text, now)})"
        print(f"{column.name.ljust(length)}  {text}".rstrip())


def screen_width() -> int | None:
    """The width that a table must fit: COLUMNS, or that of the terminal; None: no limit."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _chosen(listing: Listing, row: Row, view: OutputOptions) -> Row:
    if view.columns is None:
        return row
    return {column.name: row.get(column.name) for column in listing.shown(view)}


def _print_csv(listing: Listing, rows: Sequence[Row], view: OutputOptions) -> None:
    names = [column.name for column in listing.shown(view)]
    if view.columns is None:
        names += listing.more
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(csv_cell, names))
    for row in rows:
        cells = [csv_cell(row.get(name)) for name in names]
        writer.writerow(map(printable_lines, cells) if sys.stdout.isatty() else cells)


def _text(listing: Listing, column: Column, value: object) -> str:
    """A value as one line that is safe in a terminal; a dash if there is none."""
    write = (listing.cells or {}).get(column.name)
    if write is not None:
        value = write(value)
    if value in _NOTHING:
        return "-"
    if isinstance(value, Mapping):
        return printable(compact(value))
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    return printable(plain_text(value))


def _sorted(listing: Listing, rows: Sequence[Row], sort: tuple[str, bool]) -> list[Row]:
    name, reverse = listing.column(sort[0], "--sort").name, sort[1]
    known = [row for row in rows if row.get(name) is not None]
    unknown = [row for row in rows if row.get(name) is None]
    numeric = all(isinstance(row[name], int | float) for row in known)
    known.sort(key=lambda row: row[name] if numeric else _natural(row[name]), reverse=reverse)
    return [*known, *unknown]


def _natural(value: object) -> list[str | int]:
    """A key that sorts `work-2` before `work-10`."""
    parts = _DIGITS.split(plain_text(value))
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]


def _print_table(
    listing: Listing, rows: Sequence[Row], view: OutputOptions, width: int | None, notes: list[str]
) -> list[str]:
    """Print the table and the notes below it; return the notes that belong on stderr."""
    columns = listing.shown(view)
    fitted = width is not None and not view.wide
    now = datetime.now(UTC)
    texts = {column.name: _texts(listing, column, rows, now, fitted=fitted) for column in columns}
    if width is None or view.wide:
        drawn = [_Drawn(one, one.name, texts[one.name]) for one in columns]
        _print_lines(drawn, rows)
        return [*_cut_said(listing, drawn), *notes]
    same: list[str] = []
    if view.columns is None:
        columns = [one for one in columns if one.rank != WIDE_ONLY]
        columns, same = _without_constants(columns, texts, len(rows))
    drawn = _fit(columns, texts, width, may_drop=view.columns is None)
    _print_lines(drawn, rows)
    shown = {one.column.name for one in drawn}
    dropped = [one.name for one in columns if one.name not in shown]
    if same:
        notes.insert(0, f"In every row: {', '.join(same)}.")
    if dropped:
        notes.append(f"No room for {', '.join(dropped)}: --wide shows all columns.")
    notes += _cut_said(listing, drawn)
    if any(one.kind == "instant" and {*texts[one.name]} != {"-"} for one in listing.shown(view)):
        notes.append(f"Times are {zone_name()}.")
    for note in notes:
        print("\n".join(_wrapped(note, width)))
    return []


def _cut_said(listing: Listing, drawn: Sequence["_Drawn"]) -> list[str]:
    """Where the texts are whole that were cut."""
    said = []
    for whole, is_free in ((listing.whole, True), ("--wide", False)):
        names = [one.column.name for one in drawn if one.is_cut and one.is_free == is_free]
        if names and whole:
            said.append(f"Cut: {', '.join(names)}. {whole} shows whole texts.")
    return said


def _wrapped(note: str, width: int) -> list[str]:
    return textwrap.wrap(printable(note), width, break_long_words=False, break_on_hyphens=False)


def _texts(
    listing: Listing, column: Column, rows: Sequence[Row], now: datetime, *, fitted: bool
) -> list[str]:
    values = [row.get(column.name) for row in rows]
    if fitted and column.kind == "instant":
        return short_times(values, now)
    if fitted and column.kind == "age":
        return [relative(value, now) for value in values]
    return [_text(listing, column, value) for value in values]


def _without_constants(
    columns: list[Column], texts: Mapping[str, list[str]], rows: int
) -> tuple[list[Column], list[str]]:
    """The columns that differ between rows; and those that do not, with their value."""
    kept: list[Column] = []
    same: list[str] = []
    for column in columns:
        first = texts[column.name][0]
        constant = rows > 1 and len(set(texts[column.name])) == 1
        constant &= column.kind != "free" or _width(first) <= MIN_FREE * 2
        if column.rank and not column.always and (constant or (rows == 1 and first == "-")):
            if first not in {"-", "0", "false"}:
                same.append(f"{column.name} {first}")
        else:
            kept.append(column)
    return kept, same


class _Drawn:
    """A column as it is printed."""

    def __init__(self, column: Column, title: str, texts: Sequence[str]) -> None:
        self.column = column
        self.title = title
        self.texts = texts
        self.is_cut = False
        self.width = max(_width(text) for text in (title, *texts))
        self.is_free = column.kind == "free"
        self.right = all(text == "-" or _is_number(text) for text in texts)

    def cut(self, width: int) -> None:
        """Cut the texts to a width."""
        cut = _cut if self.is_free else _cut_inside
        before, self.texts = list(self.texts), [cut(text, width) for text in self.texts]
        self.is_cut |= self.texts != before
        self.width = max(_width(text) for text in (self.title, *self.texts))

    def cell(self, text: str) -> str:
        """A text, padded to the column's width."""
        padding = " " * (self.width - _width(text))
        return padding + text if self.right else text + padding


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()


def _fit(
    columns: list[Column], texts: Mapping[str, list[str]], width: int, *, may_drop: bool
) -> list[_Drawn]:
    """Fit columns into a width: those to print."""
    cut: set[Column] = set()

    def draw(column: Column, *, short: bool) -> _Drawn:
        drawn = _Drawn(column, (short and column.short) or column.name, texts[column.name])
        drawn.is_cut = column in cut
        return drawn

    def whole(drawn: list[_Drawn]) -> int:
        return _GAP * (len(drawn) - 1) + sum(one.width for one in drawn)

    def may_go(column: Column) -> bool:
        return column.rank > 0 and not (column.identifies and len(set(texts[column.name])) > 1)

    def least(drawn: list[_Drawn]) -> int:
        return _GAP * (len(drawn) - 1) + sum(
            min(one.width, max(MIN_FREE, _width(one.title))) if one.is_free else one.width
            for one in drawn
        )

    drawn = [draw(one, short=False) for one in columns]
    if least(drawn) > width:
        longest = max(width // 2, MIN_FREE)
        for one in drawn:
            stays = not (may_drop and may_go(one.column))
            if stays and not one.is_free and one.width > longest:
                one.cut(longest)
                texts = {**texts, one.column.name: list(one.texts)}
                cut.add(one.column)
        everything = drawn = [draw(one, short=True) for one in columns]
        least_important = sorted(
            (one for one in reversed(everything) if may_drop and may_go(one.column)),
            key=lambda one: -one.column.rank,
        )
        dropped: set[_Drawn] = set()
        for one in least_important:
            if least(drawn) > width:
                dropped.add(one)
                drawn = [other for other in drawn if other is not one]
        for one in reversed(least_important):
            more = [other for other in everything if other is one or other not in dropped]
            if one in dropped and least(more) <= width:
                dropped.remove(one)
                drawn = more
        for number, one in enumerate(drawn):
            more = [*drawn[:number], draw(one.column, short=False), *drawn[number + 1 :]]
            drawn = more if whole(more) <= width else drawn
    free = [one for one in drawn if one.is_free]
    room = width - whole(drawn)
    for one in sorted(free, key=lambda one: -one.width):
        if room < 0:
            before = one.width
            one.cut(max(before + room, MIN_FREE, _width(one.title)))
            room += before - one.width
    return drawn


def _print_lines(drawn: Sequence[_Drawn], rows: Sequence[Row]) -> None:
    for one in drawn:
        if one.column.kind == "free" and one.width > MAX_FREE:
            one.cut(MAX_FREE)
    header = (" " * _GAP).join(one.cell(one.title) for one in drawn).rstrip()
    print(f"\x1b[1m{header}\x1b[0m" if _is_colourful() else header)
    for index in range(len(rows)):
        print((" " * _GAP).join(one.cell(one.texts[index]) for one in drawn).rstrip())


def _is_colourful() -> bool:
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in {"", "dumb"}
    )


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    ellipsis = "…" if (sys.stdout.encoding or "").lower() in {"utf-8", "utf8"} else "..."
    text = text[: width - len(ellipsis)]
    while _width(text) > width - len(ellipsis):
        text = text[:-1]
    return text + ellipsis


def _cut_inside(text: str, width: int) -> str:
    """Cut the middle of a text: names often differ at their ends."""
    if _width(text) <= width:
        return text
    head = _cut(text, width - width // 2)
    tail = text[-(width // 2) :]
    while _width(tail) > width // 2:
        tail = tail[1:]
    return head + tail


def _width(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
