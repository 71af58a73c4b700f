"""The picture of a topology, in Graphviz's language: what moved, what was lost, what would change.

Colours are those of the page: nodes and edges have classes. A name leads to its page; an edge leads
to the queue that it ends in, or to the letters that died. The thicker an edge is, the more took it.
Queues that are bound alike become one node if there are too many.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import structs

from streaming.console.languages import ENGLISH, Language
from streaming.queries.traffic import VhostTraffic
from topology.analysis.diagram import Diagram, DiagramEdge, DiagramNode
from topology.declarations import Definitions
from topology.sentences import say, say_count, to_say

MAX_DRAWN: Final = 150
"""The most nodes of a drawn graph; of a larger one, queues that are bound alike are one node."""

LEGIBLE: Final = 40
"""The most nodes around a chosen one that are drawn one by one: more would be too small to read."""

ALIKE: Final = 3
"""So many queues that are bound alike become one node."""

THICKEST: Final = 5.0
_LEAST_HEAD: Final = 0.7
NEW_LINE: Final = "\n"
_LOST: Final = to_say("%(count)s lost")
_DROPPED: Final = to_say("%(count)s dropped, as declared")
_UNROUTED: Final = to_say("%(count)s unrouted")
_NOWHERE: Final = {"loss": "lost", "dropped": "dropped"}
"""The node where messages go that reach no queue, by the mark of the way there."""

_WAYS: Final[Mapping[str, str]] = {
    "dead letters": say("dead letters"),
    "otherwise": say("otherwise"),
    "otherwise, and lost": say("otherwise, and lost"),
    "orphaned": say("orphaned"),
    "rejected and orphaned": say("rejected and orphaned"),
}
"""What a diagram says at an edge that is no binding."""

SHAPES: Final = {"exchange": "hexagon", "queue": "cylinder", "missing": "note", "lost": "plaintext"}
STYLES: Final = {"binding": "solid", "dead letters": "dashed", "otherwise": "bold"}

Link = Callable[[str, str], str]
"""Kind (`exchange`, `queue`, `queues` or `deaths`) and name -> an address."""


class Spot(NamedTuple):
    """A node: an exchange, a queue, several queues, or where lost messages go."""

    id: str
    kind: str
    name: str
    lines: tuple[str, ...]
    marks: tuple[str, ...] = ()
    members: int = 1


class Way(NamedTuple):
    """An edge, and how many copies took it."""

    source: str
    target: str
    kind: str
    lines: tuple[str, ...]
    copies: int = 0
    marks: tuple[str, ...] = ()


class Picture(NamedTuple):
    """What is drawn."""

    spots: Sequence[Spot]
    ways: Sequence[Way]


def name_of(node: DiagramNode) -> str:
    """The name of an exchange or queue; empty for the default exchange."""
    return "" if node.lines[0] == "(default exchange)" else node.lines[0]


def picture(
    diagram: Diagram,
    moved: VhostTraffic | None = None,
    changed: Mapping[tuple[str, ...], str] | None = None,
) -> Picture:
    """Put what moved, and what would change, on a diagram.

    Args:
        changed: keys as of `parts_of` -> `new`, `gone` or `changed`.
    """
    nodes = {node.id: node for node in diagram.nodes}
    marks = changed or {}
    deaths: dict[str, int] = {}
    for (queue, _reason), count in (moved.deaths if moved else {}).items():
        deaths[queue] = deaths.get(queue, 0) + count
    spots, ways = [], []
    for node in diagram.nodes:
        name = name_of(node)
        died = deaths.get(name, 0) if node.kind == "queue" else 0
        lines = (*node.lines, say("%(count)s died", count=died)) if died else node.lines
        mark = marks.get(_key(node))
        spots.append(Spot(node.id, node.kind, name, lines, (mark,) if mark else ()))
    for edge in diagram.edges:
        source, target = nodes[edge.source], nodes[edge.target]
        count = 0  # copies that entered a queue this way, or died into an exchange
        if moved and edge.kind == "binding" and target.kind == "queue":
            count = moved.entered.get((name_of(source), target.lines[0]), 0)
        elif edge.kind == "dead letters":
            count = deaths.get(source.lines[0], 0)
        lines = _words(edge) + ((_number(count),) if count else ())
        mark = marks.get(_edge_key(edge, nodes))
        ways.append(
            Way(*(edge.source, edge.target, edge.kind, lines, count), *([(mark,)] if mark else []))
        )
    if moved:
        spots, ways = _with_losses(spots, ways, moved)
    return Picture(spots, ways)


def _with_losses(
    spots: list[Spot], ways: list[Way], moved: VhostTraffic
) -> tuple[list[Spot], list[Way]]:
    """Add where nothing took a message: in red, unless the queue was declared to drop it."""
    found = []
    for spot in spots:
        ends = (
            ("queue", moved.lost, _LOST, "loss"),
            ("exchange", moved.unrouted, _UNROUTED, "loss"),
            ("queue", moved.dropped, _DROPPED, "dropped"),
        )
        for kind, counts, template, mark in ends:
            count = counts.get(spot.name, 0) if spot.kind == kind else 0
            if count:
                what = say(template, count=count)
                ways.append(Way(spot.id, _NOWHERE[mark], "binding", (what,), count, (mark,)))
                spot = spot._replace(marks=(*spot.marks, mark))  # noqa: PLW2901 - marked
        found.append(spot)
    reached = {way.target for way in ways}
    found += [
        Spot(name, "lost", "", (say("no queue"),), (mark,))
        for mark, name in _NOWHERE.items()
        if name in reached
    ]
    return found, ways


def _words(edge: DiagramEdge) -> tuple[str, ...]:
    """The lines of an edge; a binding has keys, the others have words."""
    if edge.kind == "binding":
        return edge.lines
    begin = "dead letters as "
    return tuple(
        say("dead letters as %(key)s", key=one.removeprefix(begin))
        if one.startswith(begin)
        else _WAYS.get(one, one)
        for one in edge.lines
    )


def _number(count: int) -> str:
    return say("%(count)s", count=count)


def grouped(drawn: Picture, around: str = "") -> Picture:
    """Make one node of queues that are bound alike, and dead-letter alike.

    Args:
        around: queues with it in their names stay as they are, unless they are too many.
    """
    named = [spot.id for spot in drawn.spots if around and around in spot.name]
    alone = {*named} if len(named) <= LEGIBLE else set()
    into: dict[str, set[tuple[str, str]]] = {}
    out: dict[str, set[tuple[str, str]]] = {}
    for way in drawn.ways:
        into.setdefault(way.target, set()).add((way.source, way.kind))
        out.setdefault(way.source, set()).add((way.target, way.kind))
    alike: dict[Any, list[Spot]] = {}
    for spot in drawn.spots:
        key = (frozenset(into.get(spot.id, ())), frozenset(out.get(spot.id, ())), spot.marks)
        is_one = spot.kind == "queue" and spot.id not in alone
        alike.setdefault(key if is_one else spot.id, []).append(spot)
    stands_for: dict[str, str] = {}
    spots = []
    for members in alike.values():
        if len(members) < ALIKE:
            spots += members
            continue
        first, prefix = members[0], _prefix([one.name for one in members])
        lines = (f"{prefix}…", say_count("%(count)s queue", "%(count)s queues", len(members)))
        spots.append(first._replace(name=prefix, lines=lines, members=len(members)))
        stands_for |= {one.id: first.id for one in members}
    return Picture(spots, _merged_ways(drawn.ways, stands_for))


def _prefix(names: Sequence[str]) -> str:
    """What names begin with in common."""
    first, last = min(names), max(names)
    differs = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(differs, len(first))]


def _merged_ways(ways: Iterable[Way], stands_for: Mapping[str, str]) -> list[Way]:
    found: dict[tuple[object, ...], Way] = {}
    for way in ways:
        ends = (stands_for.get(way.source, way.source), stands_for.get(way.target, way.target))
        key = (*ends, way.kind, way.marks)
        known = found.get(key)
        count = way.copies + (known.copies if known else 0)
        lines = way.lines if known is None else ((_number(count),) if count else ())
        found[key] = way._replace(source=ends[0], target=ends[1], copies=count, lines=lines)
    return list(found.values())


def busiest(drawn: Picture) -> Picture:
    """Keep the nodes that most messages went through or were lost at."""
    weights: dict[str, int] = {}
    for way in drawn.ways:
        for end in (way.source, way.target):
            weights[end] = weights.get(end, 0) + 1 + way.copies
    heaviest = sorted(drawn.spots, key=lambda one: -weights.get(one.id, 0))[:MAX_DRAWN]
    kept = {spot.id for spot in heaviest}
    return Picture(
        [spot for spot in drawn.spots if spot.id in kept],
        [way for way in drawn.ways if way.source in kept and way.target in kept],
    )


def dot(drawn: Picture, link: Link, language: Language = ENGLISH) -> str:
    """The picture in Graphviz's language, ending in a newline, with words in one of people."""
    most = max((way.copies for way in drawn.ways), default=0)
    lines = [
        "digraph topology {",
        '    bgcolor="transparent"; rankdir=LR; nodesep=0.35; ranksep=0.8;',
    ]
    spots = {spot.id: spot for spot in drawn.spots}
    for spot in drawn.spots:
        kinds = _text(" ".join((spot.kind, *spot.marks)))
        label = _label(spot.lines, language)
        lines.append(
            f"    {spot.id} [shape={SHAPES[spot.kind]}, class={kinds}, "
            f"URL={_text(_address(spot, link))}, label={label}, "
            f"tooltip={_text(' '.join(map(language.said, spot.lines)))}];"
        )
    for way in drawn.ways:
        marks = way.marks or (("dead",) if way.kind == "dead letters" else ())
        width = 1 + (THICKEST - 1) * math.log1p(way.copies) / math.log1p(most) if way.copies else 1
        ends = spots[way.source], spots[way.target]
        lines.append(
            f"    {way.source} -> {way.target} [style={STYLES[way.kind]}, penwidth={width:.2f}, "
            f"arrowsize={_LEAST_HEAD + width / THICKEST:.2f}, "
            f"class={_text(' '.join(marks))}, label={_label(way.lines, language)}, "
            f"URL={_text(_way_address(*ends, link))}, "
            f"tooltip={_text(_said_of(way, *ends, language))}];"
        )
    return "\n".join([*lines, "}"]) + "\n"


