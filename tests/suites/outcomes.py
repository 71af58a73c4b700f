"""What a run of a suite yields, and running programs for it."""

import os
import subprocess
from pathlib import Path
from typing import Final

Outcomes = dict[str, str]
"""Test to `passed`, `failed` or `skipped`. A test that passes after a rerun has passed."""

TIMEOUT_S: Final = 3600


class SuiteError(Exception):
    """A suite cannot be fetched or run; the text says why."""


def some(outcomes: Outcomes, log: Path) -> Outcomes:
    """The outcomes; SuiteError if there are none."""
    if not outcomes:
        raise SuiteError(f"the suite ran no test: {log}")
    return outcomes


def run(command: list[str], folder: Path, environment: dict[str, str], log: Path) -> None:
    """Run tests with their output in a log; the results say whether they passed."""
    with log.open("wb") as output:
        try:
            subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SuiteError(f"the suite took more than {TIMEOUT_S} s: {log}") from error


def output(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """What a program prints; SuiteError if it fails."""
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SuiteError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout
