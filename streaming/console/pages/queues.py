"""The queues, and one queue: how deep it was when, what is in it, what entered and left it."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from streaming.console.page import PAGE_ROWS, Answer, Refused, View
from streaming.console.shown import duration
from streaming.console.verdict import STALE_S
from streaming.queries.as_of.instant import first_event
from streaming.queries.dead_letters.waiting import (
    WaitingLetters,
    deaths_before,
    waiting_letters,
    waiting_places,
    waiting_queues,
)
from streaming.queries.death_rates import dropped_by_queue, pattern_of
from streaming.queries.depth_curve import DepthCurve, depth_curve, first_change
from streaming.queries.duckdb_tables import Row
from streaming.queries.queue_flow import NO_FLOW, WINDOW, QueueFlow, ever_taken, queue_flows
from streaming.queries.queues import QueueDepth, list_queues, peek
from streaming.queries.vhosts.changes import DEPLOYED
from streaming.queries.vhosts.clients import consumer_counts
from streaming.queries.vhosts.listings import rows_of_queues
from streaming.queries.vhosts.releases import (
    DeathsAround,
    Release,
    deaths_around,
    release_before,
    releases,
)
from topology.policies import QueueSettings
from topology.sentences import Sentence, say

NO_CONSUMER: Final = "DlxNoConsumer"
NEAR_MAX_LENGTH: Final = "DlxNearMaxLength"
"""The alerts that agree with the marks of queues."""

NEAR_LIMIT: Final = 0.9
"""The share of its limit from which a queue is nearly full."""

DROPPED_IN: Final = timedelta(hours=1)
"""What a full queue dropped is counted for so long."""

STRETCHES: Final = {"1h": 3_600, "15m": 900, "6h": 21_600, "24h": 86_400, "7d": 604_800, "all": 0}
LEAST_S: Final = 60
"""The shortest stretch of a curve, if the tables know no longer one."""

PREVIEWED: Final = 50
_SHORT_S: Final = 10.0
"""Shorter parts of a curve are named with tenths of a second."""

_LABEL: Final = 24
"""How much of a deployment's name stands in the curve; the list below it has all."""

ORDERS: Final = ("desc", "asc")

Place = tuple[str, str]
"""A vhost, and the name of a queue in it."""


class Line(NamedTuple):
    """A queue in the list.

    Attributes:
        dead: letters that died in it and wait somewhere.
        fill: the share of its limit that is ready; None: it has none.
        is_unserved: messages wait in vain for a consumer.
        is_nearly_full: it is, and is not meant to be full.
        dropped: the messages of the last hour that it dropped although dead letters wait in it;
            0 if it is not full any more.
    """

    depth: QueueDepth
    consumers: int
    flow: QueueFlow
    dead: int
    fill: float | None
    is_unserved: bool
    is_nearly_full: bool
    dropped: int


SORTS: Final[Mapping[str, Callable[[Line], Any]]] = {
    "name": lambda one: one.depth.queue,
    "messages": lambda one: one.depth.ready + one.depth.unacked,
    "messages_ready": lambda one: one.depth.ready,
    "messages_unacknowledged": lambda one: one.depth.unacked,
    "message_bytes": lambda one: one.depth.bytes,
    "in": lambda one: one.flow.rate_in,
    "out": lambda one: one.flow.rate_out,
    "oldest": lambda one: _age_us(one.depth.oldest_at),
    "consumers": lambda one: one.consumers,
    "dead": lambda one: one.dead,
}
OF_COMMAND: Final = frozenset(
    {"messages", "messages_ready", "messages_unacknowledged", "message_bytes", "consumers"}
)
"""What `dlx queues list` sorts by too."""

SHOWN: Final[Mapping[str, Callable[[Line], bool]]] = {
    "": lambda _one: True,
    "unserved": lambda one: one.is_unserved,
    "nearly_full": lambda one: one.is_nearly_full,
    "dropping": lambda one: one.dropped > 0,
    "dead": lambda one: one.dead > 0,
    "filled": lambda one: one.depth.ready + one.depth.unacked > 0,
    "moving": lambda one: one.flow is not NO_FLOW,
}
"""Which queues are listed."""


