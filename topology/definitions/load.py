"""Reading RabbitMQ's definitions documents (docs/semantics.md section 20).

Both of RabbitMQ's exports load unchanged: of a whole cluster, where every object names its vhost,
and of a single vhost, where none does. Operator policies may be among the parameters, as RabbitMQ
exports them, or in an array of their own. `LoadedDefinitions.skipped` lists what is not supported;
one `InvalidTopologyError` lists everything that is wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from topology.declarations import BindingEnd, Definitions
from topology.definitions.json_object import Fields, Report
from topology.definitions.supported_objects import SupportedObjects
from topology.errors import InvalidTopologyError, Problem
from topology.suggestions import did_you_mean
from topology.values import Compat, json_type

DESCRIPTIVE = (
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
"""Members of a document that say where it comes from."""

_KNOWN_PARAMETERS = ("cluster_name", "cluster_tags", "internal_cluster_id")

_OBJECTS: Mapping[str, Callable[[SupportedObjects, Fields], None]] = {
    "exchanges": SupportedObjects.add_exchange,
    "queues": SupportedObjects.add_queue,
    "bindings": SupportedObjects.add_binding,
    "policies": SupportedObjects.add_policy,
    "operator_policies": SupportedObjects.add_operator_policy,
    "permissions": SupportedObjects.add_permission,
}
_POLICY_COMPONENTS: Mapping[str, Callable[[SupportedObjects, Fields, str], None]] = {
    "operator_policy": SupportedObjects.add_operator_policy,
    "policy": SupportedObjects.add_policy,
}
_MEMBERS = (
    *_OBJECTS,
    "vhosts",
    "users",
    "parameters",
    "global_parameters",
    "topic_permissions",
    *DESCRIPTIVE,
)


class LoadedDefinitions(msgspec.Struct, frozen=True):
    """The vhosts of a definitions document, in its order; `skipped` is not supported."""

    vhosts: dict[str, Definitions]
    skipped: tuple[Problem, ...] = ()


def load_definitions(
    document: object,
    *,
    default_vhost: str = "/",
    existing: Iterable[BindingEnd] = (),
    max_problems: int | None = None,
    compat: Compat = "4.0",
) -> LoadedDefinitions:
    """Read a definitions document.

    Args:
        document: JSON, or already decoded.
        default_vhost: the vhost of objects that do not name one.
        existing: exchanges and queues that bindings may name although the document does not
            declare them.
        max_problems: how many problems, and how many omissions, are listed; None for all.

    Raises:
        InvalidTopologyError: the document cannot be used; carries every problem found.
    """
    report = Report(max_problems)
    if isinstance(document, bytes | str):
        document = _decode(document, report)
    loaded = _Reader(document, default_vhost, report).read(frozenset(existing), compat)
    if report.problems:
        raise InvalidTopologyError(report.problems)
    return loaded


def part_of(document: Mapping[str, object], vhost: str, *, single: bool) -> dict[str, object]:
    """The part of a document that concerns one vhost; members that belong to no vhost are kept.

    Args:
        single: the document describes one vhost, whose objects do not name it.
    """

    def concerns(member: str, item: object) -> bool:
        if member == "vhosts":
            return isinstance(item, dict) and item.get("name") == vhost
        return not isinstance(item, dict) or item.get("vhost", vhost) == vhost

    return {
        member: [item for item in value if concerns(member, item)]
        if isinstance(value, list) and not single
        else value
        for member, value in document.items()
    }


class _Reader:
    def __init__(self, document: object, default_vhost: str, report: Report) -> None:
        self._document: dict[str, Any] = document if isinstance(document, dict) else {}
        self._default_vhost = default_vhost
        self._report = report
        self._vhosts: dict[str, SupportedObjects] = {}
        self._listed = False
        if not isinstance(document, dict):
            report.problem("document", f"expected an object, got {json_type(document)}")

    def read(self, existing: frozenset[BindingEnd], compat: Compat) -> LoadedDefinitions:
        for fields in self._objects("vhosts"):
            self._vhost(fields)
        self._listed = bool(self._vhosts)
        if not self._listed:
            self._vhosts[self._default_vhost] = SupportedObjects(self._report)
        for member, add in _OBJECTS.items():
            for fields in self._objects(member):
                if (vhost := self._vhost_of(fields)) is not None:
                    add(vhost, fields)
                    fields.skip_unknown()
        for fields in self._objects("parameters"):
            self._parameter(fields)
        for fields in self._objects("users"):
            fields.text("name")  # checked, but not used
        self._skip_the_rest()
        vhosts = {name: vhost.finish(existing, compat) for name, vhost in self._vhosts.items()}
        return LoadedDefinitions(vhosts, self._report.all_skipped())

    def _objects(self, member: str) -> Iterator[Fields]:
        items = self._document.get(member)
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
            self._vhosts[name] = SupportedObjects(self._report, queue_type)

    def _vhost_of(self, fields: Fields) -> SupportedObjects | None:
        """The vhost that an object belongs to; None, and a problem, if it is not listed."""
        name = fields.text("vhost", self._default_vhost)
        if not fields.sound:
            return None
        if name not in self._vhosts:
            if self._listed:
                what = f"no vhost is named {name!r}{did_you_mean(name, self._vhosts)}"
                self._report.problem(fields.at("vhost"), what)
                return None
            self._vhosts[name] = SupportedObjects(self._report)
        return self._vhosts[name]

    def _parameter(self, fields: Fields) -> None:
        component = fields.text("component")
        name = fields.text("name")
        add = _POLICY_COMPONENTS.get(component)
        if not fields.sound:
            return
        if add is None:
            self._report.skip(fields.where, f"{component!r} parameters are not supported")
        elif (vhost := self._vhost_of(fields)) is not None:
            value = Fields(fields.value("value"), fields.at("value"), self._report)
            add(vhost, value, name)
            value.skip_unknown()

    def _skip_the_rest(self) -> None:
        for fields in self._objects("topic_permissions"):
            self._report.skip(fields.where, "topic permissions are not supported")
        for fields in self._objects("global_parameters"):
            name = fields.value("name")
            if name not in _KNOWN_PARAMETERS:
                self._report.skip(fields.where, f"global parameter {name!r} is not supported")
        for member in self._document:
            if member not in _MEMBERS:
                hint = did_you_mean(str(member), _MEMBERS)
                self._report.skip(str(member), f"is not a known member{hint}")


def _decode(text: bytes | str, report: Report) -> object:
    """Decode JSON; an empty object, and a problem, if the text is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        report.problem("document", f"is not JSON: {error}")
        return {}
