"""The recorded terminals of the documentation: `./dlx demo`, and the story of a dead letter.

The pictures of the console are taken by the test of its story, of another demo.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.text import Text

from tools.docs.markdown import DOCS
from tools.docs.terminal import picture, record

IMAGES: Final = DOCS / "images"
SECONDS: Final = 30
DLX: Final = (sys.executable, "-P", "-m", "streaming.cli")

_HEADING: Final = re.compile(r"(?:\x1b\[[\d;]*m)*(?P<words>[A-Z][^\x1b]*)")
_VIEW: Final = re.compile(r"\[ *[\d-]+/\d+ s\] ")
_END_OF_VIEW: Final = "console "
_TOKEN: Final = re.compile(r"token=[\w-]+")
USERS_FOLDER: Final = "~/.cache/dlx-stream/demo"
_SHOWN: Final = ("Dead letters", "Balance")
_OMITTED: Final = ("Some of them", "Where everything is", "Query the dead letters")


def renew() -> list[str]:
    """Run the demo and write both pictures; their files."""
    with tempfile.TemporaryDirectory(prefix="dlx-docs-") as folder:
        root = Path(folder)
        shown = record((*DLX, "demo", "--dir", str(root / "demo"), "--seconds", str(SECONDS)), root)
        message = _retried_message(root)
        story = record((*DLX, "dead-letters", "show", message, "--tables", "demo/tables"), root)
    return draw(shown, str(root / "demo"), message, story)


def draw(shown: Sequence[str], folder: str, message: str, story: Sequence[str]) -> list[str]:
    """Write both pictures of what was recorded; their files.

    Args:
        shown: the screen of the demo.
        folder: of the demo.
        message: the id of the message of the story.
    """
    demo = ["$ ./dlx demo", *abridged(shown, folder)]
    told = [f"$ ./dlx dead-letters show {message}", *_without_end(story)]
    for name, lines in (("demo", demo), ("dead-letter", told)):
        (IMAGES / f"{name}.svg").write_text(picture(lines, name), "utf-8")
    return ["docs/images/demo.svg", "docs/images/dead-letter.svg"]


def _retried_message(root: Path) -> str:
    """The latest message that was rejected once, waited, and came back."""
    listed = subprocess.run(
        (
            *DLX,
            "dead-letters",
            "list",
            "--queue",
            "payments.retry",
            "--json",
            "--limit",
            "0",
            "--tables",
            "demo/tables",
        ),
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    times = Counter(row["message_id"] for row in rows)
    return str(next(row["message_id"] for row in rows if times[row["message_id"]] == 1))


def abridged(lines: Sequence[str], folder: str) -> list[str]:
    """The screen without the parts that are long: each leaves a line with dots.

    Of the live views only the first one stays, which has the queues when the shop closes. Where the
    demo keeps its files is that of a user, and the token of the console is left out.
    """
    kept: list[str] = []
    omitting = False
    views = 0
    in_view = False
    for shown in lines:
        line = _TOKEN.sub("token=...", shown.replace(folder, USERS_FOLDER))
        plain = Text.from_ansi(line).plain
        if _VIEW.match(plain):
            views, in_view = views + 1, True
        if in_view:
            kept += [line] if views == 1 else []
            in_view = not plain.startswith(_END_OF_VIEW)
            continue
        heading = _HEADING.match(line)
        words = heading["words"] if heading else ""
        if words.startswith(_OMITTED):
            kept += [] if omitting else ["...", ""]
            omitting = True
        elif words.startswith(_SHOWN):
            omitting = False
        if not omitting:
            kept.append(line)
    return _without_end(kept)


def _without_end(lines: Sequence[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept
