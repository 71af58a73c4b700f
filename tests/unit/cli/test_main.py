"""Properties of all commands."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from streaming.cli.main import COMMANDS, DEVELOP, EARLIER

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
    ("--version",),
    ("config", "completion", "bash"),
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


def test_a_run_without_a_configuration_fails_before_it_imports_anything_slow(tmp_path):
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT)}
    environment.pop("DLX_CONFIG", None)

    finished = subprocess.run(
        [sys.executable, "-c", RUN_AND_LIST_MODULES, "run"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    status, modules = json.loads(finished.stdout.splitlines()[-1])
    assert status == 2
    assert {*SLOW_TO_IMPORT, "attr"}.isdisjoint(modules)
    assert len(finished.stderr.splitlines()) == 1


def test_no_arguments_show_the_help(dlx):
    _, out, err = dlx()

    assert (out + err).startswith("Usage: dlx ")


def test_the_help_of_a_group_ends_in_examples_that_can_be_copied(dlx):
    _, out, _ = dlx("queues", "--help")

    examples = out[out.index("Examples:") :].splitlines()
    assert "  dlx queues show work" in examples


@pytest.mark.parametrize(
    ("arguments", "start", "meant"),
    [
        (("chekc",), "dlx: no such command: 'chekc'", "'check'"),
        (("queues", "lst"), "dlx queues: no such command: 'lst'", "'list'"),
        (("get", "q", "--cout", "3"), "dlx get: no such option: --cout", "'--count'"),
        (
            ("queues", "list", "--output", "x"),
            "dlx queues list: invalid value for '-o'",
            "'json'",
        ),
        (("get", "q", "--count", "x"), "dlx get: invalid value for '--count'", "'x'"),
        (("get", "q", "--count"), "dlx get: option '--count' requires an argument", ""),
        (("get",), "dlx get: missing argument 'QUEUE'", ""),
        (("get", "q", "r"), "dlx get: got unexpected extra argument", "r"),
        (("--nonsense",), "dlx: no such option: --nonsense", ""),
    ],
)
def test_a_wrong_command_line_is_one_line_with_the_command_and_its_help(
    dlx, arguments, start, meant
):
    status, out, err = dlx(*arguments)

    assert (status, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith(start)
    assert meant in line
    assert line.endswith(f"see `{start.partition(':')[0]} --help`")


@pytest.mark.parametrize("path", [(), ("get",), ("queues",), ("queues", "list")], ids=" ".join)
def test_every_command_has_a_short_option_for_its_help(dlx, path):
    assert dlx(*path, "-h") == dlx(*path, "--help")
    assert dlx(*path, "-h")[0] == 0


def test_the_version_is_that_of_the_checkout(dlx):
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]

    status, out, err = dlx("--version")

    assert (status, err) == (0, "")
    assert out.split()[:2] == ["dlx", f"{version},"]


def test_the_help_lists_every_command_in_its_section_with_its_whole_summary(dlx):
    _, out, _ = dlx("--help")

    lines = out.splitlines()
    shown = [line.split()[0] for line in lines if line.startswith("  ") and line.split()]
    for section, commands in COMMANDS.items():
        if section in {DEVELOP, EARLIER}:
            continue
        assert f"{section}:" in lines
        places = [shown.index(name) for name in commands]
        assert places == sorted(places)
    assert len(lines) <= 50, "the help fits a screen"
    assert "..." not in out.replace("COMMAND [ARGS]...", "")
    assert max(map(len, lines)) <= 80


def test_only_the_module_of_the_command_is_imported():
    program = "import sys; from streaming.cli.main import build_app; build_app(['route'])\n"
    program += "print(*sorted(name for name in sys.modules if name.startswith('streaming.cli.')))"

    finished = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "streaming.cli.topology.commands" in finished.stdout.split()
    assert not {"streaming.cli.run.command", "streaming.cli.topology.simulate"} & set(
        finished.stdout.split()
    )


def test_an_argument_that_is_not_utf8_is_refused_unless_it_is_a_file(tmp_path):
    file = os.fsencode(tmp_path) + b"/\xff.json"

    def run(*arguments):
        command = (sys.executable, "-P", "-m", "streaming.cli", *arguments)
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    said = (2, "", "dlx: argument 2, 'a\\udcff', is not UTF-8, nor a file\n")
    assert run("why", b"a\xff") == said
    assert run("check", file)[2].endswith("is not UTF-8, nor a file\n")
    shutil.copy(CHECKOUT / DEFINITIONS, os.fsdecode(file))
    assert run("check", file)[0] == 0


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
