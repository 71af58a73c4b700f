"""The prose of commands, compared with one file per command in `snapshots/`.

After a change of wording, renew the files, then read the difference before you commit it:

    DLX_RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest tests/unit/cli/test_snapshots.py

Other tests assert exit codes, fields and names, and leave the wording to these files. The help of
every command is in docs/cli.md.
"""

import os
import shlex
from pathlib import Path

import pytest
import typer

from streaming.cli.main import build_app

SNAPSHOTS = Path(__file__).parent / "snapshots"
CHECKOUT = Path(__file__).resolve().parents[3]
COLUMNS = 80

TABLES = "TABLES"
"""Stands for the folder of the shop's tables."""

EXAMPLES: dict[str, list[tuple[str, ...]]] = {
    "balance": [
        ("balance", "--tables", TABLES),
        ("balance", "--vhost", "other", "--tables", TABLES),
    ],
    "check": [("check", "examples/shop/definitions.json")],
    "dead-letters list": [
        ("dead-letters", "list", "--tables", TABLES),
        ("dead-letters", "list", "--vhost", "other", "--tables", TABLES),
        ("dead-letters", "list", "--queue", "biling", "--tables", TABLES),
        ("dead-letters", "list", "--reason", "rejectd", "--tables", TABLES),
        ("dead-letters", "list", "--since", "noon", "--tables", TABLES),
        ("dead-letters", "list", "--where", "queu = 1", "--tables", TABLES),
    ],
    "dead-letters show": [
        *[("dead-letters", "show", f"0/0/{offset}", "--tables", TABLES) for offset in range(9)],
        ("dead-letters", "show", "1/2/3", "--tables", TABLES),
    ],
    "demo": [
        ("demo", "--config", "examples/shop/definitions.json"),
        ("demo", "--traffic-only", "--keep"),
    ],
    "diagram": [("diagram", "examples/shop/definitions.json")],
    "bindings list": [("bindings", "list", "--tables", TABLES)],
    "bindings show": [("bindings", "show", "dlx", "--tables", TABLES)],
    "clients channels list": [("clients", "channels", "list", "--tables", TABLES)],
    "clients channels show": [("clients", "channels", "show", "clark", "--tables", TABLES)],
    "clients connections list": [("clients", "connections", "list", "--tables", TABLES)],
    "clients consumers list": [("clients", "consumers", "list", "--tables", TABLES)],
    "exchanges list": [("exchanges", "list", "--columns", "nam", "--tables", TABLES)],
    "exchanges show": [("exchanges", "show", "orders", "--tables", TABLES)],
    "overview": [("overview", "--tables", TABLES)],
    "permissions list": [("permissions", "list", "--tables", TABLES)],
    "policies list": [("policies", "list", "--tables", TABLES)],
    "quarantine list": [("quarantine", "list", "--since", "noon", "--tables", TABLES)],
    "queues show": [("queues", "show", "billing", "--tables", TABLES)],
    "publish": [("publish", "--lines", "body"), ("publish", "b", "--property", "priority=high")],
    "queues list": [
        ("queues", "list", "--tables", TABLES),
        ("queues", "list", "--vhost", "other", "--tables", TABLES),
    ],
    "queues peek": [
        ("queues", "peek", "dead", "--tables", TABLES),
        ("queues", "peek", "mail", "--unacked", "--tables", TABLES),
        ("queues", "peek", "gone", "--tables", TABLES),
    ],
    "route": [("route", "examples/shop/definitions.json", "orders", "order.eu.created")],
    "simulate": [
        ("simulate", "examples/dead-letter-rejected.json"),
        ("simulate", "--check", "examples/retry.json"),
    ],
    "tables info": [("tables", "info", "--tables", "missing")],
}


def commands(group, path=()):
    """The names of all commands and groups, as a user types them."""
    yield " ".join(path)
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


COMMANDS = sorted(commands(typer.main.get_command(build_app())))


@pytest.fixture
def transcript(dlx, shop_root, monkeypatch):
    """A function that runs a command and returns what a user sees."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.chdir(CHECKOUT)
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*arguments):
        status, out, err = dlx(*[shop_root if each == TABLES else each for each in arguments])
        shown = f"$ dlx {shlex.join(arguments)}"
        parts = (shown, out.rstrip(), f"--- stderr\n{err.rstrip()}" if err else "")
        text = "\n".join(part for part in parts if part).replace(str(shop_root), TABLES)
        return f"{text}\n--- exit status {status}\n"

    return run


@pytest.mark.parametrize("command", EXAMPLES)
def test_a_command_prints_what_its_snapshot_says(transcript, command):
    printed = "\n".join(transcript(*invocation) for invocation in EXAMPLES[command])
    file = SNAPSHOTS / f"{command.replace(' ', '-')}.txt"
    if os.environ.get("DLX_RENEW_SNAPSHOTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(printed, "utf-8")

    assert printed == file.read_text("utf-8")


def test_every_snapshot_is_of_a_command():
    found = {file.stem for file in SNAPSHOTS.iterdir()}

    assert found == {command.replace(" ", "-") for command in EXAMPLES}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command or "dlx")
def test_help_fits_a_terminal_of_80_columns(transcript, command):
    lines = transcript(*command.split(), "--help").splitlines()

    assert any(line.startswith("Usage: dlx") for line in map(str.strip, lines))
    assert [line for line in lines if len(line) > COLUMNS] == []
