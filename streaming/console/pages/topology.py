"""Topology: what is declared beside what messages did, loops and dead ends."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from streaming.console.page import PAGE_ROWS, Answer, Refused, View
from streaming.console.pages.topology_graph import (
    LEGIBLE,
    MAX_DRAWN,
    busiest,
    dot,
    grouped,
    name_of,
    picture,
)
from streaming.console.queue_marks import stale_s
from streaming.console.shown import instant
from streaming.queries.traffic import VhostTraffic, most_deaths
from streaming.queries.traffic import traffic as traffic_of
from topology.analysis.diagram import Diagram, draw
from topology.declarations import PREDECLARED_NAMES, Definitions
from topology.sentences import say

STRETCHES: Final = {"1h": 3_600, "15m": 900, "24h": 86_400, "7d": 604_800}
_LOOPS: Final = re.compile("cycle|loop")


def topology(view: View) -> Answer:
    """Show the declared topology of one vhost with the traffic of a stretch of time."""
    if not view.declared:
        return undeclared(view)
    stretch = view.one_of("stretch", *STRETCHES)
    end = view.known_until
    begin = end - timedelta(seconds=STRETCHES[stretch])
    vhost = view.vhost or _where_most_died(view, begin, end) or chosen_vhost(view)
    around = view.text("around", "") or ""
    view.command = view.dlx("bindings", "list")
    declared = view.declared[vhost]
    diagram = view.of_topology(
        f"diagram {vhost}",
        lambda: draw(referred(declared.definitions()), vhost=declared.vhost()),
    )
    sources = view.of_topology(f"sources {vhost}", lambda: _sources(diagram))
    moved = _by_last_exchange(traffic_of(view.tables, vhost, begin, end), diagram, sources)
    total = len(diagram.nodes)
    if around:
        diagram = _around(diagram, around)
    drawn = picture(diagram, moved)
    if len(drawn.spots) > MAX_DRAWN or (around and len(drawn.spots) > LEGIBLE):
        drawn = busiest(grouped(drawn, around))
    findings = view.lint(vhost)
    return {
        "vhost": vhost,
        "vhosts": list(view.declared),
        "since": begin.isoformat(timespec="milliseconds"),
        "stale_s": stale_s(view),
        "stretch": stretch,
        "stretches": list(STRETCHES),
        "around": around,
        "total": total,
        "drawn": sum(spot.members for spot in drawn.spots if spot.kind != "lost"),
        "dot": dot(
            drawn,
            lambda kind, name: topology_address(view, vhost, kind, name, begin),
            view.language,
        ),
        "traffic": moved,
        "ways": _ways(diagram, moved, sources),
        "first": (view.page - 1) * PAGE_ROWS,
        "size": PAGE_ROWS,
        "loops": [one for one in findings if _LOOPS.search(one.code)],
        "dead_ends": [one for one in findings if not _LOOPS.search(one.code)],
    }


def _where_most_died(view: View, begin: datetime, end: datetime) -> str | None:
    """The vhost that a visitor most likely wants to see; None: nothing died in any."""
    if len(view.declared) < 2:  # noqa: PLR2004 - there is nothing to choose from
        return None
    found = most_deaths(view.tables, begin, end)
    return next((one for one in found if one in view.declared), None)


def undeclared(view: View) -> Answer:
    """Say what to do as long as nothing is declared."""
    view.template = "undeclared.html"
    view.command = view.dlx("definitions", "import", "definitions.json", as_of=False, tables=False)
    return {}


def chosen_vhost(view: View) -> str:
    """The vhost of the URL, or the first that the user may see."""
    vhosts = list(view.declared)
    if not vhosts:
        raise Refused(404, say("The tables know no vhost that you may see."))
    return view.vhost or ("/" if "/" in vhosts else vhosts[0])


def topology_address(
    view: View, vhost: str, kind: str, name: str, begin: datetime | None = None
) -> str:
    """The page about a part of the picture.

    Args:
        begin: of the time that the picture is about.
    """
    if kind == "deaths":
        since = None if begin is None else instant(begin.replace(second=0, microsecond=0))
        return view.url("/search", vhost=vhost, queue=name, since=since)
    if kind == "queue":
        return view.url("/queue", vhost=vhost, queue=name)
    return view.url("/topology", vhost=vhost, around=name) if name else ""


def referred(definitions: Definitions) -> Definitions:
    """Leave out predeclared exchanges; `draw` draws those that something refers to."""
    own = tuple(one for one in definitions.exchanges if one.name not in PREDECLARED_NAMES)
    return msgspec.structs.replace(definitions, exchanges=own)


def _sources(diagram: Diagram) -> dict[str, set[str]]:
    """The exchanges from which messages reach each exchange: itself, and those before it."""
    exchanges = {node.id: name_of(node) for node in diagram.nodes if node.kind != "queue"}
    before: dict[str, list[str]] = {name: [] for name in exchanges.values()}
    for edge in diagram.edges:
        if edge.kind != "dead letters" and edge.source in exchanges and edge.target in exchanges:
            before[exchanges[edge.target]].append(exchanges[edge.source])
    found = {}
    for name in before:
        reached, work = {name}, [name]
        while work:
            work = [one for last in work for one in before[last] if one not in reached]
            reached.update(work)
        found[name] = reached
    return found


def _by_last_exchange(
    moved: VhostTraffic, diagram: Diagram, sources: Mapping[str, set[str]]
) -> VhostTraffic:
    """Count copies by the exchange bound to the queue instead of the one they were published to.

    Bindings between exchanges and alternate exchanges lead from one to the other. Copies stay where
    they are if no way is declared, or several are.
    """
    nodes = {node.id: node for node in diagram.nodes}
    bound: dict[str, list[str]] = {}
    for edge in diagram.edges:
        if edge.kind == "binding" and nodes[edge.target].kind == "queue":
            bound.setdefault(nodes[edge.target].lines[0], []).append(name_of(nodes[edge.source]))
    entered: dict[tuple[str, str], int] = {}
    for (exchange, queue), count in moved.entered.items():
        lasts = bound.get(queue, [])
        ways = [one for one in lasts if exchange in sources[one]]
        last = ways[0] if exchange not in lasts and len(ways) == 1 else exchange
        entered[last, queue] = entered.get((last, queue), 0) + count
    return msgspec.structs.replace(moved, entered=entered)


def _around(diagram: Diagram, name: str) -> Diagram:
    """Return the part of a diagram next to nodes whose names contain a text, and two steps on."""
    kept = {node.id for node in diagram.nodes if name in node.lines[0]}
    for _ in range(2):
        near = {
            end
            for edge in diagram.edges
            if edge.source in kept or edge.target in kept
            for end in (edge.source, edge.target)
        }
        kept |= near
    return Diagram(
        tuple(node for node in diagram.nodes if node.id in kept),
        tuple(edge for edge in diagram.edges if edge.source in kept and edge.target in kept),
    )


def _ways(
    diagram: Diagram, moved: VhostTraffic, sources: Mapping[str, set[str]]
) -> list[dict[str, object]]:
    """List the ways into queues: declared or not, and what took them; undeclared traffic first."""
    nodes = {node.id: node for node in diagram.nodes}
    declared = {
        (name_of(nodes[edge.source]), nodes[edge.target].lines[0])
        for edge in diagram.edges
        if edge.kind == "binding" and nodes[edge.target].kind == "queue"
    }
    lasts: dict[str, list[str]] = {}
    for exchange, queue in declared:
        lasts.setdefault(queue, []).append(exchange)
    drawn = {node.lines[0] for node in diagram.nodes if node.kind == "queue"}
    seen = {way for way in moved.entered if way[1] in drawn}
    rows: list[dict[str, object]] = [
        {
            "exchange": exchange,
            "queue": queue,
            "is_declared": exchange == ""
            or any(exchange in sources[one] for one in lasts.get(queue, ())),
            "entered": moved.entered.get((exchange, queue), 0),
        }
        for exchange, queue in sorted(declared | seen)
    ]
    return sorted(rows, key=lambda row: bool(row["is_declared"]))
