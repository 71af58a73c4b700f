"""What rests between batches, beside the topology: the layout of the state.

    HeaderRecord      clock, numbers, timers of groups
    QueueRecord       one a queue, in groups (`records.py`)
    ChannelRecord     one a channel, likewise
    DirectoryRecord   the names of channels
    pages             lists of Copy, Delivery or Held (`encoding.py`)

A change of anything here is a new version of the state: see `encoding.py`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from streaming.broker.message import NEVER, Copy


class PageRef(msgspec.Struct, array_like=True, gc=False):
    """A page at rest: its number in the fifo, its copies, and how many of them have left."""

    number: int
    copies: int
    taken: int = 0


class FifoRecord(msgspec.Struct, array_like=True):
    """A fifo at rest; `front` and `back` hold what is in no page, encoded."""

    next_page: int
    pages: list[PageRef]
    front: bytes | None
    back: bytes | None


class RunRecord(msgspec.Struct, array_like=True):
    """A run at rest."""

    number: int
    first: int
    last: int
    fifo: FifoRecord


class LevelRecord(msgspec.Struct, array_like=True):
    """What rests of one priority."""

    level: int
    fifo: FifoRecord | None
    returned: list[RunRecord] | None = None


class QueueRecord(msgspec.Struct, array_like=True):
    """A queue at rest."""

    next_position: int
    ready: int
    ready_bytes: int
    unacked: int
    unacked_bytes: int
    timer_ms: int
    used_at_ms: int
    expiry_timer_ms: int
    retry_timer_ms: int
    levels: list[LevelRecord]
    consumers: list[tuple[int, int]]  # channel, stream; in order of service
    waiting: list[tuple[int, int]]
    unacked_on: list[tuple[int, int]]  # channel, unacked copies there
    held: int
    held_bytes: int
    held_fifo: FifoRecord | None
    blocked: bool
    taken: int
    next_return: int
    had_consumer: bool
    owner: int
    mortal: bool


EMPTY = QueueRecord(
    *(0, 0, 0, 0, 0, NEVER, 0, NEVER, NEVER, [], [], [], []),
    *(0, 0, None, False, 0, 0, False, -1, False),
)
"""A queue nothing has happened to yet; `next_return` is set by the quorum queue itself."""


NO_QUEUE: Final = -1
"""The queue of a delivery whose queue was deleted: a mark that `multiple` may go up to."""


class Delivery(msgspec.Struct, array_like=True, gc=False, eq=False):
    """One unacked delivery. `tag` orders it in its channel; `at_ms` is when it was handed out."""

    tag: int
    number: int
    queue_number: int
    at_ms: int
    copy: Copy


class StreamRecord(msgspec.Struct, array_like=True):
    """A stream at rest."""

    number: int
    label: str
    next_number: int
    pages: list[tuple[int, int]]  # page, unacked deliveries on it
    queue_number: int = -1
    prefetch: int = 0
    auto_ack: bool = False
    active: bool = False


class ChannelRecord(msgspec.Struct, array_like=True):
    """A channel at rest."""

    user: str | None
    name: str
    next_tag: int
    next_stream: int
    streams: list[StreamRecord]
    get_labels: list[tuple[str, int, int]]  # label, first number, deliveries
    lease_ms: int | None
    used_at_ms: int
    lease_timer_ms: int
    timeout_timer_ms: int


class DirectoryRecord(msgspec.Struct, array_like=True):
    """Who has which channel."""

    next_number: int
    names: list[tuple[str | None, str, int]]


class Held(msgspec.Struct, array_like=True, gc=False, eq=False):
    """A copy in the buffer: why and when (epoch seconds) it died, and who has accepted it."""

    copy: Copy
    reason: str
    died_at_s: int
    accepted: tuple[str, ...] = ()
    held: bool = False


class HeaderRecord(msgspec.Struct, array_like=True):
    """A shard at rest."""

    now_ms: int
    next_seq: int
    topology_digest: bytes
    queue_timers: dict[int, int]
    channel_timers: dict[int, int]
    next_outbound: int
    resident_messages: int
    resident_bytes: int
    warned: list[tuple[str, str, int]]
