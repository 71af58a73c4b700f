"""Rows on the screen: a drawn table for people at a terminal, plain columns for everything else."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from streaming.cli.terminal import printable, printable_lines

PREVIEW_CHARACTERS: Final = 60


def print_rows(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under titles. Numbers stand right, None is a dash."""
    written = [["-" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    numeric = [
        bool(written)
        and all(row[column].lstrip("-").isdigit() or row[column] == "-" for row in written)
        for column in range(len(titles))
    ]
    if sys.stdout.isatty():
        _draw(titles, written, numeric)
        return
    widths = [
        max(len(title), *(len(row[column]) for row in written), 0)
        for column, title in enumerate(titles)
    ]
    for row in (titles, *written):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _draw(titles: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for title, right in zip(titles, numeric, strict=True):
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False, markup=False, emoji=False).print(table)


def print_json(value: object) -> None:
    """Print one value as one line of JSON, whatever the encoding of the stream."""
    text = msgspec.json.encode(value).decode()
    if not text.isascii() and (sys.stdout.encoding or "").lower() not in {"utf-8", "utf8"}:
        text = "".join(one if one.isascii() else json.dumps(one)[1:-1] for one in text)
    print(text)


def compact(value: Mapping[str, Any]) -> str:
    """A table as one line of JSON, for people."""
    return msgspec.json.encode(value).decode()


def readable(value: object) -> str:
    """A body or header value to be read: what cannot be shown is escaped, lines stay lines.

    Args:
        value: text, or typed JSON such as `{"$bytes": base64}`.
    """
    if isinstance(value, Mapping):
        return compact(value)
    text = "" if value is None else str(value)
    return printable_lines(text)


def preview(value: object) -> str:
    """The beginning of a body on one line."""
    text = readable(value).replace("\n", " ")
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[: PREVIEW_CHARACTERS - 3]}..."
