"""Alerts: what fires now, as the job knows, and every rule with what to do."""

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from streaming.console.languages import Language
from streaming.console.page import Answer, View
from streaming.console.shown import duration
from streaming.metrics.alerting.conditions import NOT_FOUND
from streaming.metrics.alerting.notices import KEPT_FILE, Kept, Notice, document
from streaming.metrics.alerts import ShippedAlert, shipped_alerts
from streaming.storage.json_file import read_json_file
from topology.errors import DlxError
from topology.sentences import Sentence, say, to_say

SEVERITIES: Final = (to_say("critical"), to_say("warning"), to_say("info"))
"""The worst first."""

Knowledge = Literal["known", "past", "no_config", "no_webhook", "unreadable"]
"""Whether it is known what fires; if not, why."""


class Rule(NamedTuple):
    """An alert that can fire.

    Attributes:
        summary: what it says, with `…` for what it is about.
        hold: how long its condition must hold.
        quiet: the queues that it leaves out.
        is_the_jobs: whether the job finds it, too, and not Prometheus alone.
    """

    name: str
    severity: str
    summary: str
    hold: Sentence | str
    quiet: tuple[str, ...]
    is_the_jobs: bool


class Firing(NamedTuple):
    """An alert that fires.

    Attributes:
        path: of the page about it.
    """

    name: str
    severity: str
    summary: str
    action: str
    since_s: float
    path: str


def alerts(view: View) -> Answer:
    """Show what fires, the worst first, and all rules."""
    view.title = say("Alerts")
    knowledge, kept = _kept(view)
    firing = [
        _firing(one, view.language)
        for one in kept.notices
        if one.ended_s is None and one.alert in _rules() and view.sees(one.labels.get("vhost"))
    ]
    firing.sort(key=lambda one: (SEVERITIES.index(one.severity), one.since_s))
    rules = [
        Rule(
            name,
            one.severity,
            _plain(view.language.word(one.summary)),
            duration(one.hold_s) if one.hold_s else say("at once"),
            _quiet(view, name),
            name not in NOT_FOUND,
        )
        for name, one in _rules().items()
    ]
    return {"knowledge": knowledge, "firing": firing, "rules": rules}


@cache
def _rules() -> Mapping[str, ShippedAlert]:
    return shipped_alerts()


def _firing(notice: Notice, language: Language) -> Firing:
    known = _rules()[notice.alert]
    summary, action = language.word(known.summary), language.word(known.action)
    rule = known._replace(summary=summary, action=action)
    told = document(notice, rule, end=False, job="", console_url="")
    summary, action, path = (str(told[name]) for name in ("summary", "action", "console"))
    return Firing(notice.alert, rule.severity, summary, action, notice.since_s, path)


def _plain(summary: str) -> str:
    """What a rule says of any object: without what only an alert that fires knows."""
    return re.sub(r"\{\{.*?\}\}B?", "…", re.sub(r": \{\{[^}]*\}\}$", "", summary))


def _quiet(view: View, name: str) -> tuple[str, ...]:
    """The queues that an alert leaves out, for those who may see all."""
    from streaming.config.alerts import ABOUT_QUEUES  # noqa: PLC0415 - pages of tables need none

    if name not in ABOUT_QUEUES or not view.user.administrator:
        return ()
    return view.console.quiet_in(name)


def _kept(view: View) -> tuple[Knowledge, Kept]:
    """What the job has found, and keeps beside its checkpoint; it looks only for a webhook."""
    if view.as_of is not None:
        return "past", Kept()
    if view.console.config is None:
        return "no_config", Kept()
    try:
        found = _read(view.console.config)
    except (DlxError, OSError):
        return "unreadable", Kept()
    return ("no_webhook", Kept()) if found is None else ("known", found)


def _read(file: Path) -> Kept | None:
    from streaming.config import read_config  # noqa: PLC0415 - pages of tables need none
    from streaming.config.loading import rooted  # noqa: PLC0415
    from streaming.job_locations import checkpoint_place  # noqa: PLC0415

    config = rooted(read_config(file), file.absolute().parent)
    if config.alerts.webhook is None:
        return None
    place = checkpoint_place(config, os.environ) / KEPT_FILE
    return read_json_file(place, Kept, "Delete it.") or Kept()
