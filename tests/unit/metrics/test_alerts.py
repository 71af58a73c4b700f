"""The shipped rules and dashboards, checked without a job."""

import json
import re
import subprocess

import pytest

from streaming.metrics.alerts import CASES, RULES, SHIPPED, Case, alert_names, play
from streaming.metrics.collector import JOB
from tests.fixtures.prometheus import program

SUFFIX = re.compile(r"_(bucket|sum|count)$")


def test_promtool_accepts_the_rules():
    checked = subprocess.run(
        [program("promtool"), "check", "config", str(SHIPPED / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(alert_names())} rules found" in checked.stdout


def test_each_cause_fires_its_alerts_and_no_other(tmp_path):
    program("promtool")

    said = {case.cause: play(case, tmp_path) for case in CASES}

    assert {cause: text for cause, text in said.items() if text} == {}


def test_a_case_that_does_not_fire_is_reported(tmp_path):
    program("promtool")

    said = play(Case("nothing", {}, {"DlxUnexplained": {}}), tmp_path)

    assert "DlxUnexplained" in said


def test_every_alert_has_a_cause():
    assert {name for case in CASES for name in case.fires} == set(alert_names())
    assert RULES.read_text().count("- alert:") == len(alert_names())


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("dlx-*")), ids=lambda file: file.name)
def test_rules_and_dashboards_name_families_that_exist(file):
    known = {family.name for family in JOB.families}
    used = set(re.findall(r"\b(?:dlx|rabbitmq)_[a-z_]+", file.read_text()))

    assert used
    assert {
        name for name in used if SUFFIX.sub("", name) not in known and name not in known
    } == set()


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.json")), ids=lambda file: file.name)
def test_a_dashboard_has_panels_that_do_not_overlap(file):
    dashboard = json.loads(file.read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _y in cells) < 24
        assert not cells & taken
        taken |= cells
