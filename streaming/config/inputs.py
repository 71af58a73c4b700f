"""`[[inputs]]`: the Kafka topics that the job reads, and how existing topics are mapped.

A topic of the job's own carries its wire format, whose headers say what each record is. For any
other topic, a `mapping` says how its records become publishes (`selectors`). The job never rewrites
the records of such a topic.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

import attrs

from streaming.config import types
from streaming.config.selectors import (
    FORMS,
    Selector,
    any_scalar,
    literal_text,
    name_text,
    selector,
    selectors,
    short_text,
    whole_number,
)
from topology.errors import Problem

MAX_LONG: Final = (1 << 63) - 1


def selected(
    default: str | None,
    description: str,
    kind: types.Kind,
    *,
    example: str = "",
    required: bool = False,
) -> Any:
    """A setting of a mapping: all of them change what is published."""
    return types.setting(
        default, description, kind, outcome=True, example=example, required=required
    )


_TEXT: Final = selector(short_text, may_lack=True)
_OCTET: Final = selector(whole_number(0, 255), literal=int, may_lack=True)
_SECONDS: Final = selector(whole_number(0, MAX_LONG), literal=int, may_lack=True, is_time=True)


@attrs.frozen(kw_only=True)
class TopicMapping(types.Section):
    """How the records of a foreign topic become publishes.

    The names of all settings but `exchange`, `routing_key`, `vhost` and `headers` are those of
    AMQP's basic properties.
    """

    exchange: Selector = selected(
        "",
        f"The exchange to publish to: {FORMS}. A text may contain placeholders: {{key}}, "
        "{header.NAME}, {json.PATH} or {record.FIELD}. A record that lacks the value is "
        'quarantined, unless the inline table has otherwise = "text".',
        selector(short_text),
        example='"orders"',
        required=True,
    )
    routing_key: Selector = selected(
        "",
        "The routing key, in the same forms.",
        selector(short_text),
        example='{ header = "type", otherwise = "order" }',
    )
    vhost: Selector = selected(
        "/", "The vhost, in the same forms.", selector(name_text), example='"/"'
    )
    content_type: Selector | None = selected(
        None,
        "This and the following settings are AMQP properties, in the same forms. Not set: the "
        "message has no such property. With optional = true, a record that lacks the value is "
        "published without the property.",
        _TEXT,
        example='"application/json"',
    )
    content_encoding: Selector | None = selected(
        None,
        "How the body is encoded, such as gzip.",
        _TEXT,
        example='{ header = "content-encoding", optional = true }',
    )
    delivery_mode: Selector | None = selected(
        None, "1: transient, 2: persistent.", _OCTET, example="2"
    )
    priority: Selector | None = selected(
        None,
        "The priority, from 0 to 255.",
        _OCTET,
        example='{ json = "$.priority", otherwise = 0 }',
    )
    correlation_id: Selector | None = selected(
        None,
        "What relates a reply to its request.",
        _TEXT,
        example='{ header = "correlation-id", optional = true }',
    )
    reply_to: Selector | None = selected(
        None,
        "Where replies are expected.",
        _TEXT,
        example='{ header = "reply-to", optional = true }',
    )
    expiration: Selector | None = selected(
        None, "The TTL of the message, in milliseconds.", _TEXT, example='"60000"'
    )
    message_id: Selector | None = selected(
        None,
        "The id that the publisher gave the message.",
        _TEXT,
        example='"{record.topic}/{record.offset}"',
    )
    timestamp: Selector | None = selected(
        None,
        'Epoch seconds, or a time such as "2026-11-22T14:05:00Z". unit = "ms" says that numbers '
        'are milliseconds; {record = "timestamp"} is converted by itself.',
        _SECONDS,
        example='{ record = "timestamp" }',
    )
    type: Selector | None = selected(
        None,
        "The kind of message, as the publisher calls it.",
        _TEXT,
        example='{ header = "type", optional = true }',
    )
    user_id: Selector | None = selected(
        None, "Must be the user of the input, as in RabbitMQ.", _TEXT, example='"guest"'
    )
    app_id: Selector | None = selected(
        None, "The application that published it.", _TEXT, example='"shop"'
    )
    cluster_id: Selector | None = selected(
        None, "A property of old brokers.", _TEXT, example='"eu-1"'
    )
    headers: dict[str, Selector] = types.setting(
        {},
        "AMQP headers by name, in the same forms; optional = true leaves one out. A JSON value "
        "keeps its type. The Kafka headers stay with the message in any case.",
        selectors(any_scalar),
        outcome=True,
        example='{ tenant = { header = "tenant-id" } }',
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

    @property
    def may_be_copied(self) -> bool:
        """Whether the fronts of sequenced vhosts read it: publishes of Kafka's clients are not."""
        return self.mapping is not None or self.source != "publishes"

    def may_feed(self, vhost: str) -> bool:
        """Whether its mapping can name a vhost."""
        if self.mapping is None:
            return False
        return literal_text(self.mapping.vhost) in {None, vhost}

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
