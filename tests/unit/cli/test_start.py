"""How a process of `dlx` begins and ends: streams that are closed, and Ctrl-C at any time."""

import os
import signal
import subprocess
import sys

import pytest

from streaming.cli.exit_codes import EXIT_INTERRUPTED
from tests.fixtures.child import Child

COMMAND = (sys.executable, "-P", "-m", "streaming.cli")
ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"


def in_shell(command, redirection):
    """Run a command with a redirection of a shell: status, stdout and stderr."""
    line = f'"$@" {redirection}'
    ended = subprocess.run(
        ("sh", "-c", line, "sh", *COMMAND, *command), capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_as_one_to_nowhere(redirection):
    status, out, err = in_shell(("check", "examples/shop/definitions.json"), redirection)

    said = "" if " >&-" in f" {redirection}" else "valid, no warnings"
    assert (status, err) == (0, "")
    assert said in out


def test_a_query_without_stdin_says_what_to_give(shop_root):
    status, out, err = in_shell(("query", "--tables", str(shop_root)), "<&-")

    assert (status, out) == (2, "")
    assert "give a statement" in err


def interrupted(*command):
    """Start a command, interrupt it after its first line of output: status, and stderr."""
    process = Child(
        (*COMMAND, *command),
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.line()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    return process.returncode, err


@pytest.mark.parametrize("threads", [1, 4])
def test_an_interrupted_query_ends_without_a_word(shop_root, threads):
    """With several threads, the first one waits for the others and looks for no signal."""
    many = f"SET threads = {threads}"
    ended = interrupted(
        "query", f"{many}; SELECT 1; {ENDLESS}", "--json", "--tables", str(shop_root)
    )

    assert ended == (EXIT_INTERRUPTED, "")