def queues(view: View) -> Answer:
    """List the queues, filtered and sorted, a page at a time."""
    wanted = view.text("name", "") or ""
    sort = view.one_of("sort", *SORTS)
    order = view.one_of("order", *(ORDERS if sort != "name" else ORDERS[::-1]))
    shown = view.one_of("show", *SHOWN)
    words = ["queues", "list", *(("--sort", f"{sort}:{order}") if sort in OF_COMMAND else ())]
    view.command = view.dlx(*words)
    found = [
        one
        for one in _lines(view)
        if wanted.lower() in one.depth.queue.lower() and SHOWN[shown](one)
    ]
    found.sort(key=lambda one: (one.depth.queue, one.depth.vhost))
    found.sort(key=SORTS[sort], reverse=order == "desc")
    first = (view.page - 1) * PAGE_ROWS
    page = found[first : first + PAGE_ROWS]
    return {
        "rows": list(zip(rows_of(view, [one.depth for one in page]), page, strict=True)),
        "total": len(found),
        "size": PAGE_ROWS,
        "name": wanted,
        "sort": sort,
        "order": order,
        "show": shown,
        "shows": list(SHOWN),
        "window_min": WINDOW // timedelta(minutes=1),
        "stale_s": stale_s(view),
    }


class Marked(NamedTuple):
    """The queues with marks, those with the most messages first.

    Attributes:
        dropping: the queues that drop dead letters; `dropped` is of each.
    """

    unserved: list[QueueDepth]
    nearly_full: list[QueueDepth]
    dropping: Sequence[QueueDepth] = ()
    dropped: Mapping[Place, int] = {}


def marked(view: View) -> Marked:
    """The queues with marks, without what only the list of queues needs."""
    quiet = {alert: _quiet(view, alert) for alert in (NO_CONSUMER, NEAR_MAX_LENGTH)}
    filled = [one for one in view.once("queues", list_queues) if one.ready and view.sees(one.vhost)]
    filled.sort(key=lambda one: (-one.ready, one.vhost, one.queue))
    if not filled:
        return Marked([], [])
    settings = _settings(view)
    rules = {(one.vhost, one.queue): settings.get((one.vhost, one.queue)) for one in filled}
    letters = {(one.vhost, one.queue): one.count for one in view.once("waiting", waiting_queues)}
    full = [
        one
        for one in filled
        if _is_nearly_full(
            _fill(one, rule := rules[one.vhost, one.queue]),
            rule,
            letters.get((one.vhost, one.queue), 0),
        )
        and not quiet[NEAR_MAX_LENGTH](one.queue)
    ]
    dropped = _dropped(view) if any(_is_ring(rules[one.vhost, one.queue]) for one in full) else {}

    def unserved(
        among: list[QueueDepth], consumers: Mapping[Place, int], flows: Mapping[Place, QueueFlow]
    ) -> list[QueueDepth]:
        found = []
        for one in among:
            place = one.vhost, one.queue
            flow = flows.get(place, NO_FLOW)
            known = consumers.get(place, 0), flow, rules[place], letters.get(place, 0)
            if _is_unserved(one, *known) and not quiet[NO_CONSUMER](one.queue):
                found.append(one)
        return found

    found = unserved(filled, {}, {})
    if found:  # the cheap conditions leave few queues, mostly none
        consumers = view.once("consumers", consumer_counts)
        found = unserved(found, consumers, {})
        found = unserved(found, consumers, _flows(view)) if found else found
    needless = _need_none(view, found, rules, letters, _flows(view)) if found else set()
    return Marked(
        [one for one in found if (one.vhost, one.queue) not in needless],
        [one for one in full if (one.vhost, one.queue) not in dropped],
        [one for one in full if (one.vhost, one.queue) in dropped],
        dropped,
    )


def _dropped(view: View) -> Mapping[Place, int]:
    """What full queues without a place for their dead letters dropped in the last hour."""
    if not view.tables.has("dead_letters"):
        return {}
    end = view.known_until
    return view.once("dropped", lambda tables: dropped_by_queue(tables, end, DROPPED_IN))


