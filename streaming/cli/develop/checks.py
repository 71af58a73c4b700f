"""Run checks of a checkout: one after the other, or what others leave of the cores to one."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.niceness import make_session_nice, yield_at_least

MOST_ALONE = 5
"""More failures than this have a cause of their own, and are not tried again."""

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Containers set it, and then each process would compile all that it imports."""

_NICE = 5
"""A third of what any other gets that is busy: with less, programs of tests start in minutes."""


class Check(NamedTuple):
    """A tool that runs from the root of the checkout with the environment's interpreter.

    Attributes:
        alone: what runs the files of tests that failed once more, alone, if those are few.
        cache: where pytest notes which failed, in the checkout.
        is_beside: it runs beside those that follow, on what they leave of the cores, and prints
            when they have ended.
    """

    name: str
    arguments: tuple[str, ...]
    alone: tuple[str, ...] = ()
    cache: Path = Path()
    is_beside: bool = False


def run_checks(checks: tuple[Check, ...], folder: Path) -> int:
    """Run every check, even after one has failed, and name those that failed.

    Their output is on stdout and stderr; the files of few tests that failed run once more.

    Returns:
        EXIT_OK, or EXIT_FINDINGS if any failed.
    """
    failed: list[Check] = []
    with ExitStack() as stack:
        beside: list[tuple[Check, _Beside]] = []
        for check in checks:
            if check.is_beside:
                print(f"--- {check.name}: beside what follows, which comes first", flush=True)
                run = _Beside()
                stack.callback(run.end)
                run.begin(check, folder)
                beside.append((check, run))
                continue
            print(f"--- {check.name}", flush=True)
            if not _run(check.arguments, folder):
                failed.append(check)
        for check, run in beside:
            print(f"--- {check.name}", flush=True)
            if not run.succeeds():
                failed.append(check)
    names = [check.name for check in failed if not _pass_alone(check, folder)]
    if names:
        print(f"dlx test: failed: {', '.join(names)}", file=sys.stderr)
        return EXIT_FINDINGS
    return EXIT_OK


class _Beside:
    """A check that runs in a session of its own, which yields to all others."""

    def __init__(self) -> None:
        self._output = tempfile.TemporaryFile(  # noqa: SIM115 (`end` closes it)
            "w+", encoding="utf-8", errors="replace"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, check: Check, folder: Path) -> None:
        """Start it; `end` is called whatever happens."""
        self._process = subprocess.Popen(
            (sys.executable, *check.arguments),
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        yield_at_least(self._process.pid, _NICE)
        make_session_nice(self._process.pid, _NICE)

    def succeeds(self) -> bool:
        """Wait for its end, then print what it printed."""
        assert self._process is not None, "it has begun"
        status = self._process.wait()
        self._output.seek(0)
        shutil.copyfileobj(self._output, sys.stdout)
        sys.stdout.flush()
        return status == 0

    def end(self) -> None:
        """End it, if it runs: Ctrl-C reached only the others."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        self._output.close()


def _pass_alone(check: Check, folder: Path) -> bool:
    """Run the files of few failed tests of a check once more, and say how that ended.

    The whole files: their tests may depend on each other.
    """
    failed = _failed_tests(folder / check.cache) if check.alone else []
    if check.alone and not failed:
        where = "what is wrong stands at the end of its output"
        print(f"dlx test: {check.name}: no test has failed; {where}", file=sys.stderr)
    if not 0 < len(failed) <= MOST_ALONE:
        return False
    print(f"--- {check.name}: alone, what has failed", flush=True)
    files = sorted({test.partition("::")[0] for test in failed})
    passed = _run((*check.alone, *files), folder)
    for test in failed if passed else _failed_tests(folder / check.cache):
        again = "failed twice" if test in failed else "failed in its file, run alone"
        outcome = "failed, and passed alone" if passed else again
        print(f"dlx test: {outcome}: {test}", file=sys.stderr)
    return passed


def _run(arguments: tuple[str, ...], folder: Path) -> bool:
    command = (sys.executable, *arguments)
    return subprocess.run(command, cwd=folder, env=_environment(), check=False).returncode == 0


def _environment() -> dict[str, str]:
    """What the processes of checks get: tests start hundreds, which share what Python compiles."""
    return {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}


def _failed_tests(cache: Path) -> list[str]:
    """The tests that failed in pytest's last run with a cache."""
    path = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text("utf-8"))) if path.exists() else []
