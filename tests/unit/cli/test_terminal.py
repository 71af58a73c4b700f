"""Names and bodies that a terminal would obey, or does not have, whatever the command."""

import json
import os
import subprocess
import sys

import pytest

from streaming.cli.listing import print_json, print_rows
from tests.unit.tables.shop import a_shop

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


def test_no_cell_of_a_table_breaks_its_line_or_commands_the_terminal(capsys):
    print_rows(("QUEUE", "READY"), [("\x1b[31mred\nline", 1), ("b\u0085", 2)])

    assert capsys.readouterr().out == (
        "QUEUE              READY\n\\x1b[31mred\\nline      1\nb\\x85                  2\n"
    )


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
