"""RabbitMQ's definitions documents, in and out (SEMANTICS section 20).

Both of its exports load unchanged: of a whole cluster, where every object names its vhost, and of a
single vhost, where none does. Operator policies may stand among the parameters, where RabbitMQ
exports them, or in an array of their own. Whatever is not modelled is named in `Loaded.left_out`;
whatever is wrong is named in one `InvalidTopologyError`, all of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from topology.declarations import Definitions, Policy
from topology.definitions.json_object import Fields, Report
from topology.definitions.objects import (
    binding_document,
    exchange_document,
    permission_document,
    policy_document,
    queue_document,
)
from topology.definitions.vhost_reader import End, VhostImport
from topology.errors import InvalidTopologyError, Problem
from topology.names import RESERVED_PREFIX
from topology.suggestions import did_you_mean
from topology.values import json_type

_DESCRIPTIVE = (
    "bindings_count",
    "explanation",
    "metadata",
    "original_cluster_name",
    "original_vhost_name",
    "product_name",
    "product_version",
    "rabbit_version",
    "rabbitmq_definition_format",
    "rabbitmq_version",
)
"""Members of a document that say where it is from."""

_DESCRIPTIVE_PARAMETERS = ("cluster_name", "cluster_tags", "internal_cluster_id")

_OBJECTS: Mapping[str, Callable[[VhostImport, Fields], None]] = {
    "exchanges": VhostImport.add_exchange,
    "queues": VhostImport.add_queue,
    "bindings": VhostImport.add_binding,
    "policies": VhostImport.add_policy,
    "operator_policies": VhostImport.add_operator_policy,
    "permissions": VhostImport.add_permission,
}
_POLICY_COMPONENTS: Mapping[str, Callable[[VhostImport, Fields, str], None]] = {
    "operator_policy": VhostImport.add_operator_policy,
    "policy": VhostImport.add_policy,
}
_MEMBERS = (
    *_OBJECTS,
    "vhosts",
    "users",
    "parameters",
    "global_parameters",
    "topic_permissions",
    *_DESCRIPTIVE,
)


Exportable = tuple[str, Callable[[Any], dict[str, object]], Any]
"""A section of definitions documents, an object of it, and how that is written."""


class User(msgspec.Struct, frozen=True):
    """A user as far as it matters here: its password is somebody else's."""

    name: str
    tags: tuple[str, ...] = ()


class Loaded(msgspec.Struct, frozen=True):
    """A definitions document that was read.

    Attributes:
        vhosts: by name, in the order of the document.
        left_out: what it holds that is not modelled.
        users: in the order of the document.
    """

    vhosts: dict[str, Definitions]
    left_out: tuple[Problem, ...] = ()
    users: tuple[User, ...] = ()


def load_definitions(
    document: object,
    *,
    default_vhost: str = "/",
    existing: Iterable[End] = (),
    most: int | None = None,
) -> Loaded:
    """Read a definitions document.

    Args:
        document: JSON as bytes or str, or already decoded.
        default_vhost: where objects belong that do not name their vhost.
        existing: exchanges and queues that bindings may name although the document does not
            declare them.
        most: how many problems, and how many things left out, are named; None: all.

    Raises:
        InvalidTopologyError: the document cannot be used; carries every problem found.
    """
    report = Report(most)
    if isinstance(document, bytes | str):
        document = _decoded(document, report)
    loaded = _Reader(document, default_vhost, report, frozenset(existing)).read()
    if report.problems:
        raise InvalidTopologyError(report.problems)
    return loaded


