"""`dlx simulate` in a terminal, and with encodings that lack characters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
COMMAND = (sys.executable, "-P", "-m", "streaming.cli", "simulate")
EXAMPLE = "examples/dead-letter-rejected.json"
RED, RESET = "\x1b[31m", "\x1b[0m"


def at_a_terminal(*arguments, **environment):
    """What the command writes to a terminal."""
    mine, its = os.openpty()
    process = subprocess.Popen(
        (*COMMAND, *arguments),
        cwd=CHECKOUT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment},
        stdin=subprocess.DEVNULL,
        stdout=its,
    )
    os.close(its)
    chunks = []
    while chunk := _read(mine):
        chunks.append(chunk)
    os.close(mine)
    assert process.wait() == 0
    return b"".join(chunks).decode().replace("\r\n", "\n")


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side is closed
        return b""


def piped(**environment):
    """What the command writes into a pipe."""
    finished = subprocess.run(
        (*COMMAND, EXAMPLE),
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout


def test_a_terminal_shows_the_same_text_in_colour(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)

    shown = at_a_terminal(EXAMPLE)

    died = "            'Rejected_message' dies in queue 'Consumer_1': rejected without requeue"
    assert f"{RED}{died}{RESET}\n" in shown
    for code in ("1", "1;36", "2", "31", "32", "33", "0"):
        shown = shown.replace(f"\x1b[{code}m", "")
    assert shown == piped()


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colours_can_be_switched_off(environment):
    assert RED not in at_a_terminal(EXAMPLE, **environment)


def test_a_stream_that_lacks_a_character_shows_its_escape(tmp_path):
    text = (CHECKOUT / EXAMPLE).read_text("utf-8").replace("Rejected_message", "Re\u017eected")
    (tmp_path / "s.json").write_text(text, "utf-8")

    finished = subprocess.run(
        (*COMMAND, tmp_path / "s.json"),
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )

    assert b"'Re\\u017eected' dies in queue 'Consumer_1'" in finished.stdout


def test_a_closed_pipe_is_not_a_traceback():
    process = subprocess.Popen(
        (*COMMAND, "--json", "--check", *["examples"] * 50),
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()

    complaint = process.stderr.read()
    process.stderr.close()
    process.wait()

    assert b"Traceback" not in complaint
