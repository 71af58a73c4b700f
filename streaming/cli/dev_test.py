"""`dlx test`: every check of this project, in the order that fails soonest."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INVALID, EXIT_OK

ROOT = Path(__file__).resolve().parents[2]
LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"


class Check(NamedTuple):
    """One tool, run from the root of the checkout with the environment's interpreter."""

    name: str
    arguments: tuple[str, ...]


STATIC_CHECKS = (
    Check("format", ("-m", "ruff", "format", "--check", "--output-format=concise", ".")),
    Check("lint", ("-m", "ruff", "check", "--output-format=concise", ".")),
    Check("types", ("-m", "mypy")),
    Check("import rules", ("-c", LINT_IMPORTS)),
)


def the_tests(*, all_tests: bool) -> Check:
    """The tests, with the coverage gate of the pure core; the settings are in pyproject.toml.

    All of them try the same examples on every machine (tests/conftest.py); the short run, whose
    examples are random outside continuous integration, looks where nobody has looked yet.
    """
    selection = ("--hypothesis-profile=ci",) if all_tests else ("-m", "not long")
    return Check("tests", ("-m", "pytest", "--cov", "--cov-report=term-missing", *selection))


def passes(check: Check, folder: Path) -> bool:
    """Run one check, its output going where ours goes."""
    print(f"--- {check.name}", flush=True)
    return (
        subprocess.run((sys.executable, *check.arguments), cwd=folder, check=False).returncode == 0
    )


def run_checks(checks: tuple[Check, ...], folder: Path) -> int:
    """Run every check, also after one has failed, and name those that did.

    Returns:
        EXIT_OK, or EXIT_FINDINGS if any failed.
    """
    failed = [check.name for check in checks if not passes(check, folder)]
    if failed:
        print(f"dlx test: failed: {', '.join(failed)}", file=sys.stderr)
        return EXIT_FINDINGS
    return EXIT_OK


def run_suite(
    *, all_tests: Annotated[bool, typer.Option("--all", help="Also the long tests.")] = False
) -> int:
    """Run every check of this checkout.

    Format, lint, types, import rules and tests; 100 % branch coverage of the pure core is one of
    the tests. All run, even after one has failed. Exit status: 0, or 1 if anything failed.
    """
    if not (ROOT / "tests").is_dir():
        print(f"dlx test works in a checkout of the project; {ROOT} is none", file=sys.stderr)
        return EXIT_INVALID
    return run_checks((*STATIC_CHECKS, the_tests(all_tests=all_tests)), ROOT)