class _Reader:
    """One document in the course of being read."""

    def __init__(
        self, document: object, default_vhost: str, report: Report, existing: frozenset[End]
    ) -> None:
        self._document = document
        self._default_vhost = default_vhost
        self._existing = existing
        self._report = report
        self._vhosts: dict[str, VhostImport] = {}
        self._listed = False

    def read(self) -> Loaded:
        """Everything in the document."""
        if not isinstance(self._document, dict):
            what = f"expected an object, got {json_type(self._document)}"
            self._report.problem("document", what)
            return Loaded({})
        for fields in self._objects("vhosts"):
            self._vhost(fields)
        self._listed = bool(self._vhosts)
        if not self._listed:
            self._vhosts[self._default_vhost] = VhostImport(self._report)
        for member, add in _OBJECTS.items():
            for fields in self._objects(member):
                if (vhost := self._vhost_of(fields)) is not None:
                    add(vhost, fields)
                    self._note_unknown(fields)
        for fields in self._objects("parameters"):
            self._parameter(fields)
        users = tuple(_user(fields) for fields in self._objects("users"))
        self._note_the_rest()
        vhosts = {name: vhost.finish(self._existing) for name, vhost in self._vhosts.items()}
        return Loaded(vhosts, self._report.all_left_out(), users)

    def _objects(self, member: str) -> Iterator[Fields]:
        """The objects of one of the document's arrays; no array is an empty one."""
        items = self._document.get(member) if isinstance(self._document, dict) else None
        if items is None:
            return
        if not isinstance(items, list):
            self._report.problem(member, f"expected an array, got {json_type(items)}")
            return
        for index, item in enumerate(items):
            yield Fields(item, f"{member}[{index}]", self._report)

    def _vhost(self, fields: Fields) -> None:
        metadata = fields.value("metadata")
        nested = metadata.get("default_queue_type") if isinstance(metadata, dict) else None
        queue_type = fields.value("default_queue_type") or nested
        if not isinstance(queue_type, str) or queue_type == "undefined":
            queue_type = "classic"
        name = fields.text("name")
        if fields.sound:
            self._vhosts[name] = VhostImport(self._report, queue_type)

    def _vhost_of(self, fields: Fields) -> VhostImport | None:
        """The vhost that an object belongs to; None, and a problem, if it is not listed."""
        name = fields.text("vhost", self._default_vhost)
        if not fields.sound:
            return None
        if name not in self._vhosts:
            if self._listed:
                what = f"no vhost is named {name!r}{did_you_mean(name, self._vhosts)}"
                self._report.problem(fields.at("vhost"), what)
                return None
            self._vhosts[name] = VhostImport(self._report)
        return self._vhosts[name]

    def _parameter(self, fields: Fields) -> None:
        component = fields.text("component")
        name = fields.text("name")
        add = _POLICY_COMPONENTS.get(component)
        if not fields.sound:
            return
        if add is None:
            self._report.leave_out(fields.where, f"a {component!r} parameter is not modelled")
        elif (vhost := self._vhost_of(fields)) is not None:
            value = Fields(fields.value("value"), fields.at("value"), self._report)
            add(vhost, value, name)
            self._note_unknown(value)

    def _note_unknown(self, fields: Fields) -> None:
        """Note the members of an object that mean nothing here."""
        for path, what in fields.unknown():
            self._report.leave_out(path, what)

    def _note_the_rest(self) -> None:
        """Note what else the document holds."""
        for fields in self._objects("topic_permissions"):
            self._report.leave_out(fields.where, "topic permissions are not modelled")
        for fields in self._objects("global_parameters"):
            name = fields.value("name")
            if name not in _DESCRIPTIVE_PARAMETERS:
                self._report.leave_out(fields.where, f"global parameter {name!r} is not modelled")
        assert isinstance(self._document, dict), "read() has seen to that"
        for member in self._document:
            if member not in _MEMBERS:
                hint = did_you_mean(str(member), _MEMBERS)
                self._report.leave_out(str(member), f"is not a known member{hint}")


def _decoded(text: bytes | str, report: Report) -> object:
    """The document that JSON text stands for; an empty object, and a problem, if none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        report.problem("document", f"is not JSON: {error}")
        return {}


def _user(fields: Fields) -> User:
    """A user; tags are an array, or in old exports one text with commas."""
    tags = fields.value("tags")
    if isinstance(tags, str):
        tags = tags.split(",")
    names = [tag for tag in tags if isinstance(tag, str) and tag] if isinstance(tags, list) else []
    return User(fields.text("name"), tuple(names))


def dump_definitions(
    vhosts: Mapping[str, Definitions], users: tuple[User, ...] = ()
) -> dict[str, object]:
    """A whole-cluster definitions document, as RabbitMQ exports and imports it.

    What RabbitMQ does not export is left out: exclusive queues, the broker's own objects, and the
    bindings of either. Loading the document and dumping it again gives an equal document.
    """
    sections: dict[str, list[dict[str, object]]] = {
        "users": [{"name": user.name, "tags": list(user.tags)} for user in users],
        "vhosts": [{"name": vhost} for vhost in vhosts],
        "permissions": [],
        "parameters": [],
        "policies": [],
        "exchanges": [],
        "queues": [],
        "bindings": [],
    }
    for vhost, definitions in vhosts.items():
        for section, write, item in exported(definitions):
            sections[section].append({"vhost": vhost} | write(item))
    return dict(sections)


def exported(definitions: Definitions) -> Iterator[Exportable]:
    """What is exported of one vhost; of many objects only those somebody wants need be written."""
    exchanges = [item for item in definitions.exchanges if not _is_the_brokers(item.name)]
    queues = [
        item for item in definitions.queues if not item.exclusive and not _is_the_brokers(item.name)
    ]
    gone = {item.name for item in definitions.queues} - {item.name for item in queues}
    bindings = [
        item
        for item in definitions.bindings
        if item.source and not (item.destination_type == "queue" and item.destination in gone)
    ]
    kinds: tuple[tuple[str, Callable[[Any], dict[str, object]], Iterable[object]], ...] = (
        ("permissions", permission_document, definitions.permissions),
        ("parameters", _operator_policy_document, definitions.operator_policies),
        ("policies", policy_document, definitions.policies),
        ("exchanges", exchange_document, exchanges),
        ("queues", queue_document, queues),
        ("bindings", binding_document, bindings),
    )
    for section, write, items in kinds:
        for item in items:
            yield section, write, item


def _operator_policy_document(policy: Policy) -> dict[str, object]:
    """An operator policy as RabbitMQ exports it: a parameter."""
    document = policy_document(policy)
    return {"component": "operator_policy", "name": document.pop("name"), "value": document}


def _is_the_brokers(name: str) -> bool:
    return not name or name.startswith(RESERVED_PREFIX)
