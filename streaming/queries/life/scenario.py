"""One message as a scenario file, which `dlx simulate` replays to the same deaths.

    topology before its publish  -->  definitions
    its publish and settlements, changes of the topology meanwhile  -->  steps
    copies that shared a queue in which it died of length  -->  publishes that fill the queue
    where it is at the end  -->  expect

The scenario is played before it is handed out: a death that comes out differently is named.
"""

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from streaming.broker.message import Message
from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import QueryError, Row, Tables
from streaming.queries.message_history import MessageHistory
from streaming.queries.vhosts.declared import declared
from streaming.scenario.core_broker import CoreBroker
from streaming.scenario.document import parse_scenario
from streaming.scenario.play import Phase, Player
from streaming.scenario.steps import Publish
from topology.declarations import PREDECLARED, RESERVED_PREFIX, Definitions
from topology.definitions.dump import exported_document
from topology.values import Compat

MAX_NEIGHBOURS: Final = 10_000
"""The most copies of other messages that fill a queue in a scenario."""

_OTHERS: Final = "others"
_COMMANDS: Final = {
    "queue_declared": ("declare_queue", "queue"),
    "exchange_declared": ("declare_exchange", "exchange"),
    "policy_set": ("set_policy", "policy"),
    "operator_policy_set": ("set_operator_policy", "policy"),
}
_NAMED: Final = {
    "queue_deleted": ("delete_queue", "queue"),
    "exchange_deleted": ("delete_exchange", "exchange"),
    "policy_cleared": ("clear_policy", "name"),
    "operator_policy_cleared": ("clear_operator_policy", "name"),
}
_MOVES: Final = frozenset({"redriven", "discarded", "republished"})

Death = tuple[str, str, tuple[str, ...]]
"""Queue, reason and the queues that took the dead letter."""


class Replay(NamedTuple):
    """A scenario, and what became of it when it was played.

    Attributes:
        document: the content of the file.
        compat: the version of RabbitMQ whose rules gave the recorded deaths.
        recorded, played: the deaths in the tables and those of the scenario.
        notes: what the scenario does not hold.
    """

    document: dict[str, Any]
    compat: Compat
    recorded: list[Death]
    played: list[Death]
    notes: list[str]

    @property
    def is_same(self) -> bool:
        """Whether the message dies the same deaths."""
        return sorted(self.recorded) == sorted(self.played)


def scenario_of(tables: Tables, history: MessageHistory) -> Replay:
    """Write the life of a message as a scenario, and play it.

    Raises:
        QueryError: the message, or the history that it needs, is not in the tables.
    """
    missing = history.message is None or not history.events
    if history.forgotten.events_at is not None or history.forgotten.body == "removed":
        raise QueryError(
            f"message {history.message_id}: tables.retention removed part of its history, so it "
            "cannot be replayed"
        )
    if missing:
        raise QueryError(
            f"message {history.message_id}: the tables have no row or no event of it, so it cannot "
            "be replayed; see `dlx balance`"
        )
    writer = _Writer(tables, history)
    before = tables.cut
    try:
        document = writer.document()
    finally:
        tables.cut = before
    recorded = [
        (row["queue"], row["reason"], tuple(row["targets"] or ()))
        for _seq, row in sorted(history.deaths.items())
    ]
    played: dict[Compat, list[Death]] = {}
    versions: tuple[Compat, ...] = ("4.0", "3.10")
    for compat in versions:
        played[compat] = _play(document, compat)
        if sorted(played[compat]) == sorted(recorded):
            return Replay(document, compat, recorded, recorded, writer.notes)
    return Replay(document, "4.0", recorded, played["4.0"], writer.notes)


