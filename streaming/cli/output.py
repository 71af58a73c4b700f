"""What commands print: text that is safe in a terminal, tables, JSON, and lines in colour."""

import errno
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Annotated, Any, Final, cast

import msgspec
import typer

from streaming.cli.exit_codes import EXIT_INVALID
from topology.sentences import plain

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one value per line.")]

PREVIEW_CHARACTERS: Final = 60

COLOURS: Final = {
    "title": "bold",
    "head": "bold cyan",
    "plain": "",
    "good": "green",
    "bad": "red",
    "moved": "yellow",
    "quiet": "dim",
}
"""Style by tone."""

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def printable(text: str) -> str:
    """Escape everything in a line that a terminal would interpret, line ends included."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def printable_lines(text: str) -> str:
    """Escape like `printable`, but keep line ends."""
    return "\n".join(printable(line) for line in text.split("\n"))


def readable(value: object) -> str:
    """Return a body or header value as text for people; control characters are escaped.

    Args:
        value: text, or typed JSON such as `{"$bytes": base64}`.
    """
    if isinstance(value, Mapping):
        return compact(value)
    return printable_lines("" if value is None else str(value))


def preview(value: object) -> str:
    """Return the beginning of a body on one line."""
    text = readable(value).replace("\n", " ")
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[: PREVIEW_CHARACTERS - 3]}..."


def compact(value: Mapping[str, Any]) -> str:
    """Return a table as one line of JSON."""
    return msgspec.json.encode(value).decode()


def print_json(value: object) -> None:
    """Print a value as one line of JSON, valid in any encoding of stdout."""
    text = msgspec.json.encode(value, enc_hook=plain).decode()
    if not text.isascii() and (sys.stdout.encoding or "").lower() not in {"utf-8", "utf8"}:
        text = "".join(one if one.isascii() else json.dumps(one)[1:-1] for one in text)
    print(text)


def print_in_colour(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines, each a text and its tone; the terminal wraps long ones."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    for text, tone in lines:
        console.print(Text(printable(text), style=COLOURS[tone]), soft_wrap=True)


def lasting_stderr() -> IO[str]:
    """Stderr for a progress bar, which outlives its terminal: later text is lost."""
    return cast("IO[str]", _LastingStderr())


class _LastingStderr(io.TextIOBase):
    """What is stderr now: a progress bar replaces `sys.stderr` by a stream that prints above it."""

    def __init__(self) -> None:
        self._stream = sys.stderr

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def escape_unencodable() -> None:
    """Escape characters that the encoding of stdout and stderr lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def flushed_output() -> Iterator[None]:
    """Flush stdout at the end. A full disk is reported in one line and exits with 2.

    A reader that is gone (`| head -1`) is not an error.
    """
    try:
        try:
            yield
        except SystemExit:
            try:
                sys.stdout.flush()
            except BrokenPipeError:
                _discard_stdout()
            raise
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        _discard_stdout()
        with suppress(OSError):
            what = error.filename or "the output"
            print(printable(f"cannot write {what}: {error.strerror}"), file=sys.stderr)
        sys.exit(EXIT_INVALID)


def _discard_stdout() -> None:
    """Send the rest of stdout nowhere; otherwise Python complains when it exits."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
