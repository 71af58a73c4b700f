"""What is declared, from the topology events: the tables tell it while no job runs.

    topology events of a vhost --replayed in order--> declarations --> Vhost (effective settings)

Each event that declares something holds the whole declaration.
"""

import hashlib
from collections.abc import Callable, Container
from functools import cached_property
from typing import Any, Final

import msgspec

from streaming.queries.as_of.snapshots import topology_texts
from streaming.queries.duckdb_tables import Tables
from topology.declarations import PREDECLARED, Binding, Definitions, Exchange, Queue
from topology.definitions.json_object import Fields, Report
from topology.definitions.objects import (
    read_binding,
    read_exchange,
    read_operator_policy,
    read_permission,
    read_policy,
    read_queue,
    read_topic_permission,
    read_vhost_limits,
)
from topology.vhost import Vhost

_LANE: Final = 0
"""Declarations are sent to every lane of a vhost, so one lane tells them all."""

_READERS: Final[dict[str, Callable[[Fields], Any]]] = {
    "exchange": read_exchange,
    "queue": read_queue,
    "policy": read_policy,
    "operator_policy": read_operator_policy,
    "permissions": read_permission,
    "topic_permissions": read_topic_permission,
    "limits": read_vhost_limits,
}


class Declared:
    """What was ever declared in one vhost.

    Attributes:
        queues, exchanges, policies, operator_policies, permissions, topic_permissions: what is
            declared now, by name, or by user.
        parameters: what the management API keeps, by component and name: users, global
            parameters and what is said of vhosts.
        deleted_queues: the names of queues that were deleted and not declared again.
        details: the details that lead to this, without those that later ones made irrelevant.
    """

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.exchanges: dict[str, Exchange] = {one.name: one for one in PREDECLARED}
        self.bindings: dict[object, Binding] = {}
        self.policies: dict[str, Any] = {}
        self.operator_policies: dict[str, Any] = {}
        self.permissions: dict[str, Any] = {}
        self.topic_permissions: dict[str, Any] = {}
        self.limits: dict[str, Any] = {}
        self.parameters: dict[tuple[str, str], Any] = {}
        self.deleted_queues: dict[str, None] = {}
        self.details: dict[object, dict[str, Any]] = {}
        self._definitions: Definitions | None = None
        self._model: Vhost | None = None
        self._objects: dict[str, dict[str, Any]] = {
            "exchange": self.exchanges,
            "queue": self.queues,
            "policy": self.policies,
            "operator_policy": self.operator_policies,
            "permissions": self.permissions,
            "topic_permissions": self.topic_permissions,
            "limits": self.limits,
        }

    def apply(self, detail: dict[str, Any]) -> None:
        """Apply the detail of the next event."""
        self.forget_model()
        what = detail["what"]
        if what in {"bound", "unbound"}:
            document = {**detail, "destination": detail["name"]}
            binding = read_binding(_fields(document))
            self.details.pop(binding.key, None)
            if what == "bound":
                self.bindings[binding.key] = binding
                self.details[binding.key] = detail
            else:
                self.bindings.pop(binding.key, None)
            return
        if what == "parameter_set":
            self._keep(detail)
            return
        kind, _, change = what.rpartition("_")
        objects = self._objects.get(kind)
        if objects is None:
            return
        name = detail["name"] or detail.get("policy") or detail.get("user", "")
        if "exchange" in detail:
            name = f"{name} at {detail['exchange']}"
        self.details.pop((kind, name), None)
        if change in {"declared", "set"} or kind == "queue":
            self.details[kind, name] = detail
        if change in {"declared", "set"}:
            if kind == "queue":
                self.deleted_queues.pop(name, None)
            objects[name] = _READERS[kind](_fields(detail["declaration"]))
            return
        objects.pop(name, None)
        if kind in {"queue", "exchange"}:
            self._unbind(kind, name)
        if kind == "queue":
            self.deleted_queues[name] = None

    def _keep(self, detail: dict[str, Any]) -> None:
        """Take a version of a parameter."""
        key = detail.get("component", ""), detail["name"]
        value, is_deleted = kept_value(detail)
        self.details.pop(("parameter", key), None)
        if is_deleted:
            self.parameters.pop(key, None)
            return
        self.parameters[key] = value
        self.details["parameter", key] = detail

    def _unbind(self, kind: str, name: str) -> None:
        """Remove the bindings of what was deleted."""
        for key, one in list(self.bindings.items()):
            is_end = (one.destination_type, one.destination) == (kind, name)
            if is_end or (kind == "exchange" and one.source == name):
                del self.bindings[key]
                self.details.pop(key, None)

    def forget_model(self) -> None:
        """Invalidate what was made of the declarations: they change."""
        self._definitions = self._model = None

    def definitions(self) -> Definitions:
        """What is declared now."""
        if self._definitions is None:
            self._definitions = Definitions(
                exchanges=tuple(one for _, one in sorted(self.exchanges.items())),
                queues=tuple(one for _, one in sorted(self.queues.items())),
                bindings=tuple(one for _, one in sorted(self.bindings.items(), key=repr)),
                policies=tuple(one for _, one in sorted(self.policies.items())),
                operator_policies=tuple(one for _, one in sorted(self.operator_policies.items())),
                permissions=tuple(one for _, one in sorted(self.permissions.items())),
                limits=tuple(self.limits.values()),
                topic_permissions=tuple(one for _, one in sorted(self.topic_permissions.items())),
            )
        return self._definitions

    def vhost(self) -> Vhost:
        """The vhost that results: effective policies and settings, bindings by their key."""
        if self._model is None:
            self._model = Vhost.from_definitions(self.definitions())
        return self._model