class _Writer:
    def __init__(self, tables: Tables, history: MessageHistory) -> None:
        self._tables = tables
        self._history = history
        self._first = history.events[0]
        self._last = history.events[-1]
        self._shard = (self._first["vhost"], self._first["lane"])
        self._steps: list[tuple[int, int, dict[str, Any]]] = []
        self._refs: dict[int, tuple[str, str]] = {}  # copy -> ref and channel of its delivery
        self.notes: list[str] = [
            f"only the broker can name a queue {name!r}; the scenario has none"
            for name in sorted({event["queue"] or "" for event in history.events})
            if _is_reserved(name)
        ]
        if any(event["kind"] in _MOVES for event in history.events):
            self.notes.append(
                "a scenario has no step for a redrive, a discard or a restore: what the message "
                "did afterwards is missing or differs"
            )

    def document(self) -> dict[str, Any]:
        """The content of the file."""
        history = self._history
        definitions = self._definitions()
        first_seq = self._first["seq"]
        self._step(self._first, self._publish(), first_seq - 1)
        closed = self._others()
        for event in history.events:
            step = self._command(event, closed)
            if step is not None:
                self._step(event, step, event["seq"])
        filled = self._neighbours()
        steps = [{"at_ms": at_ms, **step} for at_ms, _seq, step in sorted(self._steps, key=_place)]
        return {
            "id": f"message-{history.message_id.replace('/', '-')}",
            "title": f"message {history.message_id} of vhost {self._shard[0]}",
            "definitions": definitions,
            "steps": steps,
            "end_ms": self._at_ms(self._last),
            "expect": self._expected(filled),
        }

    def _at_ms(self, event: Row) -> int:
        return max(_millis(event["at"]) - _millis(self._first["at"]), 0)

    def _step(self, event: Row, step: dict[str, Any], seq: int) -> None:
        self._steps.append((self._at_ms(event), seq, step))

    def _cut(self, event: Row, seq: int) -> None:
        """Look at the tables as they were after an event of the shard."""
        at = datetime.fromisoformat(event["at"])
        self._tables.cut = Cut(event["batch_id"] - 1, at, {self._shard: seq})

    def _definitions(self) -> dict[str, Any]:
        self._cut(self._first, self._first["seq"] - 1)
        vhosts = declared(self._tables)
        definitions = vhosts[self._shard[0]].definitions()
        sections: dict[str, list[dict[str, Any]]] = {}
        for section, item in _objects(definitions):
            document = {**exported_document(section, item)}
            document.pop("exclusive", None)
            sections.setdefault(section, []).append(document)
        return sections

    def _publish(self) -> dict[str, Any]:
        message = self._history.message
        assert message is not None
        properties = dict(message["properties"])
        if message["headers"] is not None:
            properties["headers"] = message["headers"]
        body = message["body"]
        if not isinstance(body, str):
            size = message["body_bytes"] or 0
            body = "x" * size
            self.notes.append(f"the body is not text; {size} characters stand for it")
        step: dict[str, Any] = {
            "op": "publish",
            "exchange": message["exchange"] or "",
            "routing_key": message["routing_key"] or "",
            "body": body,
        }
        flags = {name: True for name in ("mandatory", "immediate") if message[name]}
        return {**step, **({"properties": properties} if properties else {}), **flags}

    def _command(self, event: Row, closed: set[tuple[str, str]]) -> dict[str, Any] | None:
        copy_id, kind, queue = event["copy_id"], event["kind"], event["queue"]
        channel = event["channel"] or "c0"
        if kind in {"delivered", "consumed"}:
            label = f"g{event['seq']}"
            self._refs[copy_id] = (f"{label}/0", channel)
            auto = {"auto_ack": True} if kind == "consumed" else {}
            return {"op": "get", "queue": queue, "as": label, "channel": channel, **auto}
        if kind == "purged":
            return {"op": "purge", "queue": queue}
        ref, channel = self._refs.get(copy_id, ("", channel))
        if not ref:
            return None
        settle = {"refs": [ref], "channel": channel}
        match kind, event["reason"]:
            case "acked", _:
                return {"op": "ack", **settle}
            case ("requeued", _) if (channel, event["at"]) in closed:
                return {"op": "close_channel", "channel": channel}
            case ("requeued", _) | ("died", "delivery_limit"):
                return {"op": "reject", "requeue": True, **settle}
            case ("died" | "rerouted", "rejected"):
                return {"op": "reject", **settle}
            case _:
                return None

    def _others(self) -> set[tuple[str, str]]:
        """Add the changes of the topology; return the channels that closed, and when."""
        self._tables.cut = None
        self._tables.view("events", files=self._files())
        found = self._tables.rows(
            """
            SELECT batch_id, seq, "at", kind, channel, detail FROM events
            WHERE vhost = ? AND lane = ? AND seq > ? AND seq < ? AND kind IN ('topology', 'channel')
            ORDER BY seq
            """,
            [*self._shard, self._first["seq"], self._last["seq"]],
        )
        closed: set[tuple[str, str]] = set()
        for row in found:
            row["at"] = f"{row['at'].replace(' ', 'T').removesuffix('+00')}+00:00"
            detail = msgspec.json.decode(row["detail"])
            what = detail["what"]
            if what == "channel_closed":
                closed |= {(row["channel"], one["at"]) for one in self._history.events}
            is_other = what in {"bound", "unbound"} or not _is_reserved(detail.get("name") or "")
            step = topology_command(what, detail) if is_other else None
            if step is not None:
                self._step(row, step, row["seq"])
        return closed

    def _files(self) -> list[str]:
        return self._tables.files("events", {"batch_id": self._first["batch_id"] - 1})

    def _neighbours(self) -> set[str]:
        """Add publishes for the copies that filled a queue; return the names of these queues."""
        own = {event["copy_id"] for event in self._history.events}
        filled: set[str] = set()
        published: set[int] = set()
        for event in self._history.events:
            is_full = event["kind"] == "died" and event["reason"] == "maxlen"
            if not is_full and event["kind"] != "refused":
                continue
            self._cut(event, event["seq"])
            contents = prepare_contents(self._tables)
            found = self._tables.rows(
                f"""
                SELECT copy_id, enqueued_at AS "at", body_bytes FROM ({contents})
                WHERE vhost = ? AND lane = ? AND queue = ? AND state = 'ready'
                ORDER BY copy_id DESC LIMIT {MAX_NEIGHBOURS + 1}
                """,
                [*self._shard, event["queue"]],
            )
            if len(found) > MAX_NEIGHBOURS:
                what = f"queue {event['queue']!r} held more than {MAX_NEIGHBOURS:,} copies"
                self.notes.append(f"{what}; the scenario has as many")
            filled.add(event["queue"])
            for row in found[:MAX_NEIGHBOURS]:
                copy_id = row["copy_id"]
                if copy_id in own or copy_id in published:
                    continue
                published.add(copy_id)
                row["at"] = f"{row['at'].replace(' ', 'T').removesuffix('+00')}+00:00"
                body = "x" * (row["body_bytes"] or 0)
                step = {"op": "publish", "routing_key": event["queue"], "body": body}
                self._step(row, {**step, "channel": _OTHERS}, copy_id)
        self._tables.cut = None
        return filled

    def _expected(self, filled: set[str]) -> dict[str, list[dict[str, Any]]]:
        """What is in each queue at the end, but for the queues that others filled."""
        message = self._history.message
        assert message is not None
        deaths = {row["copy_id"]: row["x_death"] for row in self._history.deaths.values()}
        expected: dict[str, list[dict[str, Any]]] = {}
        for event in self._history.events:
            if event["kind"] != "enqueued" or event["queue"] in filled:
                continue
            waiting = expected.setdefault(event["queue"], [])
            if self._history.now.get(event["copy_id"]) == "ready":
                x_death = deaths.get(event["parent_copy_id"], [])
                reasons = [death["reason"] for death in x_death]
                known = {"body": message["body"]} if isinstance(message["body"], str) else {}
                waiting.append({**known, "reasons": reasons})
        return expected


