"""A topology as a picture: exchanges, queues, and every way a message may take between them.

    solid      a binding, with its key or arguments
    dotted     dead letters, and messages that leave a queue over its own alternate exchange
    thick      unrouted messages, from an exchange to its alternate exchange
    grey       what is skipped, dashed: RabbitMQ would have it

`draw` determines what is in the picture; `mermaid` and `dot` write it. Names that are referred to
but not declared are drawn too, marked as missing. Equal definitions give equal text.
"""

from typing import Literal

import msgspec

from topology.declarations import Binding, BindingEnd, Definitions
from topology.definitions.supported_objects import NOTHING_SKIPPED, SkippedObjects
from topology.policies import QueueSettings
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.values import AmqpValue, Compat, to_json
from topology.vhost import Vhost

NodeKind = Literal["exchange", "queue", "missing"]
EdgeKind = Literal["binding", "dead letters", "otherwise"]

GREY = "#888888"


class DiagramNode(msgspec.Struct, frozen=True):
    """An exchange or a queue; its lines are its name, then its type or settings.

    The id is short, and safe in every picture language.
    """

    id: str
    kind: NodeKind
    lines: tuple[str, ...]
    skipped: bool = False


class DiagramEdge(msgspec.Struct, frozen=True):
    """A way from one node to another, by ids; `lines` is its label, one line per binding."""

    source: str
    target: str
    kind: EdgeKind
    lines: tuple[str, ...] = ()
    skipped: bool = False


class Diagram(msgspec.Struct, frozen=True):
    """Nodes and edges, in the order in which they are written."""

    nodes: tuple[DiagramNode, ...]
    edges: tuple[DiagramEdge, ...]


def draw(
    definitions: Definitions,
    compat: Compat = "4.0",
    skipped: SkippedObjects = NOTHING_SKIPPED,
    vhost: Vhost | None = None,
) -> Diagram:
    """Draw one vhost's valid definitions, and what is skipped beside them.

    Predeclared exchanges appear if something refers to them. Dead letters that the default
    exchange sends to a named queue are drawn straight to that queue.

    Args:
        vhost: the vhost of these definitions, if it is known and nothing is skipped.
    """
    whole = skipped.beside(definitions, follow=True)
    vhost = vhost or Vhost.from_definitions(whole, compat)
    return _Drawing(vhost, skipped).finish(whole)


class _Drawing:
    """Builds a diagram; nodes get their ids when first referred to."""

    def __init__(self, vhost: Vhost, skipped: SkippedObjects) -> None:
        self._vhost = vhost
        self._skipped = skipped
        self._unknown = {
            each.name: each.type for each in skipped.exchanges if each.type not in EXCHANGE_TYPES
        }
        self._skipped_ids: set[str] = set()
        self._settings = vhost.all_settings()
        self._nodes: dict[tuple[str, str], DiagramNode] = {}
        self._edges: list[DiagramEdge] = []

    def finish(self, definitions: Definitions) -> Diagram:
        router = self._vhost.router
        for exchange in definitions.exchanges:
            self._exchange(exchange.name)
        for queue in definitions.queues:
            self._queue(queue.name)
        self._bindings()
        for name in router.exchanges:
            alternate = router.alternate_of(name)
            if alternate is not None:
                label = "otherwise" if alternate else "otherwise, and lost"  # R-AE-9
                self._edge(self._exchange(name), self._exchange(alternate), "otherwise", label)
        for name, settings in self._settings.items():
            self._dead_letters(name, settings)
        return Diagram(tuple(self._nodes.values()), tuple(self._edges))

    def _bindings(self) -> None:
        lines: dict[tuple[str, str], list[str]] = {}  # one edge between the same two nodes
        of_unknown = [each for each in self._skipped.bindings if each.source in self._unknown]
        known = [
            each for each in self._vhost.router.bindings.all() if each.source not in self._unknown
        ]
        for binding in (*known, *of_unknown):
            to_queue = binding.destination_type == "queue"
            target = self._queue if to_queue else self._exchange
            ends = (self._exchange(binding.source), target(binding.destination))
            lines.setdefault(ends, []).extend(self._label(binding))
        for (source, target_id), label in lines.items():
            self._edge(source, target_id, "binding", *label)

    def _label(self, binding: Binding) -> list[str]:
        """What a binding matches, as its source's type reads it."""
        if binding.source in self._unknown:
            return [binding.routing_key] if binding.routing_key else []
        match self._vhost.router.exchanges[binding.source].type:
            case "fanout":
                return []
            case "headers":
                pairs = [f"{name}={_text(binding.arguments[name])}" for name in binding.arguments]
                return [", ".join(pairs) or "everything"]
            case _:
                return [binding.routing_key or "(empty key)"]

    def _dead_letters(self, queue: str, settings: QueueSettings) -> None:
        exchange, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
        if exchange == "" and key is not None:
            self._edge(self._queue(queue), self._queue(key), "dead letters", "dead letters")
        elif exchange is not None:
            label = "dead letters" if key is None else f"dead letters as {key or '(empty key)'}"
            self._edge(self._queue(queue), self._exchange(exchange), "dead letters", label)
        if settings.alternate_exchange is not None:
            label = "orphaned" if exchange is not None else "rejected and orphaned"
            target = self._exchange(settings.alternate_exchange)
            self._edge(self._queue(queue), target, "dead letters", label)

    def _exchange(self, name: str) -> str:
        return self._node("x", name)

    def _queue(self, name: str) -> str:
        return self._node("q", name)

    def _node(self, prefix: str, name: str) -> str:
        known = self._nodes.get((prefix, name))
        if known is not None:
            return known.id
        kind, details = self._described(prefix, name)
        place: BindingEnd = ("queue" if prefix == "q" else "exchange", name)
        skipped = place in self._skipped.reasons
        lines = (name or "(default exchange)", *details, *(("skipped",) if skipped else ()))
        node = DiagramNode(f"{prefix}{len(self._nodes)}", kind, lines, skipped)
        self._nodes[prefix, name] = node
        if skipped:
            self._skipped_ids.add(node.id)
        return node.id

    def _described(self, prefix: str, name: str) -> tuple[NodeKind, list[str]]:
        if prefix == "q":
            settings = self._settings.get(name)
            if settings is None:
                return "missing", ["no such queue"]
            return "queue", describe_settings(settings)
        exchange = self._vhost.router.exchanges.get(name)
        if exchange is None:
            return "missing", ["no such exchange"]
        internal = ", internal" if exchange.internal else ""
        kind = self._unknown.get(name, exchange.type)
        return "exchange", [f"{kind} exchange{internal}"]

    def _edge(self, source: str, target: str, kind: EdgeKind, *lines: str) -> None:
        skipped = not self._skipped_ids.isdisjoint((source, target))
        self._edges.append(DiagramEdge(source, target, kind, lines, skipped))


