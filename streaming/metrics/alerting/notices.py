"""Which alerts have begun and ended, and who was told: kept for the next start.

    begins --> to tell --told--> known --ends--> to tell --told--> forgotten

Each is told once when it begins and once when it ends. What was told is kept beside the checkpoint
after it was told, so a crash between the two repeats it, with the same id.
"""

import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

import msgspec

from streaming.metrics.alerting.conditions import Alert
from streaming.metrics.alerts import ShippedAlert

MOST: Final = 1_000
"""Alerts that are remembered at once."""

KEPT_FILE: Final = "alerts.json"
"""Beside the checkpoint: what was told, and what ended the last run."""

SETTLE_S: Final = 360.0
"""After a start, alerts of the last run do not end: conditions look at minutes of which nothing is
known yet."""


class Notice(msgspec.Struct):
    """An alert that has begun.

    Attributes:
        since_s, ended_s: epoch seconds; None: it has not ended.
        is_told: whether its beginning was told.
    """

    id: str
    alert: str
    labels: dict[str, str]
    value: float
    since_s: float
    ended_s: float | None = None
    is_told: bool = False


class Kept(msgspec.Struct):
    """What the next start continues with.

    Attributes:
        failure: what ended the last run, until a batch is committed.
    """

    notices: list[Notice] = []
    failure: str | None = None


class Notices:
    """The alerts that have begun and whose end was not told yet.

    Args:
        started_s: when the job started, epoch seconds.
    """

    def __init__(self, kept: Kept, started_s: float) -> None:
        self.kept = kept
        self._started_s = started_s
        self._earlier = {one.id for one in kept.notices}

    def update(self, now_s: float, firing: Mapping[Alert, float]) -> int:
        """Note what fires now; return how many alerts there was no room for."""
        notices = self.kept.notices
        known = {
            Alert(one.alert, tuple(one.labels.items())): one
            for one in notices
            if one.ended_s is None
        }
        left_out = 0
        for alert, value in firing.items():
            if alert in known:
                continue
            if len(notices) >= MOST:
                left_out += 1
                continue
            name, labels = alert
            notices.append(Notice(uuid.uuid4().hex, name, dict(labels), value, now_s))
        for alert, notice in known.items():
            is_settling = notice.id in self._earlier and now_s - self._started_s < SETTLE_S
            if alert not in firing and not is_settling:
                notice.ended_s = now_s
        return left_out

    def untold(self) -> Iterator[Notice]:
        """What is to be told, the oldest first."""
        for notice in list(self.kept.notices):
            if not notice.is_told or notice.ended_s is not None:
                yield notice

    def told(self, notice: Notice, *, end: bool) -> None:
        """Note that the beginning or the end was told, or that it is told no more."""
        notice.is_told = True
        if end:
            self.kept.notices.remove(notice)


def document(
    notice: Notice, rule: ShippedAlert, *, end: bool, job: str, console_url: str | None
) -> dict[str, object]:
    """What the webhook is told."""
    labels = notice.labels
    summary = _filled(rule.summary, labels, notice.value)
    return {
        "id": f"{notice.id}-{'resolved' if end else 'firing'}",
        "job": job,
        "alert": notice.alert,
        "state": "resolved" if end else "firing",
        "severity": rule.severity,
        "labels": labels,
        "value": notice.value,
        "summary": summary,
        "action": _filled(rule.action, labels, notice.value),
        "runbook": rule.runbook,
        "console": _link(notice, console_url),
        "began_at": _iso(notice.since_s),
        "ended_at": _iso(notice.ended_s) if end and notice.ended_s is not None else None,
    }


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _link(notice: Notice, console_url: str | None) -> str | None:
    """The page of the console about it, at the instant at which it began."""
    if console_url is None:
        return None
    about: dict[str, str] = {
        name: notice.labels[name] for name in ("vhost", "queue") if name in notice.labels
    }
    if "queue" not in about:
        about = {}
    page = "/queue" if about else "/"
    about["as_of"] = f"@{notice.since_s:.0f}"
    return f"{console_url}{page}?{urlencode(about)}"


def _filled(text: str, labels: Mapping[str, str], value: float) -> str:
    """A text of the rules, whose templates are those of Prometheus."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels.get(found[1], ""), text)
    value = float(value)
    forms: dict[str | None, str] = {
        None: f"{value:.0f}" if value.is_integer() else f"{value:g}",
        "humanizeDuration": _duration(value),
        "humanizePercentage": f"{100 * value:.4g}%",
        "humanize1024": f"{value / 2**30:.4g}Gi",
    }
    return re.sub(r"\{\{ \$value(?: \| (\w+))? \}\}", lambda found: forms[found[1]], text)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (rest, "s"))
    shown = [f"{count}{unit}" for count, unit in parts if count]
    return " ".join(shown[:2]) or "0s"