def _objects(definitions: Definitions) -> Iterator[tuple[str, Any]]:
    """Everything that a client can declare, with the name of its section."""
    known = {exchange.name for exchange in PREDECLARED}
    yield from (("policies", one) for one in definitions.policies)
    yield from (("parameters", one) for one in definitions.operator_policies)
    yield from (("exchanges", one) for one in definitions.exchanges if one.name not in known)
    yield from (("queues", one) for one in definitions.queues if not _is_reserved(one.name))
    for one in definitions.bindings:
        to_queue = one.destination_type == "queue"
        if one.source and not (to_queue and _is_reserved(one.destination)):
            yield "bindings", one


def _is_reserved(name: str) -> bool:
    """Whether only the broker gives such names, as to `amq.gen-1`."""
    return name.startswith(RESERVED_PREFIX)


def topology_command(what: str, detail: dict[str, Any]) -> dict[str, Any] | None:
    """The command of a topology event as JSON; None if it has none."""
    if what in {"bound", "unbound"}:
        names = ("source", "destination_type", "routing_key", "arguments")
        binding = {name: detail[name] for name in names if name in detail}
        op = "bind" if what == "bound" else "unbind"
        return {"op": op, "binding": {**binding, "destination": detail["name"]}}
    if what in _COMMANDS and "declaration" in detail:
        op, member = _COMMANDS[what]
        declaration = {key: one for key, one in detail["declaration"].items() if key != "exclusive"}
        return {"op": op, member: declaration}
    if what in _NAMED:
        op, member = _NAMED[what]
        return {"op": op, member: detail["name"] or detail.get("policy", "")}
    return None


class _Deaths:
    """Notes the deaths of the message until the queues are emptied (`Watcher`)."""

    def __init__(self, broker: CoreBroker, offset: int) -> None:
        self._broker = broker
        self._offset = offset
        self.deaths: list[Death] = []

    def saw(self, phase: Phase, result: dict[str, Any], step: int | None) -> None:
        """Notify with the step's result as recorded; an `error` if definitions were refused."""
        del result, step
        if phase == "ended":
            self.deaths = [
                (queue, outcome.reason, targets)
                for _row, copy, queue, outcome, _text, targets in self._broker.shard.events.deaths()
                if _offset(copy.message) == self._offset
            ]


def _offset(message: Message) -> int:
    return message.offset


def _play(document: dict[str, Any], compat: Compat) -> list[Death]:
    """The deaths of the message if a scenario is played."""
    scenario = parse_scenario(json.dumps(document), document["id"])
    publishes = [step.action for step in scenario.steps if isinstance(step.action, Publish)]
    own = next(index for index, one in enumerate(publishes) if one.channel != _OTHERS)
    broker = CoreBroker(compat)
    watcher = _Deaths(broker, own)
    Player(scenario, broker, watcher).play()
    return watcher.deaths


def _place(step: tuple[int, int, dict[str, Any]]) -> tuple[int, int]:
    return step[:2]


def _millis(instant: str) -> int:
    return round(datetime.fromisoformat(instant).timestamp() * 1000)


def body_bytes(message: Row) -> bytes:
    """The body of a message that `MessageHistory` holds as typed JSON."""
    body = message["body"]
    if isinstance(body, str):
        return body.encode()
    return b"" if body is None else base64.b64decode(body["$bytes"])
