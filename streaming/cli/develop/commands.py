"""`dlx test` and `dlx docs`: check and document this project.

`dlx test` runs the checks that fail soonest first.
"""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.command_group import ROOT
from streaming.cli.develop.checks import Check, run_checks
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INVALID, EXIT_OK

LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"


STATIC_CHECKS = (
    Check("format", ("-m", "ruff", "format", "--check", "--output-format=concise", ".")),
    Check("lint", ("-m", "ruff", "check", "--output-format=concise", ".")),
    Check("types", ("-m", "mypy")),
    Check("import rules", ("-c", LINT_IMPORTS)),
)
ON_ALL_CORES = ("--numprocesses=auto", "--dist=worksteal")
PYTEST_ON_ALL_CORES = ("-m", "pytest", *ON_ALL_CORES)
PURE_TESTS = ("tests/unit", "tests/property")
CORE_TESTS = ("tests/unit/broker", "tests/unit/topology")
"""These alone reach every branch of the pure core, and the only ones that coverage slows down."""

COVERAGE = ("--cov", "--cov-report=term-missing")
_IN_THREE_PROCESSES = ("--numprocesses=3", "--dist=loadfile", "--no-loadscope-reorder")
"""On two cores: one of three often waits, for an alert, a lease or a server that is gone."""

_PATIENT = "--timeout=1800"
"""Of a test that runs on what others leave of the cores: a few seconds may take minutes there."""

SERVICE_TESTS = ("tests/spark", "tests/e2e", "tests/bench", *_IN_THREE_PROCESSES)


def pytest_checks(
    *, fast: bool, every: bool, nightly: bool = False, durations: int | None
) -> tuple[Check, ...]:
    """The runs of pytest; pyproject.toml has its settings, tests/conftest.py the profiles.

    Tests without services share the cores; those of the pure core have its coverage gate. Tests
    with Kafka or Spark run in three processes with one of each; files with long tests come first
    (tests/conftest.py). They leave a third of two cores to the other unit and property tests, which
    run beside them. The benchmarks are among them: what they measure there means nothing. The
    files of a few tests that fail run once more, alone: on a busy machine a process may be too
    slow. What those of the core reach then counts with what the first run has reached.

    Args:
        fast: leave out the tests with services, and try fewer examples of each property.
        every: run the long tests too, and try the same examples on every machine.
        nightly: run those too that a change need not wait for.
        durations: how many of the slowest tests to list, if any.
    """
    report = (f"--durations={durations}",) if durations else ()
    some: tuple[str, ...] = ("-m", "not long and not nightly")
    if fast:
        selection = ("--hypothesis-profile=fast", *some, *report)
        return (Check("fast tests", (*PYTEST_ON_ALL_CORES, *PURE_TESTS, *selection)),)
    profile: tuple[str, ...] = ()
    if nightly:
        profile, some = ("--hypothesis-profile=nightly",), ()
    elif every:
        profile, some = ("--hypothesis-profile=ci",), ("-m", "not nightly")
    selection = (*profile, *some, *report)
    others = [f"--ignore={folder}" for folder in CORE_TESTS]
    return (
        _tried_again(
            "unit tests of the pure core",
            (*ON_ALL_CORES, *CORE_TESTS, *COVERAGE, *selection),
            (*COVERAGE, "--cov-append", *profile, *some),
            "core",
        ),
        _tried_again(
            "unit and property tests",
            (*ON_ALL_CORES, _PATIENT, *PURE_TESTS, *others, *selection),
            (*profile, *some),
            "pure",
        )._replace(is_beside=True),
        _tried_again(
            "Spark and end-to-end tests",
            (*SERVICE_TESTS, *selection),
            (*profile, *some),
            "services",
        ),
    )


def _tried_again(
    name: str, arguments: tuple[str, ...], alone: tuple[str, ...], cache_name: str
) -> Check:
    """A run of pytest that notes in a cache of its own what has failed."""
    cache = Path(".pytest_cache", cache_name)
    pytest = ("-m", "pytest", "-o", f"cache_dir={cache}", "--cache-clear")
    return Check(name, (*pytest, *arguments), (*pytest, *alone), cache)


def run_suite(
    *,
    fast: Annotated[
        bool, typer.Option("--fast", help="No Spark, no Kafka, no coverage; fewer examples.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Run the long tests too.")] = False,
    nightly: Annotated[
        bool, typer.Option("--nightly", help="As --all, and what a change need not wait for.")
    ] = False,
    durations: Annotated[
        int | None, typer.Option(min=1, help="List this many of the slowest tests.")
    ] = None,
) -> int:
    """Run the checks of this checkout.

    Format, lint, types, import rules and tests, with 100 % branch coverage of the
    pure core. All of them run, even after one has failed. Exit status: 0, or 1 if
    any check failed.

    \b
    --fast     under three minutes
    (nothing)  under 15 minutes
    --all      about 40 minutes, on two cores
    --nightly  three quarters of an hour more
    """
    if fast + every + nightly > 1:
        print("dlx test: --fast, --all and --nightly exclude each other", file=sys.stderr)
        return EXIT_INVALID
    if not (ROOT / "tests").is_dir():
        print(f"dlx test: {ROOT} is not a checkout: it has no folder tests", file=sys.stderr)
        return EXIT_INVALID
    checks = pytest_checks(fast=fast, every=every, nightly=nightly, durations=durations)
    return run_checks((*STATIC_CHECKS, *checks), ROOT)


def build_docs(
    *,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the site and rebuild it as pages change.")
    ] = False,
    generate: Annotated[
        bool, typer.Option("--generate", help="Renew the generated parts of the pages.")
    ] = False,
    record: Annotated[
        bool,
        typer.Option("--record", help="Renew the terminal recordings from a real demo and job."),
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure this machine and redraw the figures.")
    ] = False,
) -> int:
    """Build the documentation of this checkout as a site, in build/site.

    Exit status: 0, 1 if the site has an error, 2 outside a checkout.
    """
    if not (ROOT / "tools" / "docs").is_dir():
        print(f"dlx docs works in a checkout of the project, not in {ROOT}", file=sys.stderr)
        return EXIT_INVALID
    wanted = {"serve": serve, "generate": generate, "record": record, "measure": measure}
    for action in [name for name, asked in wanted.items() if asked] or ["build"]:
        command = (sys.executable, "-m", "tools.docs", action)
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            return EXIT_FINDINGS
    return EXIT_OK
