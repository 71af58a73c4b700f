"""Text on its way to a terminal or a pipe: no name and no body is obeyed there, or breaks it."""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from streaming.cli.exit_codes import EXIT_INVALID

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def printable(text: str) -> str:
    """A line without anything that a terminal would obey, the end of a line included."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def printable_lines(text: str) -> str:
    """As `printable`, but lines stay lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def survive_any_text() -> None:
    """Let what the terminal's encoding does not have be escaped, and be no error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def written_out() -> Iterator[None]:
    """Bring out what is printed, to the end; a full disk is told in a line, and ends the process.

    That the reader has gone (`| head -1`) is no fault, and not worth a word.
    """
    try:
        try:
            yield
        except SystemExit:
            _flush()
            raise
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        what = error.filename or "the output"
        _forget_stdout()
        with suppress(OSError):
            print(printable(f"cannot write {what}: {error.strerror}"), file=sys.stderr)
        sys.exit(EXIT_INVALID)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()


def _forget_stdout() -> None:
    """Let what stdout does not take go nowhere, or Python complains of it at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
