"""`dlx demo` from the wheel with the extra `job`, far from the checkout, with an empty home."""

import os
import re
import shlex
import subprocess

import pytest

from streaming.user_folders import user_cache_folder
from tests.fixtures.demo import PATIENCE_S
from tests.fixtures.wheel import install, make_environment, wheel_environment

__all__ = ["wheel_environment"]


@pytest.mark.long
def test_the_demo_runs_from_the_wheel_alone(wheel_environment, tmp_path):
    environment = make_environment(tmp_path / "venv")
    install(environment, f"dlx-stream[job] @ {wheel_environment.wheel.as_uri()}")
    home = tmp_path / "home"
    home.mkdir()

    finished = subprocess.run(
        [environment / "bin" / "dlx", "demo", "--dir", home / "demo", "--seconds", "5"],
        cwd=home,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(user_cache_folder().parent),  # jars are not downloaded again
            **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "Traceback" not in finished.stderr
    assert "letters were acknowledged" in finished.stdout
    assert "unexplained" in finished.stdout
    assert {path.name for path in home.iterdir()} >= {"demo"}
    [line] = re.findall(r"^ +(/.* why 17 .*)$", finished.stdout, re.MULTILINE)
    program, *arguments = shlex.split(line)
    assert program == str(environment / "bin" / "dlx")
    answer = subprocess.run(
        [program, *arguments], cwd=home, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert re.search("(rejected in payments|expired in payments.retry)", answer.stdout), (
        answer.stdout
    )
