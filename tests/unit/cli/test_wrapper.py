"""The `dlx` script at the root and the environment it makes.

uv is played by a script that notes its calls and installs nothing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.cli import bootstrap_venv as environment

CHECKOUT = Path(__file__).resolve().parents[3]

FAKE_UV = """#!/bin/sh
sleep 0.1
echo "$*" >> "{calls}"
exit "$(cat "{status}")"
"""


class Clone:
    """A checkout with the real wrapper and a command that prints its arguments."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = root / "calls"
        self.uv_status = root / "status"
        self.uv_status.write_text("0")
        (root / "requirements.lock").write_text("rich==1\n")
        shutil.copy(CHECKOUT / "dlx", root / "dlx")
        cli = root / "streaming" / "cli"
        cli.mkdir(parents=True)
        shutil.copy(CHECKOUT / "streaming/cli/bootstrap_venv.py", cli)
        (cli / "__main__.py").write_text("import sys\nprint('ran', sys.argv[1:], sys.path[-1])\n")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
        uv = root / ".venv" / "bin" / "uv"
        uv.write_text(FAKE_UV.format(calls=self.calls, status=self.uv_status))
        uv.chmod(0o755)

    def start(
        self, *arguments: str, script: Path | None = None, cwd: Path
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [script or self.root / "dlx", *arguments],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(cwd), "UV_DEFAULT_INDEX": ""},
        )

    def run(self, *arguments: str, script: Path | None = None, cwd: Path) -> tuple[int, str]:
        process = self.start(*arguments, script=script, cwd=cwd)
        stdout, _ = process.communicate(timeout=60)
        return process.returncode, stdout

    def installs(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def clone(tmp_path):
    root = tmp_path / "a checkout"
    root.mkdir()
    return Clone(root)


@pytest.fixture
def elsewhere(tmp_path):
    """A working directory that holds a package of the same name as ours."""
    folder = tmp_path / "elsewhere"
    (folder / "streaming").mkdir(parents=True)
    (folder / "streaming" / "__init__.py").write_text("raise ImportError('not ours')")
    return folder


def test_the_first_use_installs_the_lock_and_the_next_ones_nothing(clone, elsewhere):
    first = clone.run("check", "a b", cwd=elsewhere)
    second = clone.run(cwd=elsewhere)

    assert first == (0, f"ran ['check', 'a b'] {clone.root}\n")
    assert second == (0, f"ran [] {clone.root}\n")
    assert clone.installs() == 1


def test_uv_is_told_to_check_the_hashes_and_to_install_into_this_environment(clone, elsewhere):
    clone.run(cwd=elsewhere)

    python = clone.root / ".venv" / "bin" / "python"
    pins = clone.root / "build-constraints.txt"
    lock = clone.root / "requirements.lock"
    assert clone.calls.read_text() == (
        f"pip sync --python {python} --build-constraints {pins} --require-hashes {lock}\n"
    )


def test_a_changed_lock_is_installed_once(clone, elsewhere):
    clone.run(cwd=elsewhere)
    (clone.root / "requirements.lock").write_text("rich==2\n")

    clone.run(cwd=elsewhere)
    clone.run(cwd=elsewhere)

    assert clone.installs() == 2


def test_processes_started_together_install_once_and_all_run(clone, elsewhere):
    together = [clone.start(str(number), cwd=elsewhere) for number in range(3)]

    outcomes = [(process.communicate(timeout=60)[0], process.returncode) for process in together]

    assert outcomes == [(f"ran ['{number}'] {clone.root}\n", 0) for number in range(3)]
    assert clone.installs() == 1


def test_a_failed_installation_stops_the_command_and_is_tried_again(clone, elsewhere):
    clone.uv_status.write_text("3")

    failed = clone.run(cwd=elsewhere)
    clone.uv_status.write_text("0")
    repeated = clone.run(cwd=elsewhere)

    assert failed == (3, "")
    assert repeated == (0, f"ran [] {clone.root}\n")


def test_the_wrapper_is_found_through_symbolic_links(clone, elsewhere):
    (elsewhere / "first").symlink_to(clone.root / "dlx")
    (elsewhere / "second").symlink_to("first")

    outcome = clone.run("x", script=elsewhere / "second", cwd=elsewhere)

    assert outcome == (0, f"ran ['x'] {clone.root}\n")


def test_a_moved_checkout_imports_itself_from_its_new_place(clone, elsewhere):
    clone.run(cwd=elsewhere)
    moved = clone.root.with_name("moved")
    clone.root.rename(moved)

    outcome = clone.run(script=moved / "dlx", cwd=elsewhere)

    assert outcome == (0, f"ran [] {moved}\n")


def test_an_environment_whose_interpreter_is_gone_is_made_anew(clone):
    python = clone.root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")

    assert not environment.runs(python)
    assert not environment.is_current(clone.root)


def test_without_a_recent_python_the_wrapper_says_what_it_needs(clone, tmp_path):
    only_shell_tools = tmp_path / "bin"
    only_shell_tools.mkdir()
    for tool in ("sh", "dirname", "readlink", "cmp"):
        (only_shell_tools / tool).symlink_to(shutil.which(tool) or "")
    (only_shell_tools / "python3").write_text("#!/bin/sh\nexit 1\n")
    (only_shell_tools / "python3").chmod(0o755)

    outcome = subprocess.run(
        [clone.root / "dlx"],
        env={"PATH": str(only_shell_tools)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (outcome.returncode, outcome.stdout) == (1, "")
    assert outcome.stderr.startswith("dlx: no Python 3.11 or newer with the venv module")


def test_the_shipped_lock_pins_uv_with_hashes():
    entry = environment.lock_entry((CHECKOUT / "requirements.lock").read_text(), "uv")

    first, second, *_ = entry.splitlines()
    assert first.startswith("uv==")
    assert second.strip().startswith("--hash=sha256:")
    assert "\nuvicorn" not in entry


def test_a_lock_without_the_package_is_reported():
    with pytest.raises(ValueError, match=r"requirements\.lock does not pin uv"):
        environment.lock_entry("uvicorn==1\n", "uv")


def test_the_shipped_lock_names_no_host():
    assert "://" not in (CHECKOUT / "requirements.lock").read_text()


def test_uv_finds_packages_where_pip_is_told_to_find_them(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.delenv("UV_INDEX_URL", raising=False)

    assert environment.uv_settings()["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"


def test_an_index_given_to_uv_itself_stands(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://other.example/simple")

    assert environment.uv_settings()["UV_DEFAULT_INDEX"] == "https://other.example/simple"