def _need_none(
    view: View,
    unserved: Sequence[QueueDepth],
    rules: Mapping[Place, QueueSettings | None],
    letters: Mapping[Place, int],
    flows: Mapping[Place, QueueFlow],
) -> set[Place]:
    """Those of some queues that need no consumer, as the alert has it.

    No message was ever taken from them, and they only delay, with a dead-letter exchange, or are
    meant to be full, and are.
    """
    places = set()
    for one in unserved:
        rule = rules.get(place := (one.vhost, one.queue))
        delays = rule is not None and rule.dead_letter_exchange is not None
        is_at_rest = (
            _is_ring(rule)
            and not letters.get(place, 0)
            and ((_fill(one, rule) or 0) >= 1 or any(flows.get(place, NO_FLOW).left))
        )
        if delays or is_at_rest:
            places.add(place)
    if not places:
        return places
    name = f"taken {sorted(places)}"
    return places - view.once(name, lambda tables: ever_taken(tables, sorted(places)))


def _quiet(view: View, alert: str) -> Callable[[str], bool]:
    """Whether a queue is one that the alert of a mark leaves out, so that it has no mark."""
    names = view.console.quiet_in(alert)
    if not names:
        return lambda _name: False
    pattern = re.compile(pattern_of(names))
    return lambda name: pattern.fullmatch(name) is not None


def _settings(view: View) -> Mapping[Place, QueueSettings]:
    """The settings of every queue."""
    return view.of_topology(
        f"settings {sorted(view.declared)}",
        lambda: {
            (vhost, name): one
            for vhost, each in view.declared.items()
            for name, one in each.vhost().all_settings().items()
        },
    )


def _lines(view: View) -> list[Line]:
    """Every queue that the user may see."""
    consumers = view.once("consumers", consumer_counts)
    flows = _flows(view)
    dead: Counter[Place] = Counter()
    inside: Counter[Place] = Counter()
    for one in _waiting(view):
        for queue in {one.died_in, one.first_in}:
            dead[one.vhost, queue] += one.count
        inside[one.vhost, one.queue] += one.count
    settings = _settings(view)
    dropped = _dropped(view)
    is_served, has_room = _quiet(view, NO_CONSUMER), _quiet(view, NEAR_MAX_LENGTH)
    found = []
    for depth in view.once("queues", list_queues):
        if view.sees(depth.vhost):
            place = depth.vhost, depth.queue
            flow = flows.get(place, NO_FLOW)
            rules = settings.get(place)
            found.append(
                Line(
                    depth,
                    consumers.get(place, 0),
                    flow,
                    dead[place],
                    fill := _fill(depth, rules),
                    not is_served(depth.queue)
                    and _is_unserved(depth, consumers.get(place, 0), flow, rules, inside[place]),
                    is_full := _is_nearly_full(fill, rules, inside[place])
                    and not has_room(depth.queue),
                    dropped.get(place, 0) if is_full and _is_ring(rules) else 0,
                )
            )
    unserved = [one.depth for one in found if one.is_unserved]
    needless = _need_none(view, unserved, settings, inside, flows)
    return [
        one._replace(is_unserved=False) if (one.depth.vhost, one.depth.queue) in needless else one
        for one in found
    ]


def _fill(depth: QueueDepth, rules: QueueSettings | None) -> float | None:
    """The share of its limit that is ready; None: the queue has none."""
    if rules is None or not rules.has_length_limit:
        return None
    limits = ((depth.ready, rules.max_length), (depth.ready_bytes, rules.max_length_bytes))
    return max(used / max(limit, 1) for used, limit in limits if limit is not None)


def _is_nearly_full(fill: float | None, rules: QueueSettings | None, letters: int) -> bool:
    """Whether a queue is that is not meant to be full; one in which dead letters wait never is."""
    return (fill or 0) >= NEAR_LIMIT and (letters > 0 or not _is_ring(rules))


