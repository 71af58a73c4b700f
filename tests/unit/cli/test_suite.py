"""`dlx test`, with checks that only print."""

import pytest

from streaming.cli import dev_test as suite
from streaming.cli.dev_test import Check, run_checks, the_tests

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


def test_nothing_is_said_when_everything_passes(capfd, tmp_path):
    status = run_checks((PRINTS,), tmp_path)

    assert (status, *capfd.readouterr()) == (0, "--- first\nfirst ran\n", "")


@pytest.mark.parametrize(("all_tests", "selects"), [(False, True), (True, False)])
def test_long_tests_are_left_out_unless_all_are_wanted(all_tests, selects):
    arguments = the_tests(all_tests=all_tests).arguments

    assert (arguments[-2:] == ("-m", "not long")) is selects


def test_all_tests_try_the_same_examples_on_every_machine():
    assert "--hypothesis-profile=ci" in the_tests(all_tests=True).arguments


def test_outside_a_checkout_there_is_nothing_to_test(dlx, monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "ROOT", tmp_path)

    assert dlx("test") == (
        2,
        "",
        f"dlx test works in a checkout of the project; {tmp_path} is none\n",
    )


def test_the_command_runs_the_static_checks_and_then_the_tests(dlx, monkeypatch, tmp_path):
    (tmp_path / "tests").mkdir()
    ran = []

    def note(checks, folder):
        ran.append((checks, folder))
        return 1

    monkeypatch.setattr(suite, "ROOT", tmp_path)
    monkeypatch.setattr(suite, "run_checks", note)

    status, _, _ = dlx("test", "--all")

    assert status == 1
    assert ran == [((*suite.STATIC_CHECKS, the_tests(all_tests=True)), tmp_path)]
