"""Names and bodies with control or unencodable characters, in any command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.cli.output import print_json
from tests.unit.queries.shop import a_shop

FULL = Path("/dev/full")
COMMAND = (sys.executable, "-P", "-m", "streaming.cli")


@pytest.fixture
def peek_in_ascii(tmp_path):
    """A function that peeks at a body with `é` where stdout is ASCII; gives what is printed."""
    a_shop(tmp_path)

    def run(*options):
        return subprocess.run(
            (*COMMAND, "queues", "peek", "dead", "--tables", tmp_path, *options),
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return run


def test_an_error_shows_what_was_given_without_obeying_it(dlx, tmp_path):
    a_shop(tmp_path)

    status, _, err = dlx("queues", "peek", "dea\x1b[31m", "--tables", tmp_path)
    unknown = dlx("queues", "list", "--tables", f"{tmp_path}/\x1b[2J")

    assert status == 2
    assert "\x1b" not in err + unknown[2]


def test_a_stream_that_lacks_a_character_shows_its_escape(peek_in_ascii):
    assert "order 2 \\x07\\xe9 line" in peek_in_ascii()


def test_json_stays_json_in_any_encoding(peek_in_ascii, capsys):
    [row] = [json.loads(line) for line in peek_in_ascii("--json").splitlines()]
    print_json({"body": "é"})

    assert row["body"] == "order 2 \x07é\nline"
    assert capsys.readouterr().out == '{"body":"é"}\n'


def printing(command, stdout):
    """A command whose stdout goes there: its exit status, and what it says."""
    ended = subprocess.run(
        (*COMMAND, *command), stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("config", "show"),
        ("check", "examples/shop/definitions.json"),
        ("route", "examples/shop/definitions.json", "orders", "order.eu.created"),
        ("simulate", "examples/retry.json", "examples/dead-letter-rejected.json", "--json"),
    ],
)
def test_a_full_disk_is_reported_in_one_line(command):
    with FULL.open("wb") as full:
        assert printing(command, full) == (2, "cannot write the output: No space left on device\n")


def test_a_full_disk_is_reported_for_tables_too(tmp_path):
    a_shop(tmp_path)

    with FULL.open("wb") as full:
        status = printing(("queues", "list", "--tables", str(tmp_path)), full)

    assert status == (2, "cannot write the output: No space left on device\n")


def test_a_full_disk_for_stderr_too_still_exits():
    with FULL.open("wb") as full:
        ended = subprocess.run((*COMMAND, "config", "show"), stdout=full, stderr=full, check=False)

    assert ended.returncode == 2


@pytest.mark.parametrize("command", [("--help",), ("config", "show")])
def test_a_closed_pipe_is_silent(command):
    reading, writing = os.pipe()
    os.close(reading)

    status, err = printing(command, writing)
    os.close(writing)

    assert err == ""
    assert status in {0, 1}
