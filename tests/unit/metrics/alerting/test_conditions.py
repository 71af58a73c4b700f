"""The conditions that the job finds are those of the rules: each cause is played to both."""

import re

import pytest

from streaming.front_metrics.families import FRONT
from streaming.metrics.alert_cases import CASES, HEALTHY, Case
from streaming.metrics.alerting.conditions import CONDITIONS, FAMILIES, NOT_FOUND, Watch
from streaming.metrics.alerting.history import GAP_S, KEPT_S, History
from streaming.metrics.alerts import RULES, alert_names, shipped_alerts
from streaming.metrics.collector import JOB
from tests.fixtures.scripts import values_of

LABELS = {family.name: family.labels for family in JOB.families}
HOLDS_S = {name: alert.hold_s for name, alert in shipped_alerts().items()}
SERIES = re.compile(r"(\w+)\{(.*)\}")


def series_of(case):
    """Name and labels -> the values of each minute."""
    found = {}
    for text, script in {**HEALTHY, **case.series}.items():
        named = SERIES.fullmatch(text)
        assert named is not None
        name, labels = named[1], dict(re.findall(r'(\w+)="([^"]*)"', named[2]))
        names = ("le",) if name.endswith("_bucket") else LABELS.get(name)
        if names is not None:
            found[name, tuple(labels.get(each, "") for each in names)] = values_of(script)
    return found


def play(case):
    """The alerts that fire in the minute of a case, with their labels."""
    watch, firing = Watch(HOLDS_S), {}
    series = series_of(case)
    for minute in range(case.minute + 1):
        samples: dict[str, dict[tuple[str, ...], float]] = {}
        for (name, labels), values in series.items():
            value = values[minute] if minute < len(values) else None
            if value is not None:
                samples.setdefault(name, {})[labels] = value
        firing = watch.step(minute * 60.0, samples)
    return {alert.name: dict(alert.labels) for alert in firing}


def expected(case):
    """What it fires in the job, which does not know where Prometheus finds it."""
    return {name: labels for name, labels in case.fires.items() if name not in NOT_FOUND}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.cause)
def test_each_cause_fires_in_the_job_what_it_fires_in_prometheus(case):
    assert play(case) == expected(case)


def test_a_cause_that_is_wrong_is_noticed():
    case = Case("nothing", {"dlx_unexplained{}": "0x57 1x33"})

    assert play(case) == {"DlxUnexplained": {}}


def test_every_alert_has_a_condition_or_cannot_be_found_by_the_job():
    assert CONDITIONS.keys() | NOT_FOUND == alert_names().keys()
    assert not CONDITIONS.keys() & NOT_FOUND
    named = set(re.findall(r"\b(?:dlx|rabbitmq)_[a-z_]+", RULES.read_text()))
    of_fronts = {family.name for family in FRONT.families if family.name.startswith("dlx_front_")}
    assert {name.removesuffix("_bucket") for name in named - of_fronts} - {
        "dlx_console_info",
        "dlx_batch_duration_seconds",
        "dlx_start_timestamp_seconds",
        "dlx_metrics_series_left_out",
    } == FAMILIES


def test_a_value_that_stays_takes_one_entry_and_is_forgotten_in_the_end():
    history = History()
    for second in range(0, 600, 15):
        history.add(second, {"gauge": {(): 1.0}})
    assert history.over("gauge", 600) == {(): [1.0]}
    assert history.at("gauge", 300) == {(): 1.0}

    history.add(600 + KEPT_S, {})
    assert history.over("gauge", KEPT_S) == {}


def test_a_series_that_is_gone_has_no_value():
    history = History()
    history.add(0, {"gauge": {(): 1.0}})
    history.add(60, {})
    assert history.now("gauge") == {}

    history.add(GAP_S + 1, {})
    assert history.at("gauge", 0) == {}