def _label(lines: Iterable[str], language: Language) -> str:
    return _text(NEW_LINE.join(map(language.said, lines)))


def _way_address(source: Spot, target: Spot, link: Link) -> str:
    """The page about what took a way: letters that died, or the queue or exchange at its end."""
    if source.kind == "queue" and source.members == 1:
        return link("deaths", source.name)
    return _address(source if target.kind == "lost" else target, link)


def _said_of(way: Way, source: Spot, target: Spot, language: Language) -> str:
    """A way in words: `orders → work: order.# 1,000`."""
    names = (language.said(one.lines[0]) for one in (source, target))
    words = " ".join(map(language.said, way.lines))
    return " → ".join(names) + (f": {words}" if words else "")


def _address(spot: Spot, link: Link) -> str:
    if spot.members > 1:
        return link("queues", spot.name)
    return link(spot.kind, spot.name) if spot.kind in {"exchange", "queue"} else ""


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# -- before and after


def parts_of(diagram: Diagram) -> set[tuple[str, ...]]:
    """What a diagram consists of: nodes with their settings, and edges, by names."""
    nodes = {node.id: node for node in diagram.nodes}
    return {_key(node) for node in diagram.nodes} | {
        _edge_key(edge, nodes) for edge in diagram.edges
    }


def _named(key: tuple[str, ...]) -> tuple[str, ...]:
    """What a part is, without its settings or keys."""
    return key[:5] if key[0] in STYLES else key[:2]


