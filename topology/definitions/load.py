"""Reading RabbitMQ's definitions documents (docs/semantics.md section 20).

Both of RabbitMQ's exports load unchanged: of a whole cluster, where every object names its vhost,
and of a single vhost, where none does. Operator policies may be among the parameters, as RabbitMQ
exports them, or in an array of their own. `LoadedDefinitions.skipped` lists what is not supported;
one `InvalidTopologyError` lists everything that is wrong. `examine` returns both instead, and what
is usable, so that all of it can be reported in one run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from topology.declarations import BindingEnd, Definitions
from topology.definitions.json_object import Fields, Report
from topology.definitions.supported_objects import NOTHING_SKIPPED, SkippedObjects, SupportedObjects
from topology.errors import InvalidTopologyError, Problem
from topology.sentences import say
from topology.suggestions import did_you_mean
from topology.values import Compat, json_type

DESCRIPTIVE = (
    "bindings_count",
    "default_queue_type",
    "description",
    "explanation",
    "limits",
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

NOTHING: Mapping[str, Iterable[BindingEnd]] = {}
_KNOWN_PARAMETERS = ("cluster_name", "cluster_tags", "internal_cluster_id")

_OBJECTS: Mapping[str, Callable[[SupportedObjects, Fields], None]] = {
    "exchanges": SupportedObjects.add_exchange,
    "queues": SupportedObjects.add_queue,
    "bindings": SupportedObjects.add_binding,
    "policies": SupportedObjects.add_policy,
    "operator_policies": SupportedObjects.add_operator_policy,
    "permissions": SupportedObjects.add_permission,
    "topic_permissions": SupportedObjects.add_topic_permission,
}
_COMPONENTS: Mapping[str, Callable[[SupportedObjects, Fields, str], None]] = {
    "operator_policy": SupportedObjects.add_operator_policy,
    "policy": SupportedObjects.add_policy,
    "vhost-limits": SupportedObjects.add_limits,
}
_MEMBERS = (
    *_OBJECTS,
    "vhosts",
    "users",
    "parameters",
    "global_parameters",
    *DESCRIPTIVE,
)


class LoadedDefinitions(msgspec.Struct, frozen=True):
    """The vhosts of a definitions document, in its order.

    Attributes:
        skipped: what is not supported, each with its place in the document.
        skipped_objects: the exchanges, queues and bindings among it, for each vhost that has any.
        default_queue_types: the type of queues that name none, where that is not `classic`.
    """

    vhosts: dict[str, Definitions]
    skipped: tuple[Problem, ...] = ()
    skipped_objects: dict[str, SkippedObjects] = {}
    default_queue_types: dict[str, str] = {}

    def skipped_in(self, vhost: str) -> SkippedObjects:
        """What is skipped in one vhost."""
        return self.skipped_objects.get(vhost, NOTHING_SKIPPED)


class Examined(NamedTuple):
    """Everything that was found in a document, which need not be usable.

    Attributes:
        loaded: the objects without problems; the others are among the skipped ones.
        paths: for each vhost the path of each object, by its name, such as `queue 'work'`.
    """

    loaded: LoadedDefinitions
    problems: tuple[Problem, ...]
    paths: dict[str, dict[str, str]]


def load_definitions(
    document: object,
    *,
    default_vhost: str = "/",
    existing: Mapping[str, Iterable[BindingEnd]] = NOTHING,
    max_problems: int | None = None,
    compat: Compat = "4.0",
) -> LoadedDefinitions:
    """Read a definitions document.

    Args:
        document: JSON, or already decoded.
        default_vhost: the vhost of objects that do not name one.
        existing: exchanges and queues that bindings may name although the document does not
            declare them, by their vhost.
        max_problems: how many problems, and how many skipped items, are listed; None for all.

    Raises:
        InvalidTopologyError: the document cannot be used; carries every problem found.
    """
    report = Report(max_problems)
    found = _read(document, default_vhost, report, existing, compat)
    if found.problems:
        raise InvalidTopologyError(found.problems)
    return found.loaded


def examine(
    document: object,
    *,
    default_vhost: str = "/",
    existing: Mapping[str, Iterable[BindingEnd]] = NOTHING,
    compat: Compat = "4.0",
) -> Examined:
    """Read a definitions document as `load_definitions` does, and return what is wrong with it."""
    return _read(document, default_vhost, Report(), existing, compat)


def declarations_of_client(document: object, where: str, report: Report) -> Definitions:
    """Read the objects of one vhost that a client declares; see `SupportedObjects`.

    Args:
        document: already decoded; None declares nothing.
        where: the path of the document; problems and skipped items go to the report.
    """
    reader = _Reader({} if document is None else document, "", report, where, as_client=True)
    (definitions,) = reader.read(NOTHING, "4.0").loaded.vhosts.values()
    return definitions


def _read(
    document: object,
    default_vhost: str,
    report: Report,
    existing: Mapping[str, Iterable[BindingEnd]],
    compat: Compat,
) -> Examined:
    if isinstance(document, bytes | str):
        document = _decode(document, report)
    return _Reader(document, default_vhost, report).read(existing, compat)


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
    """Reads one document.

    A client declares everything in one vhost, the first that is named, and has no permissions.
    """

    def __init__(
        self,
        document: object,
        default_vhost: str,
        report: Report,
        where: str = "",
        *,
        as_client: bool = False,
    ) -> None:
        self._document: dict[str, Any] = document if isinstance(document, dict) else {}
        self._default_vhost = default_vhost
        self._where = where
        self._as_client = as_client
        self._report = report
        self._vhosts: dict[str, SupportedObjects] = {}
        self._unlisted: dict[str, SupportedObjects] = {}
        self._listed = False
        if not isinstance(document, dict):
            what = say("expected an object, got %(given)s", given=json_type(document))
            report.problem(where or say("document"), what, "wrong-type")

    def read(self, existing: Mapping[str, Iterable[BindingEnd]], compat: Compat) -> Examined:
        for fields in () if self._as_client else self._objects("vhosts"):
            self._vhost(fields)
        self._listed = bool(self._vhosts)
        for member, add in _OBJECTS.items():
            if self._as_client and member in {"permissions", "topic_permissions"}:
                continue
            for fields in self._objects(member):
                if (vhost := self._vhost_of(fields)) is not None:
                    add(vhost, fields)
                    fields.skip_unknown()
        for fields in self._objects("parameters"):
            self._parameter(fields)
        if not self._as_client:
            for fields in self._objects("users"):
                fields.text("name")  # checked, but not used
        if not self._vhosts:
            self._new_vhost(self._default_vhost)
        self._skip_the_rest()
        readings = {
            name: reader.finish(frozenset(existing.get(name, ())), compat)
            for name, reader in self._vhosts.items()
        }
        for reader in self._unlisted.values():
            reader.finish(frozenset(), compat)
        loaded = LoadedDefinitions(
            {name: reading.definitions for name, reading in readings.items()},
            self._report.all_skipped(),
            {name: each.skipped for name, each in readings.items() if each.skipped.reasons},
            {
                name: type_
                for name, reader in self._vhosts.items()
                if (type_ := reader.default_queue_type) != "classic"
            },
        )
        paths = {name: reading.paths for name, reading in readings.items()}
        return Examined(loaded, tuple(self._report.problems), paths)

    def _at(self, member: str) -> str:
        return f"{self._where}.{member}" if self._where else member

    def _objects(self, member: str) -> Iterator[Fields]:
        self._report.vhost = None
        items = self._document.get(member)
        if items is None:
            return
        where = self._at(member)
        if not isinstance(items, list):
            what = say("expected an array, got %(given)s", given=json_type(items))
            self._report.problem(where, what, "wrong-type")
            return
        for index, item in enumerate(items):
            vhost = item.get("vhost") if isinstance(item, dict) else None
            self._report.vhost = vhost if isinstance(vhost, str) else None
            yield Fields(item, f"{where}[{index}]", self._report)

    def _vhost(self, fields: Fields) -> None:
        members = {each: fields.value(each) for each in ("default_queue_type", "metadata")}
        name = fields.text("name")
        if fields.sound:
            self._vhosts[name] = SupportedObjects(self._report, name, _default_queue_type(members))

    def _new_vhost(self, name: str) -> SupportedObjects:
        queue_type = _default_queue_type(self._document)  # of an export of a single vhost
        vhost = SupportedObjects(self._report, name, queue_type, as_client=self._as_client)
        self._vhosts[name] = vhost
        return vhost

    def _vhost_of(self, fields: Fields) -> SupportedObjects | None:
        """The vhost that an object belongs to; None if it is skipped with its object.

        If it is not listed, that is a problem, and the object is checked all the same.
        """
        named = fields.value("vhost") is not None
        name = fields.text("vhost", self._default_vhost)
        if not fields.sound:
            return SupportedObjects(self._report, "") if named else None
        self._report.vhost = name or None
        if self._as_client:
            return self._only_vhost(name, fields)
        if name in self._vhosts:
            return self._vhosts[name]
        if not self._listed:
            return self._new_vhost(name)
        what = say(
            "no vhost is named %(name)s%(hint)s",
            name=repr(name),
            hint=did_you_mean(name, self._vhosts),
        )
        self._report.problem(fields.at("vhost"), what, "unknown-vhost")
        if name not in self._unlisted:
            self._unlisted[name] = SupportedObjects(self._report, name)
        return self._unlisted[name]

    def _only_vhost(self, name: str, fields: Fields) -> SupportedObjects | None:
        """The one vhost of a client, which the first object that names one determines."""
        only = self._vhosts.get("") or self._new_vhost("")
        only.vhost = only.vhost or name
        if name in {"", only.vhost}:
            return only
        what = say("a scenario has one vhost, here %(vhost)s", vhost=repr(only.vhost))
        self._report.skip(fields.at("vhost"), what, "other-vhost")
        return None

    def _parameter(self, fields: Fields) -> None:
        component = fields.text("component")
        name = fields.text("name")
        add = _COMPONENTS.get(component)
        if add is None and fields.sound:
            what = say("%(kind)s parameters are not supported", kind=repr(component))
            self._report.skip(fields.where, what, "unsupported-parameter")
        elif add is not None and (vhost := self._vhost_of(fields)) is not None:
            given = fields.value("value")
            if component == "vhost-limits" and given == []:
                given = {}  # as RabbitMQ exports limits that were cleared
            value = Fields(given, fields.at("value"), self._report)
            add(vhost, value, name)
            value.skip_unknown()

    def _skip_the_rest(self) -> None:
        for fields in self._objects("global_parameters"):
            name = fields.value("name")
            if name not in _KNOWN_PARAMETERS:
                what = say("global parameter %(name)s is not supported", name=repr(name))
                self._report.skip(fields.where, what, "unsupported-parameter")
        for member in self._document:
            if member not in _MEMBERS:
                hint = did_you_mean(str(member), _MEMBERS)
                what = say("is not a known member%(hint)s", hint=hint)
                self._report.skip(self._at(str(member)), what, "unknown-member")


def _default_queue_type(vhost: Mapping[str, object]) -> str:
    metadata = vhost.get("metadata")
    nested = metadata.get("default_queue_type") if isinstance(metadata, dict) else None
    queue_type = vhost.get("default_queue_type") or nested
    return queue_type if isinstance(queue_type, str) and queue_type != "undefined" else "classic"


def _decode(text: bytes | str, report: Report) -> object:
    """Decode JSON; an empty object, and a problem, if the text is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        what = say("is not JSON: %(error)s", error=str(error))
        report.problem(say("document"), what, "not-json")
        return {}
