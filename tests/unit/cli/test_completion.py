"""`dlx config completion`: the scripts, and what a real shell completes with one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
COMMAND = (sys.executable, "-P", "-m", "streaming.cli")


def completed(words, folder):
    """What bash offers for the last of the words."""
    program = folder / "dlx"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m streaming.cli "$@"\n')
    program.chmod(0o755)
    listed = " ".join(f"'{word}'" for word in words)
    script = (
        f'PATH="{folder}:$PATH"; eval "$(dlx config completion bash)"; set -- $(complete -p dlx); '
        f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; "
        "while [ $1 != -F ]; do shift; done; $2 dlx; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    ended = subprocess.run(
        ["bash", "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    return ended.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="completes in bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("dlx", "dead"), "dead-letters"),
        (("dlx", "queues", "li"), "list"),
        (("dlx", "queues", "list", "--tab"), "--tables"),
    ],
)
def test_bash_completes_commands_groups_and_options(words, offered, tmp_path):
    assert completed(words, tmp_path) == [offered]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_is_named_or_that_of_the_user(dlx, shell, monkeypatch):
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")

    assert dlx("config", "completion") == dlx("config", "completion", shell)
    assert "_DLX_COMPLETE" in dlx("config", "completion")[1]


def test_another_shell_is_refused(dlx, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/tcsh")

    assert dlx("config", "completion")[:2] == (2, "")
    assert dlx("config", "completion", "tcsh")[:2] == (2, "")
