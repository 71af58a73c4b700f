"""The user's cache and state folders."""

import subprocess
import sys
from pathlib import Path

import pytest

from streaming.user_folders import user_cache_folder, user_state_folder


def test_an_absolute_xdg_folder_holds_the_cache(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/c")

    assert user_cache_folder() == Path("/var/c/dlx-stream")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders for caches")
@pytest.mark.parametrize("xdg", ["c", ""])
def test_otherwise_the_cache_is_in_the_home_folder(tmp_path, monkeypatch, xdg):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)

    assert user_cache_folder() == tmp_path / ".cache" / "dlx-stream"


def test_tests_and_their_processes_leave_the_users_state_alone(state_folder):
    assert user_state_folder() == state_folder / "dlx-stream"
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "from streaming.user_folders import user_state_folder; print(user_state_folder())",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.strip() == str(state_folder / "dlx-stream")
