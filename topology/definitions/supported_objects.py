"""The supported objects of one vhost, collected from a definitions document.

What is not supported (exchange types of plugins, streams, keys of plugins) is skipped and reported,
and so is every binding to it. An import also skips what it cannot declare: exclusive queues, single
active consumers, names reserved for the broker. An object that cannot be read is a problem; its
name stays known, so that bindings to it are not further problems, and the rest of it is checked.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from topology.declarations import (
    PREDECLARED_NAMES,
    RESERVED_PREFIX,
    Binding,
    BindingEnd,
    Declaration,
    Definitions,
    Exchange,
    Permission,
    Policy,
    Queue,
    VhostLimits,
)
from topology.definitions.json_object import Fields, Report
from topology.definitions.objects import (
    DESTINATION_TYPES,
    read_binding,
    read_exchange,
    read_operator_policy,
    read_permission,
    read_policy,
    read_queue,
    read_topic_permission,
    read_vhost_limits,
)
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.sentences import say
from topology.suggestions import did_you_mean
from topology.validation.arguments import (
    INERT_POLICY_KEYS,
    QUEUE_ARGUMENTS,
    QUEUE_TYPES,
    policy_keys,
    unrecognised_keys,
)
from topology.validation.problems import find_problems
from topology.values import Compat

OTHER_QUEUE_TYPES = ("stream", "mqtt_qos0")
"""Queue types that RabbitMQ has and dlx-stream does not."""

_SECTIONS = {
    "exchanges": "exchange",
    "queues": "queue",
    "bindings": "binding",
    "policies": "policy",
    "operator_policies": "operator policy",
    "permissions": "permission",
    "topic_permissions": "topic permission",
    "limits": "vhost limits",
}
"""Members of `Definitions`, with a word for one object."""


class SkippedObjects(msgspec.Struct, frozen=True):
    """What is skipped in one vhost: RabbitMQ would have it.

    Tools show where it would be, and do not call lost what would reach it.

    Attributes:
        bindings: those with a skipped exchange or queue at one of their ends.
        reasons: why each exchange and queue is skipped.
    """

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()
    reasons: dict[BindingEnd, str] = {}

    def beside(self, definitions: Definitions, *, follow: bool) -> Definitions:
        """The definitions, with stand-ins for what is skipped.

        Args:
            follow: a skipped exchange of an unknown type has its bindings, and each of them may
                match any message; otherwise it routes nothing.
        """
        if not self.reasons:
            return definitions
        declared = PREDECLARED_NAMES | {exchange.name for exchange in definitions.exchanges}
        exchanges = {each.name: each for each in self.exchanges if each.name not in declared}
        declared_queues = {queue.name for queue in definitions.queues}
        queues = {each.name: each for each in self.queues if each.name not in declared_queues}
        unknown = {each.name for each in exchanges.values() if each.type not in EXCHANGE_TYPES}
        ends = {("exchange", name) for name in declared | exchanges.keys()}
        ends |= {("queue", name) for name in declared_queues | queues.keys()}
        bindings = (
            msgspec.structs.replace(each, arguments={}) if each.source in unknown else each
            for each in self.bindings
            if ("exchange", each.source) in ends
            and (each.destination_type, each.destination) in ends
            and (follow or each.source not in unknown)
        )
        stand_ins = (
            msgspec.structs.replace(
                each,
                type="headers" if each.name in unknown else each.type,
                arguments=each.arguments if follow else {},
            )
            for each in exchanges.values()
        )
        return msgspec.structs.replace(
            definitions,
            exchanges=(*definitions.exchanges, *stand_ins),
            queues=(*definitions.queues, *queues.values()),
            bindings=(*definitions.bindings, *bindings),
        )


NOTHING_SKIPPED = SkippedObjects()


class _Located(NamedTuple):
    """An object, and its path in the document; not `sound` if a part of it cannot be read."""

    item: Declaration
    where: str
    sound: bool


_Sections = Mapping[str, list[_Located]]


class VhostReading(NamedTuple):
    """What a document holds for one vhost.

    Attributes:
        definitions: the objects that have no problem.
        skipped: what is skipped; if there are problems, the objects that have one as well.
        paths: the path of each object, by its name for people, such as `queue 'work'`.
    """

    definitions: Definitions
    skipped: SkippedObjects
    paths: dict[str, str]


class SupportedObjects:
    """Collects the supported objects of one vhost, each with its path in the document."""

    def __init__(
        self,
        report: Report,
        vhost: str,
        default_queue_type: str = "classic",
        *,
        as_client: bool = False,
    ) -> None:
        """Start empty.

        Args:
            as_client: the objects are for a client that declares them. What RabbitMQ would refuse
                is kept, and nothing but its form is checked.
        """
        self.vhost = vhost
        self.default_queue_type = default_queue_type
        self._as_client = as_client
        self._report = report
        self._read: dict[str, list[_Located]] = {section: [] for section in _SECTIONS}
        self._skipped_exchanges: dict[str, Exchange] = {}
        self._skipped_queues: dict[str, Queue] = {}
        self._skipped_bindings: list[Binding] = []
        self._reasons: dict[BindingEnd, str] = {}

    def add_exchange(self, fields: Fields) -> None:
        """Read an exchange."""
        exchange = read_exchange(fields)
        name = exchange.name
        if exchange.type and exchange.type not in EXCHANGE_TYPES:
            hint = did_you_mean(exchange.type, EXCHANGE_TYPES)
            what = say(
                "exchange type %(type)s is not supported%(hint)s",
                type=repr(exchange.type),
                hint=hint,
            )
            self._skip(exchange, fields.at("type"), what, "unknown-exchange-type")
        elif name in PREDECLARED_NAMES and fields.sound and not self._as_client:
            what = say("exchange %(name)s is predeclared in every vhost", name=repr(name))
            self._report.skip(fields.where, what, "predeclared-exchange")
        elif name.startswith(RESERVED_PREFIX) and not self._as_client:
            what = say("name %(name)s is reserved for the broker", name=repr(name))
            self._skip(exchange, fields.where, what, "reserved-name")
        else:
            self._report_arguments(exchange, fields, ("alternate-exchange",))
            self._add("exchanges", exchange, fields)

    def add_queue(self, fields: Fields) -> None:
        """Read a queue; a type given outside its arguments becomes an argument."""
        queue_type = fields.text("type", "")
        queue = read_queue(fields)
        queue_type = queue_type.removeprefix("rabbit_").removesuffix("_queue")
        if not queue_type:
            queue = queue.of_default_type(self.default_queue_type)
        elif "x-queue-type" not in queue.arguments and queue_type != "classic":
            arguments = {"x-queue-type": queue_type, **queue.arguments}
            queue = msgspec.structs.replace(queue, arguments=arguments)
        unknown = OTHER_QUEUE_TYPES if self._as_client else {queue.queue_type} - {*QUEUE_TYPES}
        if queue.queue_type in unknown:
            hint = did_you_mean(queue.queue_type, QUEUE_TYPES)
            what = say(
                "queue type %(type)s is not supported%(hint)s",
                type=repr(queue.queue_type),
                hint=hint,
            )
            self._skip(queue, fields.where, what, "unknown-queue-type")
        elif queue.name.startswith(RESERVED_PREFIX) and not self._as_client:
            what = say("name %(name)s is reserved for the broker", name=repr(queue.name))
            self._skip(queue, fields.where, what, "reserved-name")
        elif queue.exclusive and not self._as_client:
            what = say("an exclusive queue belongs to a channel and cannot be imported")
            self._skip(queue, fields.at("exclusive"), what, "exclusive-queue")
        else:
            self._report_arguments(queue, fields, QUEUE_ARGUMENTS)
            self._add("queues", queue, fields)

    def add_binding(self, fields: Fields) -> None:
        """Read a binding."""
        binding = read_binding(fields)
        if fields.sound and not binding.source and not self._as_client:
            what = say("bindings of the default exchange are implicit")
            self._report.skip(fields.where, what, "default-exchange-binding")
        elif binding.destination_type in DESTINATION_TYPES:
            self._add("bindings", binding, fields)

    def add_policy(self, fields: Fields, name: str | None = None) -> None:
        """Read a policy; `name` if it is outside the object."""
        self._add_policy("policies", read_policy(fields, name), fields)

    def add_operator_policy(self, fields: Fields, name: str | None = None) -> None:
        """Read an operator policy; `name` if it is outside the object."""
        self._add_policy("operator_policies", read_operator_policy(fields, name), fields)

    def add_permission(self, fields: Fields) -> None:
        """Read a permission."""
        self._add("permissions", read_permission(fields), fields)

    def add_topic_permission(self, fields: Fields) -> None:
        """Read a topic permission."""
        self._add("topic_permissions", read_topic_permission(fields), fields)

    def add_limits(self, fields: Fields, _name: str) -> None:
        """Read the limits of the vhost; without any, nothing is declared."""
        limits = read_vhost_limits(fields)
        if limits != VhostLimits():
            self._add("limits", limits, fields)

    def finish(self, existing: frozenset[BindingEnd], compat: Compat) -> VhostReading:
        """Return the definitions; everything wrong with them goes to the report.

        Bindings may name what is `existing`, although it is not declared here.
        """
        self._report.vhost = self.vhost
        self._read["bindings"] = [each for each in self._read["bindings"] if not self._orphan(each)]
        sound = {
            section: [each for each in items if each.sound] for section, items in self._read.items()
        }
        if not self._as_client:
            sound = {section: self._distinct(items) for section, items in sound.items()}
            self._check(sound, existing, compat)
            if self._report.problems:
                sound = self._without_problems(sound)
        skipped = SkippedObjects(
            tuple(self._skipped_exchanges.values()),
            tuple(self._skipped_queues.values()),
            tuple(self._skipped_bindings),
            self._reasons,
        )
        paths = {
            f"{_SECTIONS[section]} {each.item.name!r}": each.where
            for section, items in sound.items()
            for each in items
            if isinstance(each.item, Exchange | Queue | Policy)
        }
        return VhostReading(_definitions(sound), skipped, paths)

    def _add(self, section: str, item: Declaration, fields: Fields) -> None:
        self._read[section].append(_Located(item, fields.where, fields.sound))

    def _add_policy(self, section: str, policy: Policy, fields: Fields) -> None:
        operator = section == "operator_policies"
        supported = _with_supported_keys(policy, fields.where, self._report, operator=operator)
        if supported is not None:
            self._add(section, supported, fields)

    def _skip(self, item: Exchange | Queue, where: str, what: str, code: str) -> None:
        self._keep_skipped(item, what)
        self._report.skip(where, what, code)

    def _keep_skipped(self, item: Exchange | Queue, why: str) -> None:
        if not item.name:
            return
        if isinstance(item, Exchange):
            self._skipped_exchanges[item.name] = item
            self._reasons["exchange", item.name] = why
        else:
            self._skipped_queues[item.name] = item
            self._reasons["queue", item.name] = why

    def _report_arguments(
        self, item: Exchange | Queue, fields: Fields, known: Sequence[str]
    ) -> None:
        for name in item.arguments:
            if name not in known:
                what = say(
                    "is an unknown argument and has no effect%(hint)s",
                    hint=did_you_mean(name, known),
                )
                self._report.skip(f"{fields.where}.arguments.{name}", what, "unknown-argument")

    def _distinct(self, located: list[_Located]) -> list[_Located]:
        """The objects without exact duplicates; conflicting duplicates stay, as a problem."""
        first: dict[object, _Located] = {}
        distinct: list[_Located] = []
        for each in located:
            before = first.setdefault(_identity(each.item), each)
            if before is not each and before.item == each.item:
                what = say("is a duplicate of %(where)s", where=before.where)
                self._report.skip(each.where, what, "duplicate")
            else:
                distinct.append(each)
        return distinct

    def _orphan(self, located: _Located) -> bool:
        """Whether one end of a binding is skipped; if so, reports the binding as skipped."""
        binding = located.item
        assert isinstance(binding, Binding)
        for kind, name in _ends_of(binding):
            if (kind, name) in self._reasons:
                what = (
                    say("the queue %(name)s is skipped", name=repr(name))
                    if kind == "queue"
                    else say("the exchange %(name)s is skipped", name=repr(name))
                )
                self._report.skip(located.where, what, "binding-of-skipped")
                self._skipped_bindings.append(binding)
                return True
        return False

    def _check(self, sound: _Sections, existing: frozenset[BindingEnd], compat: Compat) -> None:
        """Report what is wrong with the sound objects, and with the readable rest of the others."""
        unsound = {
            section: [each for each in items if not each.sound]
            for section, items in self._read.items()
        }
        known = existing | _declared(self._read)
        told = {problem.where for problem in self._report.problems}
        found = find_problems(
            _definitions(sound), compat, locate=_paths_of(sound), also_known=known
        )
        rest = find_problems(
            _definitions(unsound), compat, locate=_paths_of(unsound), also_known=known, alone=True
        )
        for problem in (*found, *(each for each in rest if each.where not in told)):
            self._report.problem(problem.where, problem.what, problem.code)

    def _without_problems(self, sound: _Sections) -> dict[str, list[_Located]]:
        """The objects without problems; the others are kept like skipped ones."""
        paths = {each.where: each for items in self._read.values() for each in items}
        faulty = {
            path
            for problem in self._report.problems
            for path in accumulate(problem.where.split("."), "{}.{}".format)
            if path in paths
        }
        declared = _declared(self._read)
        for path in sorted(faulty):
            item = paths[path].item
            if isinstance(item, Exchange | Queue):
                self._keep_skipped(item, "it has problems")
            elif isinstance(item, Binding):
                self._skipped_bindings.append(msgspec.structs.replace(item, arguments={}))
                for kind, name in set(_ends_of(item)) - declared:
                    end = Exchange(name) if kind == "exchange" else Queue(name)
                    self._keep_skipped(end, "it does not exist")
        usable = {
            section: [each for each in items if each.where not in faulty]
            for section, items in sound.items()
        }
        kept = []
        for each in usable["bindings"]:
            binding = each.item
            assert isinstance(binding, Binding)
            if self._reasons.keys().isdisjoint(_ends_of(binding)):
                kept.append(each)
            else:
                self._skipped_bindings.append(binding)
        return usable | {"bindings": kept}


def _with_supported_keys(
    policy: Policy, where: str, report: Report, *, operator: bool
) -> Policy | None:
    """The policy without unsupported keys, which are reported; None if no key is supported."""
    for key in sorted(INERT_POLICY_KEYS & policy.definition.keys()):
        path = f"{where}.definition.{key}"
        report.skip(path, say("has no effect here"), "policy-key-without-effect")
    unknown = unrecognised_keys(policy, operator=operator)
    for key in unknown:
        hint = did_you_mean(key, policy_keys(operator=operator))
        what = (
            say("is not a known key of operator policies and has no effect%(hint)s", hint=hint)
            if operator
            else say("is not a known key of policies and has no effect%(hint)s", hint=hint)
        )
        report.skip(f"{where}.definition.{key}", what, "unknown-policy-key")
    kept = {key: value for key, value in policy.definition.items() if key not in unknown}
    if unknown and not kept:
        report.skip(where, say("none of its keys is supported"), "policy-without-keys")
        return None
    return msgspec.structs.replace(policy, definition=kept)


def _identity(item: Declaration) -> object:
    """What only one object of its kind may have."""
    if isinstance(item, Binding):
        return item.key
    return item.user if isinstance(item, Permission) else item.name


def _definitions(located: _Sections) -> Definitions:
    members: dict[str, Any] = {
        section: tuple(each.item for each in items) for section, items in located.items()
    }
    return Definitions(**members)


def _paths_of(located: _Sections) -> Callable[[str, int], str]:
    return lambda section, index: located[section][index].where


def _declared(located: _Sections) -> frozenset[BindingEnd]:
    """The exchanges and queues among the objects, and those that every vhost has."""
    ends: set[BindingEnd] = {("exchange", name) for name in PREDECLARED_NAMES}
    for items in located.values():
        for each in items:
            if isinstance(each.item, Exchange):
                ends.add(("exchange", each.item.name))
            elif isinstance(each.item, Queue):
                ends.add(("queue", each.item.name))
    return frozenset(ends)


def _ends_of(binding: Binding) -> tuple[BindingEnd, BindingEnd]:
    return ("exchange", binding.source), (binding.destination_type, binding.destination)