def kept_value(detail: dict[str, Any]) -> tuple[Any, bool]:
    """The value of a parameter, and whether it is a mark that the parameter was deleted.

    The management API writes JSON with `value` and `is_deleted`; others write what they like.
    """
    text = detail.get("value", "")
    try:
        kept = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text, False
    if isinstance(kept, dict) and "at_ms" in kept:
        return kept.get("value"), kept.get("is_deleted") is True
    return kept, False


def _fields(document: dict[str, Any]) -> Fields:
    return Fields(document, "", Report())


class TopologyLog(msgspec.Struct, frozen=True, dict=True):
    """What the tables tell about the topology, to be replayed in this order.

    Attributes:
        vhosts: every vhost of which the tables know.
        stored: the vhosts of a snapshot, each with a list of details in JSON.
        events: the vhosts and details, in JSON, of the events after it.
    """

    vhosts: tuple[str, ...]
    stored: tuple[tuple[str, str], ...]
    events: tuple[tuple[str, str], ...]

    @cached_property
    def digest(self) -> bytes:
        """Equal logs have equal digests."""
        return hashlib.sha256(msgspec.json.encode(self)).digest()

    def only(self, vhosts: Container[str]) -> "TopologyLog":
        """The log of these vhosts."""
        return TopologyLog(
            tuple(vhost for vhost in self.vhosts if vhost in vhosts),
            tuple(one for one in self.stored if one[0] in vhosts),
            tuple(one for one in self.events if one[0] in vhosts),
        )

    def replayed(self) -> dict[str, Declared]:
        """What is declared at the end, by vhost."""
        found = {vhost: Declared() for vhost in self.vhosts}
        for vhost, details in self.stored:
            for detail in msgspec.json.decode(details):
                found[vhost].apply(detail)
        for vhost, detail in self.events:
            found[vhost].apply(msgspec.json.decode(detail))
        return found


def declared(tables: Tables) -> dict[str, Declared]:
    """What is declared, by vhost; every vhost of which the tables know, in order of its name.

    Raises:
        QueryError: there is no table `events`.
    """
    return topology_log(tables).replayed()


def topology_log(tables: Tables) -> TopologyLog:
    """The log of the topology, from the last snapshot on.

    Raises:
        QueryError: there is no table `events`.
    """
    return tables.once("topology", lambda: _read_log(tables))


def _read_log(tables: Tables) -> TopologyLog:
    snapshot, stored, later = topology_texts(tables)
    events = ((vhost, detail) for vhost, lane, _seq, detail in later if lane == _LANE)
    vhosts = _vhosts_after(tables, -1 if snapshot is None else snapshot.batch_id)
    if snapshot is not None:
        vhosts.update(vhost for vhost, _lane, _seq in snapshot.last_seq)
        vhosts.update(vhost for vhost, _details in stored)
    if tables.vhosts is not None:  # a snapshot names all of them
        vhosts &= tables.vhosts
    return TopologyLog(tuple(sorted(vhosts)), tuple(stored), tuple(events))


def _vhosts_after(tables: Tables, batch_id: int) -> set[str]:
    """The vhosts that have events after a batch, up to the cut.

    Only files that may have several, or rows beyond the cut, are read.
    """
    paths = tables.of_files("events", "path") or []
    nothing = [None] * len(paths)
    names = ("min.vhost", "max.vhost", "null_count.vhost", "num_records", "max.batch_id")
    told = (tables.of_files("events", name) or nothing for name in names)
    wanted = set(tables.files("events", {"batch_id": batch_id}))
    found: set[str] = set()
    unknown = []
    for path, least, most, without, rows, last in zip(paths, *told, strict=True):
        if path not in wanted or (without is not None and without == rows):
            continue
        is_seen = tables.cut is None or (last is not None and last <= tables.cut.batch_id)
        if is_seen and least is not None and least == most:
            found.add(least)
        else:
            unknown.append(path)
    if unknown:
        view = tables.view("events", files=unknown, columns=["vhost", "batch_id"], view="of_vhosts")
        query = f"SELECT DISTINCT vhost FROM {view} WHERE batch_id > {batch_id}"
        found.update(vhost for (vhost,) in tables.values(query) if vhost is not None)
    return found
