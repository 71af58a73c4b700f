"""Automatic dead-letter cycles: rings that a message can travel without ever being rejected.

RabbitMQ drops a dead letter that returns to a queue it has died in, unless it was rejected since
(R-CYC-3). So a ring in which every queue may kill messages by itself (by TTL, by a length limit, by
a delivery limit) loses messages, while a ring with a queue that only a consumer's rejection leaves,
as in the usual retry pattern, may be travelled for ever (R-CYC-7).

The graph's nodes are messages with a routing key, which may be unknown, in a queue or published to
an exchange; its edges lead wherever an automatic death may take them. Per-message expirations are
not considered: they are removed at the first death (R-DLX-11), so they drive no lap.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from topology.analysis.reachability import Key, Reach
from topology.policies import QueueSettings
from topology.vhost import Vhost

Node = tuple[Literal["queue", "exchange"], str, Key]
"""A message in a queue, or published to an exchange, and its routing key."""

Edges = dict[Node, Sequence[Node]]

MAX_CYCLES = 100
"""More rings than anybody reads at once; in a dense graph each costs a search of all of it."""

MAX_STEPS_SHOWN = 8


class DeadLetterCycle(msgspec.Struct, frozen=True):
    """One ring of queues, from its first queue by name.

    Attributes:
        queues: in the order of travel; the last one's dead letters return to the first.
        reasons: for each queue, the automatic reasons for which messages die there.
    """

    queues: tuple[str, ...]
    reasons: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        """One line, `work -(expired)-> retry -(expired)-> work`; a long ring is cut short."""
        steps = [
            f"{queue} -({' or '.join(reasons)})->"
            for queue, reasons in zip(self.queues, self.reasons, strict=True)
        ]
        if len(steps) > MAX_STEPS_SHOWN:
            steps[MAX_STEPS_SHOWN:] = [f"({len(steps) - MAX_STEPS_SHOWN} more queues) ->"]
        return " ".join([*steps, self.queues[0]])


def automatic_reasons(settings: QueueSettings) -> tuple[str, ...]:
    """The reasons, but `rejected`, for which messages may die in a queue with these settings."""
    limited = settings.max_length is not None or settings.max_length_bytes is not None
    reasons = {
        "expired": settings.message_ttl_ms is not None,
        "maxlen": limited and settings.overflow != "reject-publish",
        "delivery_limit": settings.delivery_limit is not None,
    }
    return tuple(reason for reason, possible in reasons.items() if possible)


def automatic_cycles(compiled: Vhost) -> list[DeadLetterCycle]:
    """Rings in which messages may travel by automatic deaths alone, a shortest one for each queue.

    Returns:
        Cycles sorted by their queues, each once, at most `MAX_CYCLES`. A queue in several cycles
        may appear in one of them only: ask again once that cycle is broken.
    """
    settings = compiled.all_settings()
    edges = _without_dead_ends(_edges(compiled))
    covered: set[str] = set()
    laps: dict[tuple[str, ...], DeadLetterCycle] = {}
    for start in edges:
        kind, queue, _ = start
        if kind == "exchange" or queue in covered:
            continue
        queues = _shortest_lap(start, edges)
        if not queues or len(queues) > len(set(queues)):
            continue  # a way that meets another queue twice ends there: that is the other's lap
        covered.update(queues)
        first = queues.index(min(queues))
        queues = queues[first:] + queues[:first]
        reasons = tuple(automatic_reasons(settings[queue]) for queue in queues)
        laps[queues] = DeadLetterCycle(queues, reasons)
        if len(laps) == MAX_CYCLES:
            break
    return [laps[queues] for queues in sorted(laps)]


def _edges(compiled: Vhost) -> Edges:
    """Where automatic deaths may take messages, from every way in which a queue may get one."""
    reach = Reach(compiled)
    edges: Edges = {}
    work: list[Node] = []
    for queue in sorted(compiled.queues):
        work.append(("queue", queue, queue))  # published by its name to the default exchange
        work.extend(("queue", queue, key) for key in reach.arrival_keys(queue))
    for node in work:
        if node not in edges:
            edges[node] = _after(node, compiled, reach)
            work.extend(edges[node])
    return edges


def _after(node: Node, compiled: Vhost, reach: Reach) -> Sequence[Node]:
    """The nodes one step on: the exchange of a dead letter, or the queues behind an exchange."""
    kind, name, key = node
    if kind == "exchange":
        return tuple(("queue", queue, key) for queue in reach.from_exchange(name, key))
    settings = compiled.settings(compiled.queues[name])
    exchange = settings.dead_letter_exchange
    if exchange is None or not automatic_reasons(settings):
        return ()
    if settings.dead_letter_routing_key is not None:
        key = settings.dead_letter_routing_key
    if not exchange and key is None:
        # Back to the queue it was published to by name (R-DLX-3), which has a node of its own.
        return ()
    return (("exchange", exchange, key),)


def _without_dead_ends(edges: Edges) -> Edges:
    """The nodes in queues that messages may return to, with whatever key, and those between.

    Nothing is left of a graph without cycles, so that looking for laps costs nothing there.
    """
    places: dict[Node, set[Node]] = {}
    backwards: dict[Node, set[Node]] = {_place(node): set() for node in edges}
    for node, targets in edges.items():
        places.setdefault(_place(node), set()).update(map(_place, targets))
    for place, next_places in places.items():
        for next_place in next_places:
            backwards[next_place].add(place)
    ends = _ends(places, backwards) | _ends(backwards, places)
    return {
        node: [target for target in targets if _place(target) not in ends]
        for node, targets in edges.items()
        if _place(node) not in ends
    }


def _place(node: Node) -> Node:
    """One node for a queue, whatever the key; an exchange routes by key and stays as it is."""
    kind, name, key = node
    return (kind, name, None if kind == "queue" else key)


def _ends(
    edges: Mapping[Node, Collection[Node]], backwards: Mapping[Node, Collection[Node]]
) -> set[Node]:
    """The nodes from which every way comes to an end."""
    ways_on = Counter({node: len(targets) for node, targets in edges.items()})
    ends = [node for node in edges if not ways_on[node]]
    for end in ends:
        for node in backwards[end]:
            ways_on[node] -= 1
            if not ways_on[node]:
                ends.append(node)
    return set(ends)


def _shortest_lap(start: Node, edges: Edges) -> tuple[str, ...]:
    """The queues of a shortest way back to a node's queue, that one first; or none."""
    came_from: dict[Node, Node] = {}
    work = [start]
    for node in work:
        for target in edges[node]:
            if _place(target) == _place(start):
                way = [node]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return tuple(name for kind, name, _ in reversed(way) if kind == "queue")
            if target not in came_from:
                came_from[target] = node
                work.append(target)
    return ()
