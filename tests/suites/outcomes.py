"""What a run of a suite yields, and running programs for it."""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tests.fixtures.archives import unpack

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


def test_cases(report: Path) -> Iterator[ET.Element]:
    """The tests in a report in the form of JUnit."""
    return ET.parse(report).iter("testcase")  # noqa: S314 - a run of ours wrote it


def of_case(case: ET.Element) -> str:
    """What a test in such a report did."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


def unpacked(archive: Path, folder: Path) -> Path:
    """The sources in an archive, unpacked afresh."""
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    with tarfile.open(archive) as packed:
        top = packed.getnames()[0].partition("/")[0]
    unpack(archive, folder)
    (folder / top).rename(source)
    return source


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
