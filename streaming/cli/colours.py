"""Lines in colour, for people at a terminal."""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from streaming.cli.terminal import printable

STYLES = {
    "title": "bold",
    "head": "bold cyan",
    "plain": "",
    "good": "green",
    "bad": "red",
    "moved": "yellow",
    "quiet": "dim",
}
"""By tone."""


def print_in_colour(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines, each a text and its tone; long ones are wrapped by the terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    for text, tone in lines:
        console.print(Text(printable(text), style=STYLES[tone]), soft_wrap=True)
