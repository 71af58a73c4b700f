"""The `dlx` script at the root and the environment it creates.

A script that records its calls and installs nothing stands in for uv.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.cli.develop import bootstrap_venv
from streaming.cli.develop.bootstrap_venv import BootstrapError

CHECKOUT = Path(__file__).resolve().parents[3]

FAKE_UV = """#!/bin/sh
sleep 0.1
echo "$*" >> "{calls}"
case "$*" in *requirements-dev.lock*) touch "$(dirname "$0")/pytest" ;; esac
exit "$(cat "{status}")"
"""


FAKE_MAIN = """
import sys
from pathlib import Path
if sys.argv[1:2] in (["test"], ["docs"], ["bench"]) and "--nope" not in sys.argv:
    from streaming.cli.develop.tools import ensure_tools
    ensure_tools(Path(__file__).parents[2])
print('ran', sys.argv[1:], sys.path[-1])
"""


class Clone:
    """A checkout with the real wrapper and a command that prints its arguments.

    Like the real one it refuses the option --nope before it needs the developers' tools.
    """

    def __init__(self, root: Path, venv: Path) -> None:
        self.root = root
        self.calls = root / "calls"
        self.uv_status = root / "status"
        self.uv_status.write_text("0")
        self.runtime_lock = root / "requirements.lock"
        self.runtime_lock.write_text("rich==1\n")
        self.dev_lock = root / "requirements-dev.lock"
        self.dev_lock.write_text("pytest==1\n")
        shutil.copy(CHECKOUT / "dlx", root / "dlx")
        cli = root / "streaming" / "cli"
        (cli / "develop").mkdir(parents=True)
        shutil.copy(CHECKOUT / "streaming/cli/develop/bootstrap_venv.py", cli / "develop")
        shutil.copy(CHECKOUT / "streaming/cli/develop/tools.py", cli / "develop")
        (cli / "__main__.py").write_text(FAKE_MAIN)
        shutil.copytree(venv, root / ".venv", symlinks=True)
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

    def installs(self) -> list[list[str]]:
        """The locks of each installation, by file name."""
        calls = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [re.findall(r"[\w-]+\.lock", call) for call in calls]


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


@pytest.fixture
def clone(tmp_path, venv):
    root = tmp_path / "a checkout"
    root.mkdir()
    return Clone(root, venv)


@pytest.fixture
def elsewhere(tmp_path):
    """A working directory that holds a package of the same name as ours."""
    folder = tmp_path / "elsewhere"
    (folder / "streaming").mkdir(parents=True)
    (folder / "streaming" / "__init__.py").write_text("raise ImportError('not ours')")
    return folder


RUNTIME = ["requirements.lock"]
BOTH = ["requirements.lock", "requirements-dev.lock"]


def test_the_first_use_installs_the_lock_and_the_next_ones_nothing(clone, elsewhere):
    first = clone.run("check", "a b", cwd=elsewhere)
    second = clone.run(cwd=elsewhere)

    assert first == (0, f"ran ['check', 'a b'] {clone.root}\n")
    assert second == (0, f"ran [] {clone.root}\n")
    assert clone.installs() == [RUNTIME]


@pytest.mark.parametrize("command", [["test", "--fast"], ["docs"], ["bench", "core"]])
def test_a_command_for_developers_adds_their_tools_once(clone, elsewhere, command):
    clone.run("check", cwd=elsewhere)

    first = clone.run(*command, cwd=elsewhere)
    clone.run(*command, cwd=elsewhere)

    assert first == (0, f"ran {command} {clone.root}\n")
    assert clone.installs() == [RUNTIME, BOTH]


@pytest.mark.parametrize("command", [["docs", "--nope"], ["test", "--nope"]])
def test_nothing_is_installed_for_a_command_that_is_refused(clone, elsewhere, command):
    clone.run(*command, cwd=elsewhere)

    assert clone.installs() == [RUNTIME]


def test_other_commands_keep_the_tools_when_the_lock_changes(clone, elsewhere):
    clone.run("test", cwd=elsewhere)
    clone.runtime_lock.write_text("rich==2\n")

    clone.run("check", cwd=elsewhere)
    clone.run("test", cwd=elsewhere)

    assert clone.installs() == [RUNTIME, BOTH, BOTH]


def test_changed_tools_wait_for_a_command_that_needs_them(clone, elsewhere):
    clone.run("test", cwd=elsewhere)
    clone.dev_lock.write_text("pytest==2\n")

    clone.run("check", "--help", cwd=elsewhere)
    before = clone.installs()
    clone.run("test", cwd=elsewhere)

    assert before == [RUNTIME, BOTH]
    assert clone.installs() == [RUNTIME, BOTH, BOTH]


def test_an_interrupted_installation_of_the_tools_leaves_the_other_commands_alone(clone, elsewhere):
    clone.run("check", cwd=elsewhere)
    clone.uv_status.write_text("3")
    failed = clone.run("test", cwd=elsewhere)

    checked = clone.run("check", cwd=elsewhere)

    assert failed == (3, "")
    assert checked == (0, f"ran ['check'] {clone.root}\n")
    assert clone.installs() == [RUNTIME, BOTH]


def test_tools_that_were_interrupted_half_way_are_installed_again(clone, elsewhere):
    clone.run("test", cwd=elsewhere)
    old = clone.dev_lock.read_text()
    clone.dev_lock.write_text("pytest==2\n")
    clone.uv_status.write_text("3")
    clone.run("test", cwd=elsewhere)
    clone.uv_status.write_text("0")
    clone.dev_lock.write_text(old)

    repeated = clone.run("test", cwd=elsewhere)

    assert repeated == (0, f"ran ['test'] {clone.root}\n")
    assert clone.installs() == [RUNTIME, BOTH, BOTH, BOTH]


def test_where_there_is_no_lock_of_the_tools_the_command_says_so(clone, elsewhere):
    clone.dev_lock.unlink()

    process = clone.start("test", cwd=elsewhere)
    stdout, stderr = process.communicate(timeout=60)

    assert (process.returncode, stdout) == (2, "")
    assert "requirements-dev.lock does not exist" in stderr
    assert clone.installs() == [RUNTIME]


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
    clone.runtime_lock.write_text("rich==2\n")

    clone.run(cwd=elsewhere)
    clone.run(cwd=elsewhere)

    assert clone.installs() == [RUNTIME, RUNTIME]


def test_processes_started_together_install_once_and_all_run(clone, elsewhere):
    together = [clone.start(str(number), cwd=elsewhere) for number in range(3)]

    outcomes = [(process.communicate(timeout=60)[0], process.returncode) for process in together]

    assert outcomes == [(f"ran ['{number}'] {clone.root}\n", 0) for number in range(3)]
    assert clone.installs() == [RUNTIME]


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


def test_an_environment_whose_interpreter_is_gone_is_not_current(clone, elsewhere):
    clone.run(cwd=elsewhere)
    before = bootstrap_venv.is_current(clone.root, RUNTIME)
    python = clone.root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")

    assert before
    assert not bootstrap_venv.is_current(clone.root, RUNTIME)


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


def test_a_python_that_the_user_names_is_used_or_refused(clone, tmp_path):
    named = tmp_path / "my python"
    named.write_text("#!/bin/sh\nexit 1\n")
    named.chmod(0o755)

    outcome = subprocess.run(
        [clone.root / "dlx"],
        env={"PATH": os.environ["PATH"], "DLX_PYTHON": str(named)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (outcome.returncode, outcome.stdout) == (1, "")
    assert outcome.stderr == (
        f"dlx: DLX_PYTHON={named} is no Python 3.11 or newer with the venv module\n"
    )


def test_the_shipped_lock_pins_uv_with_hashes():
    entry = bootstrap_venv.lock_entry((CHECKOUT / "requirements.lock").read_text(), "uv")

    first, second, *_ = entry.splitlines()
    assert first.startswith("uv==")
    assert second.strip().startswith("--hash=sha256:")
    assert "\nuvicorn" not in entry


def test_a_lock_without_the_package_is_reported():
    with pytest.raises(BootstrapError, match=r"requirements\.lock does not pin uv"):
        bootstrap_venv.lock_entry("uvicorn==1\n", "uv")


def test_uv_finds_packages_where_pip_is_told_to_find_them(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.delenv("UV_INDEX_URL", raising=False)

    assert bootstrap_venv.uv_settings()["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"


def test_an_index_given_to_uv_itself_stands(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://other.example/simple")

    assert bootstrap_venv.uv_settings()["UV_DEFAULT_INDEX"] == "https://other.example/simple"
