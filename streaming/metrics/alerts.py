"""The shipped alert rules and dashboards, and how promtool plays the cause of an alert."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final, NamedTuple

from streaming.metrics.alert_cases import HEALTHY, WHERE, Case
from topology.errors import DlxError

SHIPPED: Final = Path(__file__).parent / "shipped"
RULES: Final = SHIPPED / "dlx-alerts.yml"


class PromtoolError(DlxError):
    """The rules could not be tested: promtool is missing."""


def alert_names() -> dict[str, str]:
    """Return the severity of each shipped alert, by name, in order."""
    return {name: alert.severity for name, alert in shipped_alerts().items()}


class ShippedAlert(NamedTuple):
    """What the rules say of an alert beside its condition.

    Attributes:
        hold_s: how long the condition must hold.
        summary: with the labels and the value in Go's templates.
        runbook: the section of the documentation.
    """

    severity: str
    hold_s: float
    summary: str
    action: str
    runbook: str


def shipped_alerts() -> dict[str, ShippedAlert]:
    """Return what the rules say of each alert, by name, in order."""
    found = {}
    for rule in RULES.read_text().split("- alert: ")[1:]:
        named = re.findall(r"(?m)^\s+(for|summary|action|runbook_url): '?(.*?)'?$", rule)
        values: dict[str, str] = dict(named)
        hold = re.fullmatch(r"(\d+)([smh])", values.get("for", "0s"))
        severity = re.search(r"severity: (\w+)", rule)
        assert hold is not None
        assert severity is not None
        found[rule.split("\n", 1)[0]] = ShippedAlert(
            severity[1],
            int(hold[1]) * {"s": 1, "m": 60, "h": 3600}[hold[2]],
            values["summary"],
            values["action"],
            values["runbook_url"],
        )
    return found


def with_docs(rules: str, docs: str) -> str:
    """Return the rules with runbook links into a place where the documentation is published."""
    return re.sub(
        r"runbook_url: 'docs/(\w+)\.md#(\w+)'",
        lambda found: f"runbook_url: '{docs.rstrip('/')}/{found[1]}.html#{found[2]}'",
        rules,
    )


def bare_rules() -> str:
    """Return the rules without annotations: promtool would compare them with ours."""
    return re.sub(
        r"\n\s+annotations:\n(?:\s+(?:summary|action|runbook_url|console): .*\n?)+",
        "\n",
        RULES.read_text(),
    )


def promtool_document(rules: Path, case: Case) -> dict[str, Any]:
    """Return promtool's test of one case, of every alert."""
    series = {**HEALTHY, **case.series}
    severities = alert_names()
    return {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "name": case.cause,
                "input_series": [
                    {"series": _located(name), "values": values} for name, values in series.items()
                ],
                "alert_rule_test": [
                    {
                        "eval_time": f"{case.minute}m",
                        "alertname": name,
                        "exp_alerts": _expected(case, name, severity),
                    }
                    for name, severity in severities.items()
                ],
            }
        ],
    }


def _located(name: str) -> str:
    metric, _, labels = name.rstrip("}").partition("{")
    where = [f'{name}="{value}"' for name, value in WHERE.items() if f"{name}=" not in labels]
    return f"{metric}{{{','.join(filter(None, (labels, *where)))}}}"


def _expected(case: Case, alert: str, severity: str) -> list[dict[str, Any]]:
    if alert not in case.fires:
        return []
    labels = {**WHERE, "severity": severity, **case.fires[alert]}
    return [{"exp_labels": {name: value for name, value in labels.items() if value}}]


def play(case: Case, folder: Path) -> str:
    """Play a case with promtool; return what it complains about, empty if all is as expected.

    Args:
        folder: for the files that promtool reads.

    Raises:
        PromtoolError: there is no promtool.
    """
    promtool = shutil.which("promtool")
    if promtool is None:
        raise PromtoolError(
            "promtool is not installed, which tests the rules: it comes with Prometheus (Debian's "
            "package prometheus)"
        )
    rules, file = folder / "rules.yml", folder / "case.yml"
    rules.write_text(bare_rules())
    file.write_text(json.dumps(promtool_document(rules, case)))
    done = subprocess.run(  # noqa: S603 - promtool, on a file of our own
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr
