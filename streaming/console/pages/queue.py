"""One queue: how deep it was when, what is in it, what entered and left it."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from streaming.console.chosen_queue import queue_of
from streaming.console.page import Answer, View
from streaming.console.queue_marks import letters_that_wait, lines, stale_s
from streaming.console.shown import duration
from streaming.queries.as_of.instant import first_event
from streaming.queries.dead_letters.waiting import deaths_before
from streaming.queries.depth_curve import DepthCurve, depth_curve, first_change
from streaming.queries.queues import peek
from streaming.queries.vhosts.changes import DEPLOYED
from streaming.queries.vhosts.releases import (
    DeathsAround,
    Release,
    deaths_around,
    release_before,
    releases,
)
from topology.sentences import Sentence, say

STRETCHES: Final = {"1h": 3_600, "15m": 900, "6h": 21_600, "24h": 86_400, "7d": 604_800, "all": 0}
LEAST_S: Final = 60
"""The shortest stretch of a curve, if the tables know no longer one."""

PREVIEWED: Final = 50
_SHORT_S: Final = 10.0
"""Shorter parts of a curve are named with tenths of a second."""

_LABEL: Final = 24
"""How much of a deployment's name stands in the curve; the list below it has all."""


def queue(view: View) -> Answer:
    """Show one queue, and a page of its contents."""
    place, row = queue_of(view)
    vhost, name = row["vhost"], row["name"]
    view.title = say("Queue %(queue)s", queue=name)
    unacked = view.one_of("state", "ready", "unacked") == "unacked"
    stretch = view.one_of("stretch", *STRETCHES)
    more = ["--unacked"] if unacked else []
    view.command = view.dlx("queues", "peek", "--count", PREVIEWED, *more, names=[name])
    end = view.end if stale_s(view) is None else view.known_until
    begin = end - timedelta(seconds=STRETCHES[stretch])
    if not STRETCHES[stretch]:
        begin = first_change(view.tables, vhost, name) or begin
    begin = max(begin, min(first_event(view.tables) or begin, end - timedelta(seconds=LEAST_S)))
    deep = place.ready + place.unacked
    curve = depth_curve(
        view.tables, vhost, name, begin, end, deep=deep, declared=view.declared.get(vhost)
    )
    may_read = view.may_read(vhost, name)
    total = place.unacked if unacked else place.ready
    first = (view.page - 1) * PREVIEWED
    contents = []
    if may_read and first < total:
        contents = peek(
            view.tables, name, limit=PREVIEWED, unacked=unacked, first=first, known=place
        )
    deaths = deaths_before(view.tables, vhost, contents)
    letters = [one for one in letters_that_wait(view) if one.vhost == vhost]
    release, around = _released(view, vhost, name)
    return {
        "release": release,
        "around": around,
        "shows_release": _stretch_with(release, begin, end),
        "row": row,
        "line": next(one for one in lines(view) if one.depth == place),
        "may_read": may_read,
        "contents": contents,
        "deaths": deaths,
        "redrivable": list(
            dict.fromkeys(one["message_id"] for one in contents if one["copy_id"] in deaths)
        ),
        "inside": [one for one in letters if one.queue == name],
        "outside": [one for one in letters if name in (one.died_in, one.first_in)],
        "stale_s": stale_s(view),
        "total": total,
        "size": PREVIEWED,
        "unacked": unacked,
        "stretch": stretch,
        "stretches": list(STRETCHES),
        "curve": curve,
        "drawn": _drawn(curve, view),
        "begin": begin,
        "purge": _purge(view, vhost, name) if view.as_of is None else "",
    }


def releases_of(view: View) -> list[Release]:
    """The releases of the vhosts that the user may see, the latest first."""
    return view.once("releases", releases)


def _released(view: View, vhost: str, name: str) -> tuple[Release | None, DeathsAround | None]:
    """The last release that concerns a queue, and the deaths in the queue around it."""
    until = view.end + timedelta(milliseconds=1)  # one at this instant counts
    found = release_before(releases_of(view), vhost, name, until)
    if found is None:
        return None, None
    of_queue = msgspec.structs.replace(found, queues=(name,))
    end = view.known_until
    [around] = view.once(
        f"around {of_queue}", lambda tables: deaths_around(tables, [of_queue], end)
    )
    return of_queue, around


def _stretch_with(release: Release | None, begin: datetime, end: datetime) -> str | None:
    """The shortest stretch in which the curve shows a release; None: the curve of now does."""
    at = None if release is None else datetime.fromisoformat(release.at)
    if at is None or at >= begin:
        return None
    fitting = {
        length_s: one
        for one, length_s in STRETCHES.items()
        if at >= end - timedelta(seconds=length_s)
    }
    return fitting[min(fitting)] if fitting else "all"


def _purge(view: View, vhost: str, name: str) -> str:
    words = ("queues", "purge", "--vhost", vhost, "--user", view.user.name)
    return view.dlx(*words, names=[name], vhost=False, as_of=False, tables=False)


def _drawn(curve: DepthCurve, view: View) -> dict[str, Any]:
    """Return the curve as curve.js reads it."""
    said = view.language.said
    span = _span(curve)
    bars = (
        ("died", say("died in %(span)s", span=span), curve.died),
        ("purged", say("purged in %(span)s", span=span), curve.purged),
    )
    return {
        "at_s": curve.at_s,
        "unit": said(say("messages in the queue")),
        "bars_unit": said(say("messages in %(span)s", span=span)),
        "series": [
            {"what": "depth", "label": said(say("depth")), "values": curve.depth},
            *(
                {"what": what, "label": said(label), "values": values, "bars": True}
                for what, label, values in bars
                if any(values)
            ),
        ],
        "marks": [
            {
                "at_s": datetime.fromisoformat(mark.at).timestamp(),
                "label": mark.name[:_LABEL] if mark.what == DEPLOYED else "",
            }
            for mark in curve.marks
        ],
        "link": view.here(as_of=None, page=None),
    }


def _span(curve: DepthCurve) -> Sentence:
    """How long a part of the curve is, which a bar stands for."""
    width_s = curve.at_s[1] - curve.at_s[0]
    if width_s < 1:
        return say("%(count)s ms", count=max(round(width_s * 1000), 1))
    tenths = round(width_s, 1)
    is_short = width_s < _SHORT_S and tenths % 1
    return say("%(count)s s", count=tenths) if is_short else duration(width_s)
