"""`dlx test`, with checks that only print."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.cli.develop import commands as development
from streaming.cli.develop.checks import Check, run_checks
from streaming.cli.develop.commands import STATIC_CHECKS, pytest_checks
from tests.fixtures.child import Child
from tests.fixtures.waiting import wait_until

CHECKOUT = Path(__file__).resolve().parents[3]
PRINTS = Check("first", ("-c", "print('first ran')"))
FAILS = Check("second", ("-c", "print('second ran'); raise SystemExit(5)"))
PRINTS_TOO = Check("third", ("-c", "import os; print('third ran in', os.getcwd())"))


def test_all_checks_run_in_their_folder_and_the_failed_ones_are_named(capfd, tmp_path):
    status = run_checks((PRINTS, FAILS, PRINTS_TOO), tmp_path)

    captured = capfd.readouterr()
    assert status == 1
    assert captured.out == (
        "--- first\nfirst ran\n--- second\nsecond ran\n"
        f"--- third\nthird ran in {tmp_path.resolve()}\n"
    )
    assert captured.err == "dlx test: failed: second\n"


def test_nothing_else_is_printed_when_everything_passes(capfd, tmp_path):
    status = run_checks((PRINTS,), tmp_path)

    assert (status, *capfd.readouterr()) == (0, "--- first\nfirst ran\n", "")


def test_the_processes_of_a_check_keep_what_they_compile(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "module.py").write_text("")
    imports = Check("imports", ("-c", "import module; print(module.__cached__)"))

    assert run_checks((imports,), tmp_path) == 0

    assert Path(capfd.readouterr().out.splitlines()[-1]).is_file()


def test_a_check_beside_others_yields_to_them_and_prints_when_they_have_ended(capfd, tmp_path):
    said = (
        "import os, pathlib, time\n"
        "others = pathlib.Path('others')\n"
        "while not others.exists(): time.sleep(0.01)\n"
        "print('beside at', os.getpriority(os.PRIO_PROCESS, 0))\n"
        "raise SystemExit(1)"
    )
    beside = Check("beside", ("-c", said), is_beside=True)
    others = Check("others", ("-c", "open('others', 'w'); print('others ran')"))

    status = run_checks((PRINTS, beside, others, FAILS), tmp_path)

    captured = capfd.readouterr()
    assert status == 1
    assert captured.out == (
        "--- first\nfirst ran\n--- beside: beside what follows, which comes first\n"
        "--- others\nothers ran\n--- second\nsecond ran\n"
        f"--- beside\nbeside at {max(5, os.getpriority(os.PRIO_PROCESS, 0))}\n"
    )
    assert captured.err == "dlx test: failed: second, beside\n"


def test_a_check_beside_others_ends_with_them_when_ctrl_c_ends_them(tmp_path):
    waits = "import pathlib, os, time; pathlib.Path('pid').write_text(str(os.getpid()))\n"
    beside = Check("beside", ("-c", f"{waits}while True: time.sleep(1)"), is_beside=True)
    others = Check("others", ("-c", "open('others', 'w').close(); input()"))
    checks = f"({beside!r}, {others!r})"
    checks = checks.replace(repr(beside.cache), "Path()")
    program = (
        "from pathlib import Path\nfrom streaming.cli.develop.checks import Check, run_checks\n"
        f"run_checks({checks}, Path('.'))"
    )
    with Child([sys.executable, "-c", program], cwd=tmp_path, stdin=subprocess.PIPE) as suite:
        wait_until((tmp_path / "others").is_file)
        wait_until(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text())
        suite.send_signal(signal.SIGINT)
        suite.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


FOLDERS = ("unit", "unit/broker", "unit/topology", "property", "spark", "e2e", "bench")


@pytest.fixture
def project(tmp_path):
    """A checkout with a quick and a long test of each kind, which write down that they ran."""
    (tmp_path / "topology").mkdir()
    (tmp_path / "topology" / "__init__.py").write_text("YES = 1\n")
    for folder in FOLDERS:
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder.replace('/', '_')}.py").write_text(
            "import pytest\nimport topology\nfrom hypothesis import settings\n"
            "def ran(what):\n"
            "    with open('ran', 'a') as file:\n"
            "        file.write(f'{what} {settings().max_examples}\\n')\n"
            f"def test_quick():\n    ran('{folder}')\n"
            f"@pytest.mark.long\ndef test_long():\n    ran('long {folder}')\n"
            f"@pytest.mark.nightly\ndef test_nightly():\n    ran('nightly {folder}')\n"
        )
    (tmp_path / "pyproject.toml").write_text(
        (CHECKOUT / "pyproject.toml").read_text().replace(', "streaming.broker"', "")
    )
    (tmp_path / "tests" / "conftest.py").write_text((CHECKOUT / "tests/conftest.py").read_text())
    return tmp_path


def what_ran(project):
    """The tests that ran in a project, each with its number of examples."""
    return sorted((project / "ran").read_text().splitlines())


def test_the_fast_run_needs_no_services_and_stops_a_hung_test_with_a_traceback(project, capfd):
    (project / "tests" / "unit" / "test_hung.py").write_text(
        "import threading\nimport pytest\n"
        "@pytest.mark.timeout(1)\ndef test_hung():\n    threading.Event().wait()\n"
    )
    checks = pytest_checks(fast=True, every=False, durations=None)

    status = run_checks(checks, project)

    output = capfd.readouterr().out
    assert status == 1
    assert what_ran(project) == ["property 10", "unit 10", "unit/broker 10", "unit/topology 10"]
    assert "Timeout" in output
    assert "threading.Event().wait()" in output
    assert "1 failed, 4 passed" in output


@pytest.mark.long
def test_all_runs_everything_with_the_coverage_gate_and_the_examples_of_ci(
    project, monkeypatch, capfd
):
    monkeypatch.setenv("COVERAGE_FILE", str(project / ".coverage"))
    checks = pytest_checks(fast=False, every=True, durations=3)

    status = run_checks(checks, project)

    output = capfd.readouterr().out
    assert status == 0, output
    assert what_ran(project) == sorted(
        f"{kind}{folder} 50" for folder in FOLDERS for kind in ("", "long ")
    )
    assert "Total coverage: 100.00%" in output
    assert "slowest 3 durations" in output
    assert "  tests/unit\n" in output


FAILS_TWICE = "def test_broken():\n    assert False, 'broken'\n"
FAILS_ONCE = (
    "from pathlib import Path\n"
    "def test_slow():\n"
    "    before, now = Path('before'), Path('before').exists()\n"
    "    before.touch()\n"
    "    assert now, 'too slow'\n"
)


NIGHTLY = "import pytest\n@pytest.mark.nightly\ndef test_nightly():\n    assert False\n"
FOLLOWS = (
    "ran = []\n"
    "def test_first():\n"
    "    ran.append('first')\n"
    f"{FAILS_ONCE}"
    "    ran.append('slow')\n"
    "def test_last():\n"
    "    assert ran == ['first', 'slow']\n"
)


REACHES = (
    "from pathlib import Path\nimport topology\n"
    "def test_slow():\n"
    "    before, now = Path('before'), Path('before').exists()\n"
    "    before.touch()\n"
    "    assert now, 'too slow'\n"
    "    assert topology.reached() == 1\n"
)


def test_what_tests_of_the_core_reach_alone_counts_with_what_the_others_reached(
    project, monkeypatch, capfd
):
    monkeypatch.setenv("COVERAGE_FILE", str(project / ".coverage"))
    with (project / "topology" / "__init__.py").open("a") as core:
        core.write("def reached():\n    return YES\n")
    (project / "tests" / "unit" / "topology" / "test_new.py").write_text(REACHES)
    check = pytest_checks(fast=False, every=False, durations=None)[0]

    assert run_checks((check,), project) == 0

    output, errors = capfd.readouterr()
    assert "AssertionError: too slow" in output
    assert "Total coverage: 100.00%" in output
    name = "tests/unit/topology/test_new.py::test_slow"
    assert errors == f"dlx test: failed, and passed alone: {name}\n"


def test_a_core_whose_tests_pass_and_leave_a_part_out_fails(project, monkeypatch, capfd):
    monkeypatch.setenv("COVERAGE_FILE", str(project / ".coverage"))
    with (project / "topology" / "__init__.py").open("a") as core:
        core.write("def left_out():\n    return YES\n")
    check = pytest_checks(fast=False, every=False, durations=None)[0]

    assert run_checks((check,), project) == 1

    output, errors = capfd.readouterr()
    assert "Required test coverage of 100.0% not reached" in output
    name = "unit tests of the pure core"
    assert errors == (
        f"dlx test: {name}: no test has failed; what is wrong stands at the end of its output\n"
        f"dlx test: failed: {name}\n"
    )


@pytest.mark.parametrize(
    ("folder", "position", "text", "said", "status"),
    [
        ("e2e", -1, FAILS_ONCE, "failed, and passed alone: tests/e2e/test_new.py::test_slow", 0),
        (
            "e2e",
            -1,
            FAILS_ONCE + FAILS_TWICE,
            "failed twice: tests/e2e/test_new.py::test_broken",
            1,
        ),
        (
            "e2e",
            -1,
            FOLLOWS,
            "failed, and passed alone: tests/e2e/test_new.py::test_last\n"
            "failed, and passed alone: tests/e2e/test_new.py::test_slow",
            0,
        ),
        (
            "e2e",
            -1,
            FAILS_ONCE + NIGHTLY,
            "failed, and passed alone: tests/e2e/test_new.py::test_slow",
            0,
        ),
        ("property", -2, FAILS_TWICE, "failed twice: tests/property/test_new.py::test_broken", 1),
    ],
)
def test_a_test_that_fails_runs_once_more_alone(
    project, capfd, folder, position, text, said, status
):
    (project / "tests" / folder / "test_new.py").write_text(text)
    check = pytest_checks(fast=False, every=False, durations=None)[position]

    assert run_checks((check,), project) == status

    output, errors = capfd.readouterr()
    assert "AssertionError: too slow" in output or text == FAILS_TWICE
    assert re.search(r"1 failed, \d passed|2 failed, \d passed", output)
    assert errors.splitlines() == [
        *(f"dlx test: {line}" for line in said.splitlines()),
        *([f"dlx test: failed: {check.name}"] if status else []),
    ]


def test_many_failures_are_not_tried_again(project, capfd):
    broken = (
        "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test(n):\n    assert False\n"
    )
    (project / "tests" / "e2e" / "test_new.py").write_text(broken)
    check = pytest_checks(fast=False, every=False, durations=None)[-1]

    assert run_checks((check,), project) == 1

    output, errors = capfd.readouterr()
    assert output.count("6 failed") == 1
    assert errors == "dlx test: failed: Spark and end-to-end tests\n"


def test_each_larger_run_leaves_out_less_and_nothing_else():
    ordinary = pytest_checks(fast=False, every=False, durations=None)
    everything = pytest_checks(fast=False, every=True, durations=None)
    at_night = pytest_checks(fast=False, every=False, nightly=True, durations=None)

    for some, every, all_there_are in zip(ordinary, everything, at_night, strict=True):
        assert some.arguments[-2:] == ("-m", "not long and not nightly")
        assert every.arguments[-3:] == ("--hypothesis-profile=ci", "-m", "not nightly")
        assert all_there_are.arguments[-1] == "--hypothesis-profile=nightly"
        assert all_there_are.arguments[:-1] == every.arguments[:-3] == some.arguments[:-2]


def test_every_test_of_the_checkout_is_in_a_folder_that_is_run():
    everything = pytest_checks(fast=False, every=True, durations=None)
    run = {argument for check in everything for argument in check.arguments}

    assert {
        f"tests/{path.relative_to(CHECKOUT / 'tests').parts[0]}"
        for path in (CHECKOUT / "tests").rglob("test_*.py")
    } <= run


def test_ci_runs_the_command_that_the_contributors_run(project):
    (project / ".ci").mkdir()
    (project / ".ci" / "run").write_text((CHECKOUT / ".ci" / "run").read_text())
    (project / "dlx").write_text('#!/bin/sh\necho "CI=$CI $*"\n')
    (project / "dlx").chmod(0o755)

    done = subprocess.run(
        ["sh", project / ".ci" / "run"], capture_output=True, text=True, check=True
    )

    assert done.stdout == "CI=true test --all\n"


def test_outside_a_checkout_there_is_nothing_to_test(dlx, monkeypatch, tmp_path):
    monkeypatch.setattr(development, "ROOT", tmp_path)

    status, stdout, stderr = dlx("test")

    assert (status, stdout) == (2, "")
    assert str(tmp_path) in stderr


def test_fast_all_and_nightly_exclude_each_other(dlx):
    assert dlx("test", "--fast", "--all")[0] == 2
    assert dlx("test", "--all", "--nightly")[0] == 2


def test_the_command_runs_the_static_checks_and_then_the_tests(dlx, monkeypatch):
    ran = []

    def note(checks, folder):
        ran.append((checks, folder))
        return 1

    monkeypatch.setattr(development, "run_checks", note)

    status, _, _ = dlx("test", "--all", "--durations", "7")

    tests = pytest_checks(fast=False, every=True, durations=7)
    assert status == 1
    assert ran == [((*STATIC_CHECKS, *tests), CHECKOUT)]
