"""`[outbound]`: where deliveries and replies go, and how large their records may be."""

import re
from typing import Final

import attrs

from streaming.config import types
from streaming.config.flow import FlowSettings
from streaming.config.kafka import KafkaSettings
from streaming.protocol.addressing import DEFAULT_OUTBOUND, outbound_topic

HEADER_ROOM_BYTES: Final = 65_536
"""Room in an outbound record for the death history, names and Kafka's own overhead. Inbound headers
count four times in addition, since escapes and base64 can make them that much larger."""

HISTORY_ROOM_BYTES: Final = 1_048_576
"""Room in outbound topics above the largest body, for headers and a long death history."""

ECHO_ROOM_BYTES: Final = 65_536
"""A reply may repeat its command, which may be as large as a record of an input."""

_PLACEHOLDER: Final = re.compile(r"\{(?:vhost|user)\}")


def _pattern_fault(pattern: str) -> str | None:
    for placeholder in ("{vhost}", "{user}"):
        if pattern.count(placeholder) != 1:
            return f"must contain {placeholder} once: each pair of vhost and user has its own topic"
    return types.topic_fault(_PLACEHOLDER.sub("x", pattern))


@attrs.frozen(kw_only=True)
class DeadLetterTopicSettings(types.Section):
    """A Kafka topic with a copy of every dead letter, for programs that read Connect's."""

    topic: str | None = types.setting(
        None,
        "The topic. Each death adds a record with the body and the headers of Kafka Connect's "
        "dead-letter queue (__connect.errors.*); the message stays where it is. Records are keyed "
        "by queue. Not set: none.",
        types.text(types.topic_fault, "a topic name"),
        example='"shop.dead-letters"',
    )
    partitions: int = types.setting(
        1,
        "Number of partitions, if the job creates the topic.",
        types.whole(1, types.MAX_PARTITIONS),
    )
    retention_ms: int = types.setting(
        604_800_000,
        "How long records stay, if the job creates the topic: a week.",
        types.milliseconds(60_000),
    )


@attrs.frozen(kw_only=True)
class OutboundSettings(types.Section):
    """Where deliveries, confirms, returns and replies go."""

    topic: str = types.setting(
        DEFAULT_OUTBOUND,
        "One topic for each vhost and user, so that Kafka's ACLs can keep tenants apart. In both "
        'names, characters other than letters, digits and "-" become _ and two hex digits: the '
        "vhost / is _2f. The job writes a heartbeat once a second to a second topic, whose name "
        "ends in .alive; let users who may read the one also read the other.",
        types.text(_pattern_fault, "a topic name that contains {vhost} and {user} once each"),
        outcome=True,
    )
    partitions: int = types.setting(
        1,
        "Number of partitions of each topic. Records are keyed by channel. One partition is enough "
        "for most users, and a reader can follow it as a single log.",
        types.whole(1, types.MAX_PARTITIONS),
    )
    retention_ms: int = types.setting(
        86_400_000,
        "How long records stay readable. One day: a client that was away for longer has lost its "
        "leases, and its messages are back in their queues.",
        types.milliseconds(60_000),
    )

    dead_letters: DeadLetterTopicSettings = types.setting(
        DeadLetterTopicSettings(),
        "A topic with a copy of every dead letter.",
        types.table(DeadLetterTopicSettings),
    )

    def topic_of(self, vhost: str, user: str) -> str:
        """The topic that a user of a vhost reads."""
        return outbound_topic(self.topic, vhost, user)


def header_room_bytes(flow: FlowSettings) -> int:
    """Room that an outbound record needs beside the body, with a death history of usual length."""
    return 4 * flow.max_header_bytes + HEADER_ROOM_BYTES


def least_outbound_bytes(flow: FlowSettings) -> int:
    """The lowest max.message.bytes of an outbound topic that fits the largest accepted message."""
    return flow.max_body_bytes + header_room_bytes(flow)


def outbound_topic_bytes(flow: FlowSettings, kafka: KafkaSettings) -> int:
    """max.message.bytes of the outbound topics that the job creates."""
    with_history = flow.max_body_bytes + max(HISTORY_ROOM_BYTES, header_room_bytes(flow))
    return max(with_history, kafka.max_message_bytes) + ECHO_ROOM_BYTES
