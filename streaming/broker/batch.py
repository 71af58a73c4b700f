"""What a batch of records did to a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from streaming.broker.events import Events
    from streaming.broker.outbound import Outbound


class Batch(NamedTuple):
    """What a batch did.

    Attributes:
        first_outbound: number of the first outbound record; they go up by one.
        next_deadline_ms: the earliest timer; NEVER for none.
        now_ms: the shard's clock.
        resident_messages: ready, unacked and held copies.
        resident_bytes: their bodies.
    """

    events: Events
    outbound: list[Outbound]
    first_outbound: int
    next_deadline_ms: int
    now_ms: int
    resident_messages: int
    resident_bytes: int
