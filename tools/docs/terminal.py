"""Terminal recordings: a program runs in a pseudo-terminal, and its screen becomes an SVG."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

COLUMNS: Final = 110
MAX_COLUMNS: Final = 150
ROWS: Final = 60

_CONTROL: Final = re.compile(r"\x1b\[(?P<numbers>[\d;?]*)(?P<letter>[A-Za-z])|(?P<plain>[\r\n])")

# Rich's own picture of a terminal, without its fonts from the network.
_PICTURE: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; \
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">\
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def record(command: Sequence[str], folder: Path) -> list[str]:
    """Run a program in a pseudo-terminal.

    Returns:
        The lines that it leaves on the screen, with their colours.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    ) as program:
        os.close(theirs)
        printed = b"".join(iter(lambda: _read(ours), b""))
        assert program.stderr is not None
        said = program.stderr.read()
    os.close(ours)
    if program.returncode:
        raise subprocess.CalledProcessError(program.returncode, list(command), printed, said)
    return screen(printed.decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the program has closed its side
        return b""


def screen(printed: str) -> list[str]:
    """What is left on an endless screen: lines that were drawn over are gone."""
    lines = [""]
    row = place = 0
    for found in _CONTROL.finditer(printed):
        _write(lines, row, printed[place : found.start()])
        place = found.end()
        match found["plain"] or found["letter"]:
            case "\n":
                row += 1
            case "A":
                row = max(0, row - int(found["numbers"] or 1))
            case "K":
                lines[row : row + 1] = [""]
            case "m":
                _write(lines, row, found[0])
        while len(lines) <= row:
            lines.append("")
    _write(lines, row, printed[place:])
    return lines


def _write(lines: list[str], row: int, text: str) -> None:
    lines[row] += text


def picture(lines: Sequence[str], name: str) -> str:
    """An SVG of a terminal with these lines, as wide as they need within reason.

    Args:
        name: what the styles of this picture begin with.
    """
    texts = [Text.from_ansi(line) for line in lines]
    width = min(MAX_COLUMNS, max(text.cell_len for text in texts) + 1)
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    for text in texts:
        text.truncate(width, overflow="ellipsis")
        console.print(text, soft_wrap=True)
    return console.export_svg(
        title="dlx", theme=SVG_EXPORT_THEME, code_format=_PICTURE, unique_id=name
    )