def describe_settings(settings: QueueSettings) -> list[str]:
    """The settings of a queue that differ from the defaults, one per line, in RabbitMQ's words."""
    described = {
        settings.queue_type: settings.queue_type != "classic",
        f"message-ttl {settings.message_ttl_ms} ms": settings.message_ttl_ms is not None,
        f"expires {settings.expires_ms} ms": settings.expires_ms is not None,
        f"max-length {settings.max_length}": settings.max_length is not None,
        f"max-length-bytes {settings.max_length_bytes}": settings.max_length_bytes is not None,
        settings.overflow: settings.has_length_limit,
        f"delivery-limit {settings.delivery_limit}": settings.delivery_limit is not None,
        f"max-priority {settings.max_priority}": settings.max_priority is not None,
        "at-least-once": settings.at_least_once,
    }
    return [line for line, applies in described.items() if applies]


def mermaid(diagram: Diagram) -> str:
    """The diagram as a Mermaid flowchart, ending in a newline."""
    shapes = {"exchange": ('{{"', '"}}'), "queue": ('[("', '")]'), "missing": ('>"', '"]')}
    arrows = {"binding": ("--", "-->"), "dead letters": ("-.", ".->"), "otherwise": ("==", "==>")}
    lines = ["flowchart LR"]
    for node in diagram.nodes:
        opening, closing = shapes[node.kind]
        mark = ":::skipped" if node.skipped else ""
        lines.append(f"    {node.id}{opening}{_mermaid_text(node.lines)}{closing}{mark}")
    for edge in diagram.edges:
        tail, arrow = arrows[edge.kind]
        label = f'{tail} "{_mermaid_text(edge.lines)}" ' if edge.lines else ""
        lines.append(f"    {edge.source} {label}{arrow} {edge.target}")
    grey = f"stroke:{GREY},color:{GREY},stroke-dasharray:5 5"
    if any(node.skipped for node in diagram.nodes):
        lines.append(f"    classDef skipped fill:#ffffff,{grey}")
    numbers = [str(number) for number, edge in enumerate(diagram.edges) if edge.skipped]
    if numbers:
        lines.append(f"    linkStyle {','.join(numbers)} {grey}")
    return "\n".join(lines) + "\n"


def dot(diagram: Diagram) -> str:
    """The diagram in Graphviz's language, ending in a newline."""
    shapes = {"exchange": "hexagon", "queue": "cylinder", "missing": "note"}
    styles = {"binding": "solid", "dead letters": "dotted", "otherwise": "bold"}
    grey = f'color="{GREY}", fontcolor="{GREY}", '
    lines = ["digraph topology {", "    rankdir=LR;"]
    lines.extend(
        f"    {node.id} [shape={shapes[node.kind]}, "
        f"{'style=dashed, ' + grey if node.skipped else ''}label={_dot_text(node.lines)}];"
        for node in diagram.nodes
    )
    lines.extend(
        f"    {edge.source} -> {edge.target} "
        f"[style={'dashed' if edge.skipped else styles[edge.kind]}, "
        f"{grey if edge.skipped else ''}label={_dot_text(edge.lines)}];"
        for edge in diagram.edges
    )
    return "\n".join([*lines, "}"]) + "\n"


_MERMAID_ENTITIES = str.maketrans(
    {character: f"#{ord(character)};" for character in '#"<>&*`\\'} | {"\n": " "}
)


def _mermaid_text(lines: tuple[str, ...]) -> str:
    """Quoted text; what Mermaid, Markdown or HTML could read as markup is written by number."""
    return "<br/>".join(line.translate(_MERMAID_ENTITIES) for line in lines)


def _dot_text(lines: tuple[str, ...]) -> str:
    text = "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def _text(value: AmqpValue) -> str:
    return msgspec.json.encode(to_json(value)).decode()
