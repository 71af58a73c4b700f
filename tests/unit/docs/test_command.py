"""`dlx docs`: the programs that it runs, and its refusals."""

import sys

import pytest

from streaming.cli.develop import commands as development
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INVALID, EXIT_OK

ACTIONS = ("serve", "generate", "record", "measure")


@pytest.fixture
def calls(monkeypatch):
    """The programs that are started; each exits with `calls.status`."""

    class Calls(list[tuple[str, ...]]):
        status = 0

        def run(self, command, *, cwd, check):
            self.append(command)
            return self

        @property
        def returncode(self):
            return self.status

    made = Calls()
    monkeypatch.setattr("streaming.cli.develop.commands.subprocess.run", made.run)
    return made


@pytest.mark.parametrize("action", ACTIONS)
def test_every_option_runs_its_step(calls, action):
    wanted = dict.fromkeys(ACTIONS, False) | {action: True}

    assert development.build_docs(**wanted) == EXIT_OK
    assert calls == [(sys.executable, "-m", "tools.docs", action)]


def test_without_an_option_the_site_is_built(calls):
    development.build_docs(**dict.fromkeys(ACTIONS, False))

    assert calls == [(sys.executable, "-m", "tools.docs", "build")]


def test_a_failed_step_ends_the_command(calls):
    calls.status = 1

    assert development.build_docs(**dict.fromkeys(ACTIONS, True)) == EXIT_FINDINGS
    assert len(calls) == 1


def test_outside_a_checkout_it_refuses(calls, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(development, "ROOT", tmp_path)

    assert development.build_docs(**dict.fromkeys(ACTIONS, False)) == EXIT_INVALID
    assert str(tmp_path) in capsys.readouterr().err
    assert calls == []
