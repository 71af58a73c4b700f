"""The command line, run in this process."""

import json
import sys

import pytest

from streaming.cli.main import main


@pytest.fixture(autouse=True)
def user_folders(tmp_path_factory, monkeypatch):
    """Empty folders of the user, so that no test finds the demo of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    for variable in ("DLX_CONFIG", "DLX_VHOST"):
        monkeypatch.delenv(variable, raising=False)
    return home


@pytest.fixture
def dlx(monkeypatch, capsys):
    """A function that runs a command and returns (exit status, stdout, stderr)."""

    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("DLX_TZ", "UTC")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["dlx", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        return exit_.value.code, captured.out, captured.err

    return run


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A function that writes a JSON file into the working directory and returns its name."""
    monkeypatch.chdir(tmp_path)

    def to_file(document, name="definitions.json"):
        text = document if isinstance(document, str) else json.dumps(document)
        (tmp_path / name).write_text(text)
        return name

    return to_file
