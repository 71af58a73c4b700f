"""Rules between the tables of `dlx.toml`.

A rule names the paths it is about. While a file is read, rules about what could not be read are
left unsaid: a topic misspelt in `inputs[1]` must not also be reported as missing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from streaming.config.flow import FlowSettings
from streaming.config.inputs import InputSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.outbound import (
    MAX_PARTITIONS,
    OutboundSettings,
    alive_topic,
    collision_form,
    topic_fault,
)
from streaming.config.record_sizes import header_room_bytes
from streaming.config.toml import join_index, join_key
from streaming.config.vhosts import UserSettings, VhostSettings
from topology.suggestions import did_you_mean


class Clash(NamedTuple):
    """Values that are right each by itself and wrong together.

    Attributes:
        paths: what the rule is about; it is reported at the first. `vhosts.*` are their names.
        what: what is wrong, in words.
    """

    paths: tuple[str, ...]
    what: str


class Parts(NamedTuple):
    """The tables that rules look at; None stands for an input that could not be read."""

    kafka: KafkaSettings
    vhosts: Mapping[str, VhostSettings]
    users: Mapping[str, UserSettings]
    inputs: Sequence[InputSettings | None]
    outbound: OutboundSettings
    flow: FlowSettings

    def readable_inputs(self) -> Iterator[tuple[str, InputSettings]]:
        """Path -> input, in order."""
        for position, each in enumerate(self.inputs):
            if each is not None:
                yield join_index("inputs", position), each


def clashes(parts: Parts) -> Iterator[Clash]:
    """Everything that is wrong between the tables."""
    yield from _unknown_names(parts)
    yield from _sources(parts)
    yield from _partitions(parts)
    yield from _topics(parts)
    yield from _sizes(parts)


def _unknown_names(parts: Parts) -> Iterator[Clash]:
    for path, each in parts.readable_inputs():
        yield from _unknown(f"{path}.user", "users", each.user, parts.users)
        if each.mapping is not None and isinstance(each.mapping.vhost, str):
            yield from _unknown(f"{path}.mapping.vhost", "vhosts", each.mapping.vhost, parts.vhosts)


def _unknown(path: str, table: str, name: str, known: Iterable[str]) -> Iterator[Clash]:
    names = set(known)
    if name not in names:
        hint = did_you_mean(name, sorted(names))
        yield Clash((path, f"{table}.*"), f"there is no [{join_key(table, name)}]{hint}")


def _sources(parts: Parts) -> Iterator[Clash]:
    own = [each for _, each in parts.readable_inputs() if each.mapping is None]
    if not any(each.source == "commands" for each in own):
        yield Clash(
            ("inputs",),
            'no input has source = "commands": add one, such as topic = "dlx.commands", '
            "or nothing can be declared or settled",
        )
    if not any(each.source == "publishes" for _, each in parts.readable_inputs()):
        yield Clash(("inputs",), 'no input has source = "publishes"')


def _partitions(parts: Parts) -> Iterator[Clash]:
    """Lanes without a partition would have a share of the length limits and no messages."""
    own = [(path, each) for path, each in parts.readable_inputs() if each.mapping is None]
    topic_partitions = parts.kafka.topic_partitions
    for name, vhost in parts.vhosts.items():
        lanes_path = f"{join_key('vhosts', name)}.lanes"
        what = f"must be a multiple of {lanes_path} = {vhost.lanes}: lane is partition modulo lanes"
        if topic_partitions is not None and topic_partitions % vhost.lanes:
            yield Clash(("kafka.topic_partitions", lanes_path), what)
        for path, each in own:
            if each.partitions is not None and each.partitions % vhost.lanes:
                yield Clash((f"{path}.partitions", lanes_path, f"{path}.mapping"), what)
    needed = even_partitions(parts.vhosts)
    if needed > MAX_PARTITIONS:
        yield Clash(
            ("vhosts",),
            f"their lanes share no number of partitions below {needed:_}: "
            "let the larger be multiples of the smaller",
        )


def _topics(parts: Parts) -> Iterator[Clash]:
    owner: dict[str, str] = {}
    for path, each in parts.readable_inputs():
        topic_path = f"{path}.topic"
        other = owner.setdefault(collision_form(each.topic), topic_path)
        if other != topic_path:
            yield Clash((topic_path, other), f"is the topic of {other} already")
    for vhost in parts.vhosts:
        for user in parts.users:
            outbound = parts.outbound.topic_of(vhost, user)
            pair = f"vhost {vhost!r} and user {user!r}"
            fault = topic_fault(alive_topic(outbound))
            if fault is not None:
                yield Clash(
                    ("outbound.topic", "vhosts.*", "users.*"), f"for {pair}, the topic {fault}"
                )
            for topic in (outbound, alive_topic(outbound)):
                other = owner.setdefault(collision_form(topic), pair)
                if other != pair:
                    yield Clash(
                        ("outbound.topic", "vhosts.*", "users.*", "inputs"),
                        f"{topic}, for {pair}, is the topic of {other} already",
                    )
                    break


def _sizes(parts: Parts) -> Iterator[Clash]:
    room = header_room_bytes(parts.flow)
    most = parts.kafka.max_message_bytes - room
    if parts.flow.max_body_bytes > most:
        yield Clash(
            ("flow.max_body_bytes", "flow.max_header_bytes", "kafka.max_message_bytes"),
            f"must be at most {most:_}: kafka.max_message_bytes = "
            f"{parts.kafka.max_message_bytes:_}, less {room:_} for headers",
        )


def even_partitions(vhosts: Mapping[str, VhostSettings]) -> int:
    """The fewest partitions that give each lane of each vhost the same share."""
    return math.lcm(*(vhost.lanes for vhost in vhosts.values()))
