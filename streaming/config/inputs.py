"""`[[inputs]]`: the Kafka topics that the job reads, and how existing topics are mapped.

A topic of the job's own carries its wire format, whose headers say what each record is. For any
other topic, a `mapping` says to which vhost and exchange its records are published, and with which
routing key. The job never rewrites the records of such a topic.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import attrs

from streaming.config import types
from topology.errors import Problem


@attrs.frozen
class RecordKey:
    """Use the Kafka record's key, or another value; without either a record is quarantined."""

    otherwise: str | None = None

    def toml(self) -> dict[str, object]:
        """The inline table that it is in `dlx.toml`."""
        return {"record_key": True} | _fallback(self.otherwise)


@attrs.frozen
class RecordHeader:
    """Use a Kafka header's last value, or another one; without either a record is quarantined."""

    name: str
    otherwise: str | None = None

    def toml(self) -> dict[str, object]:
        """The inline table that it is in `dlx.toml`."""
        return {"header": self.name} | _fallback(self.otherwise)


def _fallback(otherwise: str | None) -> dict[str, object]:
    return {} if otherwise is None else {"otherwise": otherwise}


Selector = str | RecordKey | RecordHeader
"""Where a record's vhost, exchange or routing key comes from; a string is the value itself."""

_FORMS: Final = '"text", {record_key = true} or {header = "name"}'
_MEMBERS: Final = ("record_key", "header", "otherwise")


def _selector(text_fault: Callable[[str], str | None]) -> types.Kind:
    """The kind of a selector; `text_fault` says what is wrong with a value, or None."""

    def read(raw: Any) -> Selector:
        if isinstance(raw, str):
            return str(types.text(text_fault).read(raw))
        members = _members(raw)
        faults = {"header": types.name_fault, "otherwise": text_fault}
        types.refuse(
            Problem(name, what)
            for name, fault in faults.items()
            if name in members and (what := fault(members[name]))
        )
        otherwise = members.get("otherwise")
        if "header" in members:
            return RecordHeader(members["header"], otherwise)
        return RecordKey(otherwise)

    return types.Kind(_FORMS, read)


def _members(raw: Any) -> dict[str, Any]:
    """The inline table of a selector, without unknown keys or values of the wrong type."""
    if isinstance(raw, RecordKey | RecordHeader):
        return raw.toml()
    if not isinstance(raw, dict):
        raise types.invalid(f"expected {_FORMS}, got {types.kind_of(raw)}")
    problems = types.unknown_keys(raw, _MEMBERS)
    problems += [
        Problem(name, f"expected a string, got {types.kind_of(raw[name])}")
        for name in ("header", "otherwise")
        if name in raw and not isinstance(raw[name], str)
    ]
    if raw.get("record_key", True) is not True:
        problems.append(Problem("record_key", "must be true"))
    if "record_key" in raw and "header" in raw:
        problems.append(Problem("", "names both record_key and header: use only one of them"))
    elif "record_key" not in raw and "header" not in raw:
        problems.append(Problem("", f"expected {_FORMS}"))
    types.refuse(problems)
    return raw


@attrs.frozen(kw_only=True)
class TopicMapping(types.Section):
    """How the records of a foreign topic become publishes."""

    exchange: Selector = types.setting(
        "",
        f'The exchange to publish to: {_FORMS}. Add otherwise = "text" for records that lack '
        "the key or header; without it, such records are quarantined.",
        _selector(types.short_string_fault),
        outcome=True,
        example='"orders"',
        required=True,
    )
    routing_key: Selector = types.setting(
        "",
        "The routing key, in the same forms.",
        _selector(types.short_string_fault),
        outcome=True,
        example='{ header = "type", otherwise = "order" }',
    )
    vhost: Selector = types.setting(
        "/",
        "The vhost, in the same forms.",
        _selector(types.name_fault),
        outcome=True,
        example='"/"',
    )


@attrs.frozen(kw_only=True)
class InputSettings(types.Section):
    """One Kafka topic."""

    topic: str = types.setting(
        "unreadable",
        "The Kafka topic. The job creates it if it is missing and has no mapping.",
        types.text(types.topic_fault, "a topic name that Kafka accepts"),
        outcome=True,
        required=True,
    )
    source: Literal["publishes", "commands", "transactions"] = types.setting(
        "publishes",
        "publishes: flow control may pause it. commands: never paused, since settlements free "
        "memory. transactions: as commands, for clients that publish and settle in Kafka "
        "transactions; it needs its own topic, because an open transaction holds up every record "
        "behind it. Each topic may carry both kinds of record, in one order.",
        types.choice("publishes", "commands", "transactions"),
        outcome=True,
    )
    user: str = types.setting(
        "guest",
        "The RabbitMQ user that the topic's records act for, one of [users]. Anyone who can write "
        "to the topic acts as this user, so restrict access with Kafka's ACLs.",
        types.text(types.name_fault),
        outcome=True,
    )
    partitions: int | None = types.setting(
        None,
        "Number of partitions if the job creates the topic. Not set: kafka.topic_partitions.",
        types.whole(1, types.MAX_PARTITIONS),
        example="4",
    )
    mapping: TopicMapping | None = types.setting(
        None,
        "For a topic without the job's wire format: how its records become publishes.",
        types.table(TopicMapping),
    )

    def contradictions(self) -> Iterator[Problem]:
        """The job never creates a foreign topic, and reads only publishes from it."""
        if self.mapping is None:
            return
        if self.source != "publishes":
            yield Problem("mapping", 'needs source = "publishes": a mapped topic has no commands')
        if self.partitions is not None:
            yield Problem(
                "partitions", "cannot be set with a mapping: the job creates no such topic"
            )
