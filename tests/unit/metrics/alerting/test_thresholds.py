"""What the job compares with is what the shipped rules compare with."""

import re

import pytest

from streaming.metrics.alerting import conditions
from streaming.metrics.alerts import RULES, alert_names
from streaming.queries.death_rates import BURST, BURST_LETTERS, OLD_S

_LAGS = [most for _window_s, most in conditions.LAGS]
THRESHOLDS = {
    "DlxDeathBurst": [BURST_LETTERS, BURST],
    "DlxDeadLettersUnhandled": [OLD_S],
    "DlxNearRetention": [conditions.NEAR_RETENTION],
    "DlxBacklogGrowing": [conditions.LONG_BACKLOG, conditions.GROWTH],
    "DlxNearMaxLength": [conditions.NEARLY_FULL],
    "DlxDiskFillsUp": [conditions.LITTLE_SPACE, conditions.FULL_WITHIN_S],
    "DlxJobStale": [conditions.SILENT_S],
    "DlxLagGrowing": [most for most in _LAGS for _ in range(2)],
    "DlxSlow": [conditions.SLOWEST, conditions.SLOW_S],
    "DlxFrontStuck": [30.0],  # the rule's alone
}
"""Alert -> the numbers of its condition, in the order of its rule; others compare with 0 or 1."""

_NO_NUMBERS = re.compile(r"\{[^}]*\}|\[\w+\]|\boffset \w+|[A-Za-z_]\w*")
_NUMBER = re.compile(r"([\d.]+)(?: \* (3600)\b)?")


def numbers(alert):
    """The numbers that the rule of an alert compares with, but 0 and 1."""
    text = RULES.read_text()
    [rule] = re.findall(rf"- alert: {alert}\n(.*?)(?=\n      - alert:|\Z)", text, re.DOTALL)
    [expression] = re.findall(
        r"expr: (.*?)\n        (?:for|labels|keep_firing_for):", rule, re.DOTALL
    )
    found = _NUMBER.findall(_NO_NUMBERS.sub(" ", expression))
    values = [float(number) * float(factor or 1) for number, factor in found]
    return [value for value in values if value not in {0.0, 1.0}]


@pytest.mark.parametrize("alert", alert_names())
def test_a_condition_and_its_rule_have_the_same_thresholds(alert):
    assert numbers(alert) == THRESHOLDS.get(alert, [])