def _key(node: DiagramNode) -> tuple[str, ...]:
    return (node.kind, *node.lines)


def _edge_key(edge: DiagramEdge, nodes: Mapping[str, DiagramNode]) -> tuple[str, ...]:
    ends = (nodes[edge.source].lines[0], nodes[edge.target].lines[0])
    return (edge.kind, nodes[edge.source].kind, nodes[edge.target].kind, *ends, *edge.lines)


Named = TypeVar("Named")


def imported(live: Definitions, wanted: Definitions) -> Definitions:
    """What is declared after an import, which adds and replaces, and removes nothing."""

    def added(before: Iterable[Named], after: Iterable[Named]) -> tuple[Named, ...]:
        named: dict[str, Named] = {one.name: one for one in before}  # type: ignore[attr-defined]
        return tuple((named | {one.name: one for one in after}).values())  # type: ignore[attr-defined]

    return structs.replace(
        live,
        exchanges=added(live.exchanges, wanted.exchanges),
        queues=added(live.queues, wanted.queues),
        policies=added(live.policies, wanted.policies),
        operator_policies=added(live.operator_policies, wanted.operator_policies),
        bindings=(*live.bindings, *(one for one in wanted.bindings if one not in live.bindings)),
    )


def before_and_after(before: Diagram, after: Diagram) -> tuple[Picture, Picture]:
    """The pictures of two diagrams, in which what only one has, or has otherwise, is marked.

    What is the same in both, and beside nothing that changes, is left out of both.
    """
    old, new = parts_of(before), parts_of(after)
    removed, added = old - new, new - old
    both = {_named(key) for key in removed} & {_named(key) for key in added}
    gone = {key: "changed" if _named(key) in both else "gone" for key in removed}
    come = {key: "changed" if _named(key) in both else "new" for key in added}
    touched = {key[1] for key in (*gone, *come) if len(key) and key[0] in {"exchange", "queue"}}
    touched |= {name for key in (*gone, *come) if key[0] in STYLES for name in key[3:5]}
    return (
        _beside(picture(before, changed=gone), touched),
        _beside(picture(after, changed=come), touched),
    )


def _beside(drawn: Picture, names: set[str]) -> Picture:
    chosen = {spot.id for spot in drawn.spots if spot.lines[0] in names}
    near = chosen | {
        end
        for way in drawn.ways
        if way.source in chosen or way.target in chosen
        for end in (way.source, way.target)
    }
    return busiest(
        Picture(
            [spot for spot in drawn.spots if spot.id in near],
            [way for way in drawn.ways if way.source in near and way.target in near],
        )
    )
