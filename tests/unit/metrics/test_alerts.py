"""The shipped rules and dashboards, checked without a job."""

import json
import re
import subprocess

import pytest
import yaml  # type: ignore[import-untyped]

from streaming.config.alerts import ABOUT_QUEUES
from streaming.console.all_pages import PAGES
from streaming.front_metrics.families import FRONT
from streaming.metrics.alert_cases import CASES, Case
from streaming.metrics.alerts import (
    RULES,
    SHIPPED,
    alert_names,
    play,
    promtool_document,
    with_docs,
)
from streaming.metrics.collector import JOB
from tests.fixtures.prometheus import program
from tools.docs.markdown import DOCS, anchors

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


def test_a_case_that_does_not_fire_is_reported(tmp_path):
    program("promtool")

    said = play(Case("nothing", {}, {"DlxUnexplained": {}}), tmp_path)

    assert "DlxUnexplained" in said


def test_every_alert_has_a_cause():
    assert {name for case in CASES for name in case.fires} == set(alert_names())
    assert RULES.read_text().count("- alert:") == len(alert_names())


def test_each_alert_has_a_section_of_the_documentation():
    links = dict(
        re.findall(r"- alert: (\w+)\n(?:.*\n)*?\s+runbook_url: '(\S+)'", RULES.read_text())
    )

    assert links.keys() == alert_names().keys()
    for name, link in links.items():
        page, _, section = link.partition("#")
        assert section in anchors(DOCS.parent / page), name
        assert section == name.lower()


def test_each_alert_links_a_page_of_the_console_at_the_instant():
    rules = yaml.safe_load(RULES.read_text())["groups"]
    links = {
        rule["alert"]: rule["annotations"]["console"]
        for group in rules
        for rule in group["rules"]
        if "alert" in rule
    }

    assert links.keys() == alert_names().keys()
    known = {page.path for page in PAGES}
    for name, link in links.items():
        [path] = re.findall(r'label "url" }}(/[a-z]*)\?', link)
        assert path in known, name
        assert 'as_of=@{{ with query "time()" }}' in link, name


def test_the_annotations_link_into_the_console_at_the_instant(tmp_path):
    series = {'dlx_queue_fill_ratio{vhost="/",queue="a b&c"}': "0.95x90"}
    case = Case("a queue is nearly full", series, {"DlxNearMaxLength": {}})
    document = promtool_document(tmp_path / "rules.yml", case)
    (tmp_path / "rules.yml").write_text(with_docs(RULES.read_text(), "https://wiki.example.com/"))
    tests = document["tests"][0]["alert_rule_test"]
    [one] = [test for test in tests if test["alertname"] == "DlxNearMaxLength"]
    document["tests"][0]["alert_rule_test"] = [one]
    [expected] = one["exp_alerts"]
    expected["exp_labels"] |= {"vhost": "/", "queue": "a b&c"}
    expected["exp_annotations"] = {
        "summary": "Queue a b&c has taken 95% of its limit",
        "action": "Consume it, or raise its max-length; beyond it messages die or are refused.",
        "runbook_url": "https://wiki.example.com/alerts.html#dlxnearmaxlength",
        "console": "https://dlx.example.com/queue?vhost=%2F&queue=a+b%26c&as_of=@3600",
    }
    (tmp_path / "case.yml").write_text(json.dumps(document))

    done = subprocess.run(
        [program("promtool"), "test", "rules", str(tmp_path / "case.yml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_about_a_queue_can_leave_queues_out():
    rules = re.split(r"- alert: ", RULES.read_text())[1:]
    about = {rule.partition("\n")[0] for rule in rules if "dlx_quiet_queue" in rule}

    assert about == set(ABOUT_QUEUES)
    for name in about:
        assert f'dlx_quiet_queue{{alert=~"|{name}"}}' in RULES.read_text()


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("dlx-*")), ids=lambda file: file.name)
def test_rules_and_dashboards_name_families_that_exist(file):
    known = {one.name for one in JOB.families} | {one.name for one in FRONT.families}
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
