"""The tests that may fail, with a reason for each, and the comparison with a run."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.suites.outcomes import Outcomes

EXPECTED: Final = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True, slots=True)
class ExpectedFailure:
    """Tests of a suite that may fail.

    Attributes:
        brokers: `rabbitmq`, `dlx`, or both.
        racy: they pass now and then; the others must fail.
        row: the feature in docs/compatibility.toml that tells users, or None.
    """

    tests: frozenset[str]
    brokers: frozenset[str]
    reason: str
    row: str | None
    racy: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a run and the expectations do not agree on.

    Attributes:
        not_run: racy tests that were not run, or were skipped.
    """

    unexpected_failures: tuple[str, ...]
    unexpected_passes: tuple[str, ...]
    not_run: tuple[str, ...]
    counts: dict[str, int]


def expected(suite: str, file: Path = EXPECTED) -> tuple[ExpectedFailure, ...]:
    """The exceptions of a suite."""
    document = tomllib.loads(file.read_text("utf-8"))
    return tuple(
        ExpectedFailure(
            frozenset(entry["tests"]),
            frozenset(entry["brokers"]),
            entry["reason"],
            entry.get("row"),
            entry.get("racy", False),
        )
        for entry in document.get(suite, [])
    )


def compare(outcomes: Outcomes, exceptions: tuple[ExpectedFailure, ...], broker: str) -> Comparison:
    """Compare a run against a broker (`rabbitmq` or `dlx`) with the exceptions of its suite.

    A racy test may pass or fail, but must run.
    """
    here = [each for each in exceptions if broker in each.brokers]
    allowed = {test for each in here for test in each.tests}
    racy = {test for each in here if each.racy for test in each.tests}
    failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
    passed = {test for test, outcome in outcomes.items() if outcome == "passed"}
    words = list(outcomes.values())
    return Comparison(
        tuple(sorted(failed - allowed)),
        tuple(sorted((allowed - racy) & passed)),
        tuple(sorted(racy - failed - passed)),
        {word: words.count(word) for word in ("passed", "failed", "skipped")},
    )
