"""Which queues the console marks: no consumer, nearly full, or dropping dead letters.

The alerts of these names agree with it.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from streaming.console.page import View
from streaming.console.verdict import STALE_S
from streaming.queries.dead_letters.waiting import WaitingLetters, waiting_letters, waiting_queues
from streaming.queries.death_rates import dropped_by_queue, pattern_of
from streaming.queries.queue_flow import NO_FLOW, QueueFlow, ever_taken, queue_flows
from streaming.queries.queues import QueueDepth, list_queues
from streaming.queries.vhosts.clients import consumer_counts
from topology.policies import QueueSettings

NO_CONSUMER: Final = "DlxNoConsumer"
NEAR_MAX_LENGTH: Final = "DlxNearMaxLength"
"""The alerts that agree with the marks of queues."""

NEAR_LIMIT: Final = 0.9
"""The share of its limit from which a queue is nearly full."""

DROPPED_IN: Final = timedelta(hours=1)
"""What a full queue dropped is counted for so long."""

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


def lines(view: View) -> list[Line]:
    """Every queue that the user may see."""
    consumers = view.once("consumers", consumer_counts)
    flows = _flows(view)
    dead: Counter[Place] = Counter()
    inside: Counter[Place] = Counter()
    for one in letters_that_wait(view):
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


def _flows(view: View) -> dict[Place, QueueFlow]:
    end = view.known_until
    return view.once("flows", lambda tables: queue_flows(tables, end))


def letters_that_wait(view: View) -> list[WaitingLetters]:
    """The dead letters that wait in queues."""
    return view.once("letters", waiting_letters)


def stale_s(view: View) -> float | None:
    """How old the last batch is, if that is old; None: it is not, or the page is of the past."""
    if view.as_of is not None:
        return None
    age_s = (datetime.now(UTC) - view.known_until).total_seconds()
    return age_s if age_s > STALE_S else None
