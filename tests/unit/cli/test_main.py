"""Properties of all commands."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
DEFINITIONS = "examples/shop/definitions.json"
PURE_COMMANDS = (
    ("--help",),
    ("check", DEFINITIONS),
    ("route", DEFINITIONS, "orders", "order.eu.created"),
    ("diagram", DEFINITIONS),
    ("diagram", DEFINITIONS, "--format", "dot"),
    ("simulate", "examples/retry.json"),
    ("simulate", "--check", "examples"),
    ("config", "show"),
    ("test", "--help"),
)
SLOW_TO_IMPORT = {
    "confluent_kafka",
    "delta",
    "deltalake",
    "duckdb",
    "jgo",
    "kafka",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
}

RUN_AND_LIST_MODULES = """
import json, sys
from streaming.cli.main import main
sys.argv = ["dlx", *sys.argv[1:]]
try:
    main()
except SystemExit as exit_:
    names = sorted({name.partition(".")[0] for name in sys.modules})
    print(json.dumps([exit_.code, names]))
"""


@pytest.mark.parametrize("arguments", PURE_COMMANDS, ids=" ".join)
def test_a_pure_command_imports_nothing_that_is_slow_to_import(arguments):
    """They must start in less than 300 ms; what they import decides that, on any machine."""
    finished = subprocess.run(
        [sys.executable, "-c", RUN_AND_LIST_MODULES, *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )

    status, modules = json.loads(finished.stdout.splitlines()[-1])

    assert status == 0
    assert SLOW_TO_IMPORT.isdisjoint(modules)


def test_no_arguments_show_the_help(dlx):
    _, out, err = dlx()

    assert (out + err).startswith("Usage: dlx ")


def test_the_help_ends_in_examples_that_can_be_copied(dlx):
    _, out, _ = dlx("--help")

    examples = out[out.index("Examples:") :].splitlines()
    assert "  dlx check definitions.json --strict" in examples


def test_an_unknown_command_is_a_usage_error(dlx):
    status, out, err = dlx("chekc")

    assert (status, out) == (2, "")
    assert "chekc" in err


def test_the_module_runs_as_the_wrapper_runs_it():
    finished = subprocess.run(
        [sys.executable, "-P", "-m", "streaming.cli", "check", DEFINITIONS],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (finished.returncode, finished.stdout, finished.stderr) == (
        0,
        f"{DEFINITIONS}: valid, no warnings\n",
        "",
    )
