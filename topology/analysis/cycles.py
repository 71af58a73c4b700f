"""Cycles: ways on which a message returns to a queue that it left.

RabbitMQ drops a dead letter that returns to a queue it died in, unless it was rejected since
(R-CYC-3). So a cycle in which every queue lets messages die automatically (by TTL, length limit or
delivery limit) loses messages. A cycle with a queue that messages leave only by a consumer's
rejection, the usual retry pattern, may be travelled for ever (R-CYC-7).

A queue's own alternate exchange takes a message only once, unless `reroute-once` is false
(R-QPID-5). So a message that returns over an alternate exchange is discarded when it is rejected
again.

The graph's nodes are messages with a routing key, which may be unknown, in a queue or at an
exchange. Its edges lead wherever a message may go next. If neither the node nor any node behind it
depends on the key, the key is left out: one node then stands for all keys, and the graph of
thousands of queues around one fanout exchange stays small. Per-message expirations are ignored:
they are removed at the first death (R-DLX-11), so they drive no cycle.

The search has two passes. The first leaves keys unknown where a binding has wildcards: it is
linear, and if it finds nothing there is nothing. Otherwise the second pass follows sample keys from
where clients publish (see `key_patterns`), and finds what is really travelled. CC and BCC keys are
ignored: a message that has some may also go where its own key does not lead.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from topology.analysis.key_patterns import (
    MAX_SAMPLES,
    TooManyPatternsError,
    Wild,
    closed_under_intersection,
    is_literal,
    literal,
    pattern_of,
    sample_keys,
    word_beside,
)
from topology.analysis.reachability import Key, Reach
from topology.policies import QueueSettings
from topology.vhost import Vhost

Node = tuple[Literal["queue", "exchange"], str, Key]
"""A message in a queue, or at an exchange, and its routing key."""

Vertex = tuple[Literal["queue", "exchange"], str]
Edges = dict[Node, Sequence[Node]]

Exit = tuple[str, Key]
"""The exchange that takes the messages leaving a queue, and their new key; None: they keep it."""

MAX_CYCLES = 100
"""More than anybody reads at once; in a dense graph each costs a search of the whole graph."""

MAX_STEPS_SHOWN = 8

_MAX_NODES = 20_000
"""Nodes of the second pass at its beginning; with more, the first pass must do."""


class DeadLetterCycle(msgspec.Struct, frozen=True):
    """A cycle of queues, beginning with its first queue by name.

    Attributes:
        queues: in the order of travel; messages that leave the last one return to the first.
        reasons: for each queue, why messages leave it.
    """

    queues: tuple[str, ...]
    reasons: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        # `work -(expired)-> retry -(expired)-> work`
        steps = [
            f"{queue} -({' or '.join(reasons)})->"
            for queue, reasons in zip(self.queues, self.reasons, strict=True)
        ]
        if len(steps) > MAX_STEPS_SHOWN:
            steps[MAX_STEPS_SHOWN:] = [f"({len(steps) - MAX_STEPS_SHOWN} more queues) ->"]
        return " ".join([*steps, self.queues[0]])


def automatic_reasons(settings: QueueSettings) -> tuple[str, ...]:
    """The reasons, except `rejected`, why messages may die in a queue with these settings."""
    reasons = {
        "expired": settings.message_ttl_ms is not None,
        "maxlen": settings.has_length_limit and not settings.refuses_when_full,
        "delivery_limit": settings.delivery_limit is not None,
    }
    return tuple(reason for reason, possible in reasons.items() if possible)


def automatic_cycles(vhost: Vhost) -> list[DeadLetterCycle]:
    """Find cycles that messages travel by automatic deaths alone.

    Returns:
        A shortest cycle for each queue, each once, at most `MAX_CYCLES`, sorted by their queues. A
        queue in several cycles may appear in one of them only: ask again once that is broken.
    """

    def exit_of(settings: QueueSettings) -> Exit | None:
        if settings.dead_letter_exchange is None or not automatic_reasons(settings):
            return None
        return settings.dead_letter_exchange, settings.dead_letter_routing_key

    return _find_cycles(vhost, vhost.queues, exit_of, automatic_reasons, once_only=True)


def alternate_cycles(vhost: Vhost) -> list[DeadLetterCycle]:
    """Find cycles on which rejected messages return over their queue's alternate exchange.

    Returns:
        As `automatic_cycles`, for the queues that reroute rejected messages, but only once.
    """

    def exit_of(settings: QueueSettings) -> Exit | None:
        if settings.dead_letter_exchange is not None:
            return settings.dead_letter_exchange, settings.dead_letter_routing_key
        return None if settings.alternate_exchange is None else (settings.alternate_exchange, None)

    def reasons_of(settings: QueueSettings) -> tuple[str, ...]:
        automatic = automatic_reasons(settings) if settings.dead_letter_exchange is not None else ()
        return (*automatic, "rejected")

    starts = [
        name
        for name, settings in vhost.all_settings().items()
        if settings.alternate_exchange is not None
        and settings.dead_letter_exchange is None
        and settings.reroute_once
    ]
    return _find_cycles(vhost, starts, exit_of, reasons_of, once_only=False)


def _find_cycles(
    vhost: Vhost,
    starts: Iterable[str],
    exit_of: Callable[[QueueSettings], Exit | None],
    reasons_of: Callable[[QueueSettings], tuple[str, ...]],
    *,
    once_only: bool,
) -> list[DeadLetterCycle]:
    """Search from each of these queues.

    Args:
        exit_of: where messages go that leave a queue with these settings; None if none do.
        once_only: the journey ends where a message meets any queue for the second time.
    """
    settings = vhost.all_settings()
    exits = {name: exit_of(each) for name, each in settings.items()}
    graph = _Graph(vhost, {name: [each] for name, each in exits.items() if each is not None})
    edges = _without_dead_ends(graph.edges_from(graph.arrivals(starts)))
    with suppress(TooManyPatternsError):
        edges = edges and _without_dead_ends(graph.edges_from(_arrivals_by_sample(vhost, edges)))
    covered: set[str] = set()
    cycles: dict[tuple[str, ...], DeadLetterCycle] = {}
    wanted = set(starts)
    for start in edges:
        kind, queue, _ = start
        if kind == "exchange" or queue in covered or queue not in wanted:
            continue
        queues = _shortest_cycle(start, edges)
        if not queues or (once_only and len(queues) > len(set(queues))):
            continue  # the journey ends at the repeated queue, which has a cycle of its own
        covered.update(queues)
        first = queues.index(min(queues))
        queues = queues[first:] + queues[:first]
        cycles[queues] = DeadLetterCycle(queues, tuple(reasons_of(settings[q]) for q in queues))
        if len(cycles) == MAX_CYCLES:
            break
    return [cycles[queues] for queues in sorted(cycles)]


def _arrivals_by_sample(vhost: Vhost, edges: Edges) -> list[Node]:
    """The nodes of queues that messages reach whose keys stand for all that may go in cycles.

    Args:
        edges: what may be in a cycle; other bindings need not be told apart.

    Raises:
        TooManyPatternsError: there are too many keys to try.
    """
    router, settings = vhost.router, vhost.all_settings()
    exits = {name: _all_exits(each) for name, each in settings.items()}
    graph = _Graph(vhost, exits)
    relevant = graph.leading_to({(kind, name) for kind, name, _ in edges})
    exchanges = [name for kind, name in relevant if kind == "exchange" and name]
    patterns = {
        pattern_of(binding, router.exchanges[name].type)
        for name in exchanges
        for binding in router.bindings.from_exchange(name)
        if router.alternate_of(name) is not None
        or (binding.destination_type, binding.destination) in relevant
    }
    if ("exchange", "") in relevant:
        patterns |= {literal(name) for kind, name in relevant if kind == "queue"}
    literals = set(filter(is_literal, patterns))
    closed = literals | closed_under_intersection(patterns - literals)
    words = {word for pattern in closed for word in pattern if not isinstance(word, Wild)}
    word, longest = word_beside(words), max(map(len, closed), default=0) + 1
    keys: set[str] = set()
    for pattern in closed:
        samples = list(sample_keys(pattern, word, longest))
        if len(samples) == MAX_SAMPLES:
            raise TooManyPatternsError
        keys.update(samples)
    published = [name for name in exchanges if not router.exchanges[name].internal]
    if len(keys) * len(published) > _MAX_NODES:
        raise TooManyPatternsError
    starts = [
        graph.node("exchange", name, key) for name in sorted(published) for key in sorted(keys)
    ]
    starts += [
        graph.node("queue", name, name) for kind, name in sorted(relevant) if kind == "queue"
    ]
    return [node for node in graph.edges_from(starts) if node[0] == "queue"]


def _all_exits(settings: QueueSettings) -> list[Exit]:
    """Every way out of a queue, by whatever cause."""
    exits: list[Exit] = []
    if settings.dead_letter_exchange is not None:
        exits.append((settings.dead_letter_exchange, settings.dead_letter_routing_key))
    if settings.alternate_exchange is not None:
        exits.append((settings.alternate_exchange, None))
    return exits


class _Graph:
    """Where messages may go, given the exits of every queue that has some."""

    def __init__(self, vhost: Vhost, exits: Mapping[str, Sequence[Exit]]) -> None:
        self._vhost = vhost
        self._reach = Reach(vhost)
        self._exits = exits
        self._keyed = self._keyed_places()

    def arrivals(self, queues: Iterable[str]) -> Iterator[Node]:
        """The nodes for every way in which a client may bring a message to these queues."""
        for queue in sorted(queues):
            yield self.node("queue", queue, queue)  # published to the default exchange
            yield from (self.node("queue", queue, key) for key in self._reach.arrival_keys(queue))

    def edges_from(self, nodes: Iterable[Node]) -> Edges:
        """All edges behind these nodes."""
        work = list(nodes)
        edges: Edges = {}
        for node in work:
            if node not in edges:
                edges[node] = self._after(node)
                work.extend(edges[node])
        return edges

    def leading_to(self, places: Collection[Vertex]) -> set[Vertex]:
        """These places, and all from which messages may come to them."""
        origins: dict[Vertex, list[Vertex]] = {}
        for exchange in self._vhost.router.exchanges:
            for end in self._reach.hops(exchange, None) if exchange else ():
                origins.setdefault(end, []).append(("exchange", exchange))
        for queue, exits in self._exits.items():
            for exchange, _key in exits:
                origins.setdefault(("exchange", exchange), []).append(("queue", queue))
            origins.setdefault(("queue", queue), [])
        return _reached(places, origins)

    def _after(self, node: Node) -> Sequence[Node]:
        kind, name, key = node
        if kind == "exchange":
            if not name:
                return (self.node("queue", key, key),) if key in self._vhost.queues else ()
            return [self.node(*end, key) for end in self._reach.hops(name, key)]
        following = []
        for exchange, new_key in self._exits.get(name, ()):
            next_key = key if new_key is None else new_key
            # Without a key, a message returns to the queue it was published to by name (R-DLX-3),
            # which has a node of its own.
            if exchange or next_key is not None:
                following.append(self.node("exchange", exchange, next_key))
        return following

    def node(self, kind: Literal["queue", "exchange"], name: str, key: Key) -> Node:
        """The node of a message at a place; without its key if nothing depends on that."""
        return kind, name, key if (kind, name) in self._keyed else None

    def _keyed_places(self) -> set[Vertex]:
        """The queues and exchanges behind which something depends on the key that arrives there."""
        origins: dict[Vertex, list[Vertex]] = {}
        keyed: list[Vertex] = [("exchange", "")]
        for exchange in self._vhost.router.exchanges:
            if exchange and self._reach.reads_key(exchange):
                keyed.append(("exchange", exchange))
            for end in self._reach.hops(exchange, None) if exchange else ():
                origins.setdefault(end, []).append(("exchange", exchange))
        for queue, exits in self._exits.items():
            for exchange, new_key in exits:
                if new_key is None:
                    origins.setdefault(("exchange", exchange), []).append(("queue", queue))
        return _reached(keyed, origins)


def _reached(places: Iterable[Vertex], edges: Mapping[Vertex, Collection[Vertex]]) -> set[Vertex]:
    """These places, and all that are reached from them."""
    work = list(places)
    found = set(work)
    for place in work:
        new = [each for each in edges.get(place, ()) if each not in found]
        work.extend(new)
        found.update(new)
    return found


def _without_dead_ends(edges: Edges) -> Edges:
    """The nodes at places from which messages may return, and those between.

    Nothing is left of a graph without cycles, so that searching it costs nothing.
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


def _shortest_cycle(start: Node, edges: Edges) -> tuple[str, ...]:
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
