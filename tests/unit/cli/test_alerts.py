"""`dlx config alerts`: play and export the shipped rules."""

import json

from streaming.metrics.alert_cases import CASES
from streaming.metrics.alerts import RULES, SHIPPED
from tests.fixtures.prometheus import program


def test_the_command_plays_every_cause_which_fires_its_alerts_and_no_other(dlx):
    program("promtool")

    code, out, err = dlx("config", "alerts", "test", "--json")

    played = [json.loads(line) for line in out.splitlines()]
    assert {row["cause"]: row["output"] for row in played if row["output"]} == {}
    assert (code, err) == (0, "")
    assert [row["cause"] for row in played] == [case.cause for case in CASES]
    assert {row["result"] for row in played} == {"ok"}


def test_without_promtool_the_error_says_where_it_is(dlx, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")

    code, out, err = dlx("config", "alerts", "test")

    assert (code, out) == (2, "")
    assert "promtool" in err
    assert err.count("\n") == 1


def test_the_files_are_exported_and_not_overwritten(dlx, tmp_path):
    folder = tmp_path / "monitoring"
    code, out, _ = dlx("config", "alerts", "export", folder)
    written = sorted(folder.iterdir())

    assert code == 0
    assert out.splitlines() == [str(file) for file in written]
    assert [file.name for file in written] == sorted(file.name for file in SHIPPED.iterdir())
    assert written[0].read_bytes() == (SHIPPED / written[0].name).read_bytes()

    code, _, err = dlx("config", "alerts", "export", folder)
    assert (code, "--force" in err) == (2, True)
    assert dlx("config", "alerts", "export", folder, "--force")[0] == 0


def test_runbook_links_lead_to_where_the_documentation_is_published(dlx, tmp_path):
    dlx("config", "alerts", "export", tmp_path, "--docs", "https://wiki.example.com/dlx/")

    rules = (tmp_path / RULES.name).read_text()
    assert "runbook_url: 'https://wiki.example.com/dlx/alerts.html#dlxjobdown'" in rules
    assert rules.count("https://wiki.example.com/dlx/alerts.html#") == rules.count("- alert:")


def test_a_folder_that_cannot_be_made_is_refused(dlx, tmp_path):
    (tmp_path / "file").touch()

    code, _, err = dlx("config", "alerts", "export", tmp_path / "file")

    assert code == 2
    assert str(tmp_path / "file") in err
