"""What suites of client libraries may fail, and how a run is compared with it."""

import tomllib
from pathlib import Path

from tests.suites.catalogue import SUITES
from tests.suites.expectations import EXPECTED, Comparison, ExpectedFailure, compare, expected

COMPATIBILITY = Path(__file__).parents[3] / "docs" / "compatibility.toml"


def test_each_exception_of_ours_has_a_reason_and_a_row_of_the_compatibility_page():
    groups = tomllib.loads(COMPATIBILITY.read_text("utf-8"))["group"]
    rows = {row["feature"]: row["status"] for group in groups for row in group["row"]}
    exceptions = [each for name in SUITES for each in expected(name)]

    assert tomllib.loads(EXPECTED.read_text("utf-8")).keys() <= SUITES.keys()
    for each in exceptions:
        assert each.reason
        assert each.tests
        assert each.brokers <= {"dlx", "rabbitmq"}
        assert "rabbitmq" in each.brokers or rows[each.row] != "same"


def test_a_run_is_compared_with_the_exceptions_of_its_broker():
    ours = ExpectedFailure(frozenset({"a", "b"}), frozenset({"dlx"}), "it waits", "A row")
    outcomes = {"a": "failed", "b": "passed", "c": "failed", "d": "skipped", "e": "passed"}
    counts = {"passed": 2, "failed": 2, "skipped": 1}

    assert compare(outcomes, (ours,), "dlx") == Comparison(("c",), ("b",), (), counts)
    assert compare(outcomes, (ours,), "rabbitmq") == Comparison(("a", "c"), (), (), counts)


def test_a_racy_test_may_pass_or_fail_but_must_run():
    racy = ExpectedFailure(frozenset("abcd"), frozenset({"dlx"}), "a race", "A row", racy=True)
    outcomes = {"a": "failed", "b": "passed", "c": "skipped"}
    counts = {"passed": 1, "failed": 1, "skipped": 1}

    assert compare(outcomes, (racy,), "dlx") == Comparison((), (), ("c", "d"), counts)
    assert compare({"a": "failed"}, (racy,), "rabbitmq").unexpected_failures == ("a",)
