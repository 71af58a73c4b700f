"""Text on its way to a terminal or a pipe: no name and no body is obeyed there, or breaks it."""

import io
import sys


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
