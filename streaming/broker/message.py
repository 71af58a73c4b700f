"""What a message is inside the broker.

    Publication  what a publisher sent: exchange, routing key, properties, headers; shared by
    equal publishes Message      the body's identity, size and place; one a Kafka record, never
    changed Envelope     where the message was last published to, its properties and its deaths;
    shared by alike copies Copy         one message in one queue

A hop to a dead-letter exchange makes a new envelope and new copies; the message stays. Bodies never
come here: `body_file` and `body_row` say where to look one up.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

NEVER: Final = 1 << 62
"""The deadline of a copy that does not expire, epoch milliseconds."""

NO_COPY: Final = -1
"""The parent of a copy that a publish made."""


class Message(msgspec.Struct, array_like=True, gc=False, eq=False):
    """One published Kafka record: `topic_number, partition, offset` is its identity.

    `body_file` and `body_row` locate the body in the message store; `size` is its length in bytes.
    """

    topic_number: int
    partition: int
    offset: int
    body_file: int
    body_row: int
    size: int


class Publication(msgspec.Struct, array_like=True, gc=False, eq=False):
    """What a publisher asked for, before validation. Compared by identity: intern equal ones.

    `foreign` are headers of the Kafka record that are not ours: headers exchanges see them, and
    they stay with the body.
    """

    exchange: str
    routing_key: str
    properties: dict[str, Any] = {}
    headers: dict[str, Any] | None = None
    foreign: dict[str, Any] | None = None


class Death(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One entry of `x-death` (R-DEATH-1). `time_s` is in epoch seconds, of the first such death.

    `given` holds an entry that a client supplied and compat 3.10 trusts, whole (R-DEATH-8).
    """

    count: int
    reason: str
    queue: str
    time_s: int
    exchange: str
    routing_keys: tuple[str, ...]
    original_expiration: str | None = None
    given: dict[str, Any] | None = None


class DeathNote(NamedTuple):
    """What the `x-first-death-*` and `x-last-death-*` headers say (R-DEATH-7)."""

    reason: str
    queue: str
    exchange: str


class Envelope:
    """All that routing and dead-lettering look at. Never changed once made; compared by identity.

    Attributes:
        exchange: the exchange last published (or dead-lettered) to.
        routing_keys: the key, then CC, then BCC keys (R-MSG-1).
        bcc: the BCC keys again, to leave them out of death records (R-DEATH-2).
        properties: AMQP basic properties but for `expiration` and the headers.
        headers: the client's, without BCC; None (absent) and empty differ.
        expiration: the property as it will be delivered, canonical decimal text.
        ttl_ms: the same as a number.
        priority: the property, 0 when missing.
        deaths: newest first.
        rerouted: went to a queue's alternate exchange once (R-QPID-5).
        foreign: headers of the Kafka record that are not ours, for matching only.
        at_rest: its bytes in the state, once it was written there (`encoding.py`).
    """

    __slots__ = (
        "at_rest",
        "bcc",
        "deaths",
        "exchange",
        "expiration",
        "first_death",
        "foreign",
        "headers",
        "last_death",
        "priority",
        "properties",
        "rerouted",
        "routing_keys",
        "ttl_ms",
    )

    def __init__(
        self,
        exchange: str,
        routing_keys: tuple[str, ...],
        bcc: tuple[str, ...] = (),
        properties: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        expiration: str | None = None,
        ttl_ms: int | None = None,
        priority: int = 0,
        deaths: tuple[Death, ...] = (),
        first_death: DeathNote | None = None,
        last_death: DeathNote | None = None,
        rerouted: bool = False,  # noqa: FBT001, FBT002 - as its field
        foreign: dict[str, Any] | None = None,
    ) -> None:
        self.exchange = exchange
        self.routing_keys = routing_keys
        self.bcc = bcc
        self.properties = properties or {}
        self.headers = headers
        self.expiration = expiration
        self.ttl_ms = ttl_ms
        self.priority = priority
        self.deaths = deaths
        self.first_death = first_death
        self.last_death = last_death
        self.rerouted = rerouted
        self.foreign = foreign
        self.at_rest: bytes | None = None


class Copy(msgspec.Struct, array_like=True, gc=False, eq=False):
    """One message in one queue.

    `copy_id` is the sequence number of the event that enqueued it; `parent_copy_id` the copy whose
    death made it. `position` orders it in its queue. `returns` counts how often it came back.
    `failures` counts, on 4.0, the rejections and lost channels in quorum queues that it and the
    copies before it went through; a quorum queue shows it until the first return (R-DLV-7).
    """

    copy_id: int
    message: Message
    envelope: Envelope
    position: int
    deadline_ms: int
    parent_copy_id: int
    returns: int = 0
    failures: int = 0
