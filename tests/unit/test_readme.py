"""The README cannot lie: what it shows of commands is what they print.

To bring it up to date after an intended change: `python -m tests.unit.test_readme`.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.ledger.schema.reference import reference
from streaming.ledger.schema.schemas import TABLES
from streaming.protocol.commands import READERS
from streaming.protocol.headers import (
    FLAG_BITS,
    INBOUND,
    KIND,
    LANE,
    SEQ,
)
from streaming.protocol.properties import PROPERTIES

CHECKOUT = Path(__file__).resolve().parents[2]
README = CHECKOUT / "README.md"
PURE_COMMANDS = ("--help", "check", "route", "diagram", "simulate", "config")
CONSOLE = re.compile(r"^```console\n(?P<session>.*?)^```$", re.MULTILINE | re.DOTALL)
DRAWING = re.compile(
    r"^<!-- (?P<command>\./dlx diagram .*) -->\n```mermaid\n(?P<picture>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COLUMNS = re.compile(r"^<!-- columns of (?P<table>\w+) -->\n(?P<rows>(?:^\|.*\n)*)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)(?P<target>[^)#]+)")


def run(command):
    """What a `./dlx ...` line prints on stdout, run from the root of the checkout."""
    program, *arguments = shlex.split(command, comments=True)
    assert program == "./dlx", command
    finished = subprocess.run(
        [sys.executable, "-P", "-m", "streaming.cli", *arguments],
        cwd=CHECKOUT,
        env=os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return finished.stdout


def session_of(shown):
    """A console block as it would be now; commands that are not pure keep what is shown."""
    lines = []
    for part in re.split(r"^(?=\$ )", shown, flags=re.MULTILINE):
        command, _, output = part.partition("\n")
        if command.startswith("$ ./dlx ") and command.split()[2] in PURE_COMMANDS:
            output = run(command.removeprefix("$ "))
        if command:
            lines.append(f"{command}\n{output}")
    return "".join(lines)


def blocks():
    """Each checked block of the README: its name, what it shows, and what it should show."""
    text = README.read_text("utf-8")
    for found in CONSOLE.finditer(text):
        yield found["session"].partition("\n")[0], found.span("session"), session_of
    for found in DRAWING.finditer(text):
        command = found["command"]
        yield command, found.span("picture"), lambda _, command=command: run(command)
    for found in COLUMNS.finditer(text):
        name = found["table"]
        yield f"columns of {name}", found.span("rows"), lambda _, name=name: columns_of(name)


def columns_of(name):
    """The columns of a table as Markdown: what the schema says of them."""
    (table,) = (each for each in reference() if each.name == name)
    rows = [f"| `{name}` | {kind} | {description} |" for name, kind, description in table.columns]
    return "\n".join(["| column | type | what it is |", "|---|---|---|", *rows]) + "\n"


BLOCKS = tuple(blocks())


@pytest.mark.parametrize(
    ("span", "now"), [block[1:] for block in BLOCKS], ids=[block[0] for block in BLOCKS]
)
def test_a_block_shows_what_its_commands_print(span, now):
    shown = README.read_text("utf-8")[slice(*span)]

    assert shown == now(shown)


def test_the_readme_has_a_picture_and_runs_the_pure_commands():
    names = " ".join(name for name, _, _ in BLOCKS)

    assert all(command in names for command in ("--help", "check", "route", "diagram"))


def test_the_readme_has_the_columns_of_every_table():
    text = README.read_text("utf-8")

    assert {found["table"] for found in COLUMNS.finditer(text)} == TABLES.keys()


def test_the_wire_page_names_every_op_property_and_header():
    text = README.read_text("utf-8")
    page = text[text.index("## Speak to it") : text.index("## What is guaranteed")]
    named = set(re.findall(r"`([^`]+)`", page))
    outbound = {KIND, SEQ, LANE, *("delivery", "confirm", "return", "publish_error", "answer")}

    assert READERS.keys() - {"tick"} <= named
    assert {*INBOUND, *PROPERTIES, *FLAG_BITS, *outbound} <= named


def test_every_file_and_folder_that_the_readme_names_exists():
    text = README.read_text("utf-8")
    folders = re.findall(r"^\| `([^`]+/)` \|", text, re.MULTILINE)
    named = [found["target"] for found in LINK.finditer(text)]
    named += re.findall(r"\bexamples/[\w./-]+\.json\b", text)

    assert folders
    assert [name for name in (*folders, *named) if not (CHECKOUT / name).exists()] == []


def rewrite():
    """Put what the commands print now into the README."""
    text = README.read_text("utf-8")
    for _, (start, end), now in sorted(blocks(), key=lambda block: block[1], reverse=True):
        text = text[:start] + now(text[start:end]) + text[end:]
    README.write_text(text, "utf-8")


if __name__ == "__main__":
    rewrite()