def _is_ring(rules: QueueSettings | None) -> bool:
    """Whether a queue drops its oldest, and was declared without a place for them."""
    return (
        rules is not None and rules.overflow == "drop-head" and rules.dead_letter_exchange is None
    )


def _is_unserved(
    depth: QueueDepth, consumers: int, flow: QueueFlow, rules: QueueSettings | None, letters: int
) -> bool:
    """Whether messages wait for a consumer and there is none.

    Dead letters wait for a decision instead, and messages with a TTL of their queue for its end.
    Nor does a queue need one from which programs fetch now and then. What a queue drops by itself
    was not taken.
    """
    delays = rules is not None and rules.message_ttl_ms is not None
    return depth.ready > letters and not consumers and not flow.taken and not delays


def _age_us(oldest_at: str | None) -> int:
    """How old, so that the oldest is the largest; of an empty queue the least."""
    if oldest_at is None:
        return -(2**62)
    return -round(datetime.fromisoformat(oldest_at).timestamp() * 1e6)


def _flows(view: View) -> dict[Place, QueueFlow]:
    end = view.known_until
    return view.once("flows", lambda tables: queue_flows(tables, end))


def _waiting(view: View) -> list[WaitingLetters]:
    return view.once("letters", waiting_letters)


class Movable(NamedTuple):
    """The letters that a redrive by the user can move.

    Attributes:
        queues: where they are; None: the user may read all queues.
        deaths: vhost, queue and reason of their deaths.
    """

    queues: frozenset[Place] | None
    deaths: frozenset[tuple[str, str, str]]

    def has(self, vhost: str | None, queue: str | None, reason: str | None) -> bool:
        """Whether there is a letter with such a death; None: any."""
        return any(
            vhost in {None, one} and queue in {None, place} and reason in {None, why}
            for one, place, why in self.deaths
        )


def movable(view: View) -> Movable:
    """Say which letters a redrive by the user can move: those that are ready and theirs to read."""
    found = [
        one
        for one in _waiting(view)
        if one.ready and view.sees(one.vhost) and view.may_read(one.vhost, one.queue)
    ]
    places = frozenset((one.vhost, one.queue) for one in found)
    queues = None if view.user.administrator else places
    deaths = frozenset((one.vhost, one.died_in, one.reason) for one in found)
    if any((one.first_in, one.first_reason) != (one.died_in, one.reason) for one in found):
        deaths = view.once("movable", lambda tables: waiting_places(tables, queues))
    return Movable(queues, deaths)


def stale_s(view: View) -> float | None:
    """How old the last batch is, if that is old; None: it is not, or the page is of the past."""
    if view.as_of is not None:
        return None
    age_s = (datetime.now(UTC) - view.known_until).total_seconds()
    return age_s if age_s > STALE_S else None


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
    letters = [one for one in _waiting(view) if one.vhost == vhost]
    release, around = _released(view, vhost, name)
    return {
        "release": release,
        "around": around,
        "shows_release": _stretch_with(release, begin, end),
        "row": row,
        "line": next(one for one in _lines(view) if one.depth == place),
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


def of_several(name: str) -> str:
    """Why one queue has to be chosen."""
    return say("Several vhosts have a queue %(queue)s: add the parameter vhost.", queue=repr(name))


def queue_of(view: View) -> tuple[QueueDepth, Row]:
    """Return the queue of the URL: what it holds, and with its settings."""
    name = view.name("queue")
    if name is None:
        raise Refused(400, say("Choose a queue: the address has no parameter queue."))
    found = [
        one
        for one in view.once("queues", list_queues)
        if one.queue == name and view.sees(one.vhost)
    ]
    if not found:
        what = say("There is no queue %(queue)s at this instant.", queue=repr(name))
        raise Refused(404, what)
    if len(found) > 1:
        raise Refused(400, of_several(name))
    return found[0], rows_of(view, found)[0]


def rows_of(view: View, found: Sequence[QueueDepth]) -> list[Row]:
    """Queues with what is in them, and the settings that apply to them."""
    return rows_of_queues(view.declared, found, view.once("consumers", consumer_counts))


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
