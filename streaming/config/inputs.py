"""`[[inputs]]`: the Kafka topics that are read, and how existing ones are mapped.

A topic either carries our wire format, whose headers say what a record is, or it existed before us
and knows nothing of us: then a `mapping` says to which vhost and exchange its records are
published, and with which routing key. Foreign records are never rewritten.
"""

from typing import Annotated, Final, Literal

import msgspec

from streaming.config.errors import Place
from streaming.config.outbound import MAX_PARTITIONS, topic_fault
from streaming.config.sections import Section, Table
from streaming.config.settings import Setting
from streaming.config.toml import kind_of, write_string
from streaming.config.types import choice, name_fault, short_string_fault, text, whole
from topology.suggestions import did_you_mean


class RecordKey(msgspec.Struct, frozen=True):
    """Take the Kafka record's key.

    Attributes:
        otherwise: what to take where a record has none; None: such a record is quarantined.
    """

    otherwise: str | None = None


class RecordHeader(msgspec.Struct, frozen=True):
    """Take the last value of a Kafka header.

    Attributes:
        name: of the header.
        otherwise: what to take where a record lacks it; None: such a record is quarantined.
    """

    name: str
    otherwise: str | None = None


Selector = str | RecordKey | RecordHeader
"""Where a record's vhost, exchange or routing key comes from; a string is the value itself."""

_FORMS: Final = '"text", {record_key = true} or {header = "name"}'
_MEMBERS: Final = ("record_key", "header", "otherwise")


class SelectorKind:
    """The kind of a selector."""

    def __init__(self, *, empty: bool) -> None:
        """`empty` is whether the value may be the empty string: the default exchange, say."""
        self.text_fault = short_string_fault if empty else name_fault

    def read(self, raw: object, place: Place) -> Selector | None:
        """Read one of the three forms."""
        reported = len(place.problems)
        selector: Selector
        match raw:
            case str():
                selector = raw
            case dict():
                for name in raw.keys() - set(_MEMBERS):
                    place.key(name).report(f"unknown key{did_you_mean(name, _MEMBERS)}")
                read = self._read_table(raw, place)
                if read is None or len(place.problems) > reported:
                    return None
                selector = read
            case _:
                place.report(f"expected {_FORMS}, got {kind_of(raw)}")
                return None
        self.check(selector, place)
        return selector if len(place.problems) == reported else None

    def _read_table(self, raw: dict[str, object], place: Place) -> Selector | None:
        otherwise = raw.get("otherwise")
        if otherwise is not None and not isinstance(otherwise, str):
            place.key("otherwise").report(f"expected a string, got {kind_of(otherwise)}")
            return None
        match raw:
            case {"record_key": _, "header": _}:
                place.report("names both record_key and header: it comes from one of them")
            case {"record_key": True}:
                return RecordKey(otherwise)
            case {"record_key": _}:
                place.key("record_key").report("must be true")
            case {"header": str(name)}:
                return RecordHeader(name, otherwise)
            case {"header": other}:
                place.key("header").report(f"expected a string, got {kind_of(other)}")
            case _:
                place.report(f"expected {_FORMS}")
        return None

    def check(self, value: object, place: Place) -> None:
        """Check lengths, and that names are not empty."""
        assert isinstance(value, str | RecordKey | RecordHeader)
        match value:
            case str():
                self._check_text(value, place)
            case RecordKey(otherwise):
                self._check_text(otherwise, place.key("otherwise"))
            case RecordHeader(name, otherwise):
                fault = name_fault(name)
                if fault is not None:
                    place.key("header").report(fault)
                self._check_text(otherwise, place.key("otherwise"))

    def _check_text(self, text: str | None, place: Place) -> None:
        fault = self.text_fault(text) if text is not None else None
        if fault is not None:
            place.report(fault)

    def write(self, value: object) -> str:
        """The selector as TOML."""
        match value:
            case RecordKey(otherwise):
                members = ["record_key = true"]
            case RecordHeader(name, otherwise):
                members = [f"header = {write_string(name)}"]
            case _:
                return write_string(str(value))
        if otherwise is not None:
            members.append(f"otherwise = {write_string(otherwise)}")
        return f"{{ {', '.join(members)} }}"


class TopicMapping(Section, frozen=True, kw_only=True):
    """How the records of a foreign topic become publishes."""

    exchange: Annotated[
        Selector,
        Setting(
            SelectorKind(empty=True),
            f'The exchange to publish to: {_FORMS}; with otherwise = "text" for records that '
            "lack it; without that, such records are quarantined.",
            outcome=True,
            example='"orders"',
            stand_in="",
        ),
    ]
    routing_key: Annotated[
        Selector,
        Setting(
            SelectorKind(empty=True),
            "The routing key, in the same forms.",
            outcome=True,
            example='{ header = "type", otherwise = "order" }',
        ),
    ] = ""
    vhost: Annotated[
        Selector,
        Setting(
            SelectorKind(empty=False),
            "The vhost, in the same forms.",
            outcome=True,
            example='"/"',
        ),
    ] = "/"


class InputSettings(Section, frozen=True, kw_only=True):
    """One Kafka topic."""

    topic: Annotated[
        str,
        Setting(
            text(topic_fault),
            "The Kafka topic. One of our own is made where it is missing.",
            outcome=True,
            stand_in="unreadable",
        ),
    ]
    source: Annotated[
        Literal["publishes", "commands", "transactions"],
        Setting(
            choice("publishes", "commands", "transactions"),
            "publishes: held back by flow control. commands: never held back, since settlements "
            "are what frees memory. transactions: as commands, for clients that publish and settle "
            "in Kafka transactions; a topic of its own, because an open transaction holds up "
            "everything behind it. Each may carry both kinds of record in one order.",
            outcome=True,
        ),
    ] = "publishes"
    user: Annotated[
        str,
        Setting(
            text(name_fault),
            "The RabbitMQ user whom its records act for; whoever may write to the topic is "
            "this user, so let Kafka's ACLs say who may. One of [users].",
            outcome=True,
        ),
    ] = "guest"
    partitions: Annotated[
        int | None,
        Setting(
            whole(1, MAX_PARTITIONS),
            "Partitions when the job makes the topic; not set: kafka.topic_partitions.",
            example="4",
        ),
    ] = None
    mapping: Annotated[
        TopicMapping | None,
        Setting(
            Table(TopicMapping),
            "For a topic that is not ours: how its records become publishes.",
        ),
    ] = None

    def check_together(self, place: Place) -> None:
        """A foreign topic carries publishes and is never made by us."""
        if self.mapping is None:
            return
        if self.source != "publishes":
            place.key("mapping").report(
                'needs source = "publishes": the records of a foreign topic are no commands'
            )
        if self.partitions is not None:
            place.key("partitions").report("is for topics that the job makes, and this is mapped")
