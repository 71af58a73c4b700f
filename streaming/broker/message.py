"""A message inside the broker, as four values.

    Publication   what of a publish decides what becomes of it; equal ones share one
    Message       the identity, size and location of a body; one per Kafka record, never changed
    Envelope      where the message was last published to, what limits its life, and its deaths;
                  copies that are alike share one
    Copy          one message in one queue

A hop to a dead-letter exchange makes a new envelope and new copies; the message stays the same.

What the broker does not look at never enters it: `body_file` and `body_row` locate body, properties
and headers (D12). Only headers exchanges look at headers: a `PublishedPort` reads them then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

NEVER: Final = 1 << 62
"""The deadline of a copy that does not expire, epoch milliseconds."""

MANDATORY, IMMEDIATE, CONFIRM = 1, 2, 4
"""Flags of a publish."""

AWAY = 8
"""The flag of a publish that another lane has, as the home lane sees it (`lanes`)."""

NO_COPY: Final = -1
"""The parent of a copy that came from a publish."""

Routed = tuple[tuple[str, int], ...]
"""The queues that a publish in a transaction is for, by name and number (R-TX-2)."""

ANY_QUEUE: Final = -1
"""In place of a queue's number: whatever queue has the name when the transaction is committed."""


MAX_PRIORITY: Final = 255
"""AMQP gives the priority of a message one byte."""

X_DEATH: Final = "x-death"
BROKER_HEADERS: Final = ("CC", "BCC", X_DEATH)
"""The headers that the broker itself looks at; `x-death` only with compat 3.10 (R-DEATH-8)."""


NO_FILE: Final = -1
"""The file of a body that is found by its message's key."""


class Message(msgspec.Struct, array_like=True, gc=False, eq=False):
    """One published Kafka record: `topic_number, partition, offset` is its identity.

    `body_file` and `body_row` locate its row in `messages`; `size` is the body's length in bytes.
    """

    topic_number: int
    partition: int
    offset: int
    body_file: int
    body_row: int
    size: int


class Publication(msgspec.Struct, array_like=True, gc=False, eq=False):
    """What decides what becomes of a publish. Compared by identity: intern equal ones.

    Attributes:
        expiration, priority: the properties, as sent.
        headers: those of BROKER_HEADERS that the publisher sent; None if there are none.
        user_id: the property, where it has to be the user who publishes (R-USER-1).
        routed: it was checked and routed before, in a transaction; None: it was not.
    """

    exchange: str
    routing_key: str
    expiration: str | None = None
    priority: int | None = None
    headers: dict[str, Any] | None = None
    user_id: str | None = None
    routed: Routed | None = None


def publication_of(
    exchange: str,
    routing_key: str,
    properties: dict[str, Any],
    headers: dict[str, Any] | None,
) -> Publication:
    """The part of a publish that the broker looks at."""
    seen: dict[str, Any] = {}
    for name in BROKER_HEADERS:
        if headers is not None and name in headers:
            seen[name] = headers[name]
    expiration, priority = properties.get("expiration"), properties.get("priority")
    return Publication(exchange, routing_key, expiration, priority, seen or None)


class PublishedHeaders(NamedTuple):
    """The headers of a message as it was published.

    Attributes:
        headers: the AMQP table; None (absent) and empty differ.
        kafka_headers: headers of the Kafka record that are not ours.
    """

    headers: dict[str, Any] | None
    kafka_headers: dict[str, Any] | None = None


PublishedPort = Callable[[Message], PublishedHeaders]
"""Reads the published headers of a message; the answer never changes.

Raises LookupError if there is no such message, as only a stored letter (`commands`) can name it.
"""


class Death(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One entry of `x-death` (R-DEATH-1). `time_s` is in epoch seconds, of the first such death.

    `given` holds the whole entry if a client supplied it and compat 3.10 trusts it (R-DEATH-8).
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
    """The values of the `x-first-death-*` or `x-last-death-*` headers (R-DEATH-7)."""

    reason: str
    queue: str
    exchange: str


class Envelope:
    """Everything that routing and dead-lettering look at. Immutable; compared by identity.

    A plain class, because pages store each envelope once (`encoding.py`): msgspec would encode a
    struct or a dataclass in place.

    Attributes:
        exchange: the exchange last published (or dead-lettered) to.
        routing_keys: the key, then CC, then BCC keys (R-MSG-1).
        bcc: the BCC keys again, to exclude them from death records (R-DEATH-2).
        cc: the keys of the `CC` header; None without that header.
        expiration: the property as it will be delivered, canonical decimal text.
        ttl_ms: the same as a number.
        priority: the property, 0 when missing.
        deaths: newest first.
        rerouted: whether it went to a queue's alternate exchange before (R-QPID-5).
        given_x_death: the entries of an `x-death` header that a client supplied, until the first
            death takes them over (R-DEATH-8).
        dropped: published headers that do not belong to the message any more.
        added: headers that belong to the message in addition.
        at_rest: its encoded form, once it was encoded (`encoding.py`).
    """

    __slots__ = (
        "added",
        "at_rest",
        "bcc",
        "cc",
        "deaths",
        "dropped",
        "exchange",
        "expiration",
        "first_death",
        "given_x_death",
        "last_death",
        "priority",
        "rerouted",
        "routing_keys",
        "ttl_ms",
    )

    def __init__(
        self,
        exchange: str,
        routing_keys: tuple[str, ...],
        bcc: tuple[str, ...] = (),
        cc: tuple[str, ...] | None = None,
        expiration: str | None = None,
        ttl_ms: int | None = None,
        priority: int = 0,
        deaths: tuple[Death, ...] = (),
        first_death: DeathNote | None = None,
        last_death: DeathNote | None = None,
        rerouted: bool = False,  # noqa: FBT001, FBT002 - like the field
        given_x_death: list[Any] | None = None,
        dropped: tuple[str, ...] = (),
        added: dict[str, Any] | None = None,
    ) -> None:
        self.exchange = exchange
        self.routing_keys = routing_keys
        self.bcc = bcc
        self.cc = cc
        self.expiration = expiration
        self.ttl_ms = ttl_ms
        self.priority = priority
        self.deaths = deaths
        self.first_death = first_death
        self.last_death = last_death
        self.rerouted = rerouted
        self.given_x_death = given_x_death
        self.dropped = dropped
        self.added = added
        self.at_rest: bytes | None = None

    def replace(self, **changes: Any) -> Envelope:
        """Return a copy of the envelope with these fields changed."""
        fields = {name: getattr(self, name) for name in _ENVELOPE_FIELDS}
        fields.update(changes)
        return Envelope(**fields)


_ENVELOPE_FIELDS = tuple(name for name in Envelope.__slots__ if name != "at_rest")


def no_headers_port(message: Message) -> PublishedHeaders:
    """Stand in for the port of a shard that reaches no headers exchange.

    Raises:
        LookupError: always.
    """
    raise LookupError(f"no port reads the headers of message {message.offset}")


class Copy(msgspec.Struct, array_like=True, gc=False, eq=False):
    """One message in one queue.

    `copy_id` is the sequence number of the event that enqueued it; `parent_copy_id` is the copy
    whose death made it. `position` orders it in its queue. `requeue_count` counts its requeues.
    `failures` counts, on 4.0, the rejections and lost channels in quorum queues that this copy and
    its parents went through; a quorum queue shows it until the first requeue (R-DLV-7).
    """

    copy_id: int
    message: Message
    envelope: Envelope
    position: int
    deadline_ms: int
    parent_copy_id: int
    requeue_count: int = 0
    failures: int = 0
