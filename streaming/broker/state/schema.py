"""The layout of the stored state, besides the vhost.

    HeaderRecord      clock, numbers, timers of groups
    QueueRecord       one per queue, in groups (`record_groups.py`)
    ChannelRecord     one per channel, likewise
    DirectoryRecord   the names of channels
    pages             lists of Copy, Delivery or Held (`encoding.py`)

Every change here needs a new version of the state: see `encoding.py`. Fields are stored by
position, so only their order and types count.
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
    """A run of requeued copies at rest (`requeued_copies.py`)."""

    number: int
    first: int
    last: int
    fifo: FifoRecord


class LevelRecord(msgspec.Struct, array_like=True):
    """One priority of a queue at rest."""

    level: int
    fifo: FifoRecord | None
    requeued: list[RunRecord] | None = None

    def emptied(self) -> LevelRecord:
        """The same level without copies."""
        next_page = 0 if self.fifo is None else self.fifo.next_page
        return LevelRecord(self.level, FifoRecord(next_page, [], None, None))


class QueueRecord(msgspec.Struct, array_like=True):
    """A queue at rest; the defaults are those of a new queue."""

    next_position: int = 0
    ready: int = 0
    ready_bytes: int = 0
    unacked: int = 0
    unacked_bytes: int = 0
    timer_ms: int = NEVER
    used_at_ms: int = 0
    expiry_timer_ms: int = NEVER
    retry_timer_ms: int = NEVER
    levels: list[LevelRecord] = []
    consumers: list[tuple[int, int]] = []  # channel, consumer; in order of service
    waiting: list[tuple[int, int]] = []
    unacked_on: list[tuple[int, int]] = []  # channel, unacked copies there
    held: int = 0
    held_bytes: int = 0
    held_fifo: FifoRecord | None = None
    blocked: bool = False
    taken: int = 0
    next_return: int = 0
    owner: int = -1
    may_expire: bool = False
    above_soft_limit: bool = False
    active: tuple[int, int] | None = None  # the single active consumer
    ranked: bool = False  # a consumer has, or had, a priority


NO_QUEUE: Final = -1
"""The queue number in the tombstone of a delivery whose queue was deleted."""


class Delivery(msgspec.Struct, array_like=True, gc=False, eq=False):
    """One unacked delivery. `tag` counts the channel's; `at_ms` is when it was handed out."""

    tag: int
    number: int
    queue_number: int
    at_ms: int
    copy: Copy


class ConsumerRecord(msgspec.Struct, array_like=True):
    """A consumer at rest, or the gets of a channel."""

    number: int
    label: str
    next_number: int
    pages: list[tuple[int, int]]  # page, unacked deliveries on it
    queue_number: int = -1
    prefetch: int = 0
    auto_ack: bool = False
    active: bool = False
    limited: bool = False  # the limiter of the channel concerns it
    in_line: bool = False
    left_line: int = 0
    priority: int = 0
    exclusive: bool = False


class ChannelRecord(msgspec.Struct, array_like=True):
    """A channel at rest."""

    user: str | None
    name: str
    next_tag: int
    next_consumer: int
    consumers: list[ConsumerRecord]
    get_labels: list[tuple[str, int, int]]  # label, first number, deliveries
    lease_ms: int | None
    used_at_ms: int
    lease_timer_ms: int
    timeout_timer_ms: int
    connection: int = -1
    prefetch: int = 0  # of consumers that name none
    limit: int = 0  # of all its consumers together; 0: none
    volume: int = 0  # what counts towards it
    left_line: int = 0
    stopped: bool = False  # its consumers get nothing for now


class DirectoryRecord(msgspec.Struct, array_like=True):
    """The names of the open channels."""

    next_number: int
    names: list[tuple[str | None, str, int]]


class OwnersRecord(msgspec.Struct, array_like=True):
    """Connections, and the exclusive queues of these and of channels without a connection."""

    connections: list[tuple[str | None, str, int, list[int]]]  # user, name, number, channels
    queues: dict[int, list[int]]


class Held(msgspec.Struct, array_like=True, gc=False, eq=False):
    """A copy held by at-least-once dead-lettering.

    `reason` and `died_at_s` (epoch seconds) are of its death; `accepted` are the targets that have
    accepted its dead letter; `held` says that its HELD event was recorded; `cause` is what the
    consumer said that gave it up (`causes`); `asked` says that it had a target.
    """

    copy: Copy
    reason: str
    died_at_s: int
    accepted: tuple[str, ...] = ()
    held: bool = False
    cause: str | None = None
    asked: bool = False


class DetachedRecord(msgspec.Struct, array_like=True):
    """Copies of a purged or deleted queue whose events follow later (`unfinished.py`).

    `messages` and `size` are how many are left, and the bytes of their bodies.
    """

    queue_number: int
    queue_name: str
    quorum: bool
    max_priority: int | None
    levels: list[LevelRecord]
    deleted: bool  # or purged
    alternate_exchange: str | None  # of the deleted queue
    reroute_once: bool
    messages: int
    size: int


class UnfinishedRecord(msgspec.Struct, array_like=True):
    """Work that is continued later: detached copies, and the numbers of paused queues."""

    detached: list[DetachedRecord]
    paused: list[int]


class HeaderRecord(msgspec.Struct, array_like=True):
    """A shard at rest; the defaults are those of a new shard.

    Attributes:
        queue_timers, channel_timers: group of records -> earliest timer in it.
        continue_ms: when unfinished work is continued; NEVER if there is none.
        has_redrives: whether a redrive is open.
        redrive_ms: the next tick of the open redrives; NEVER if none of them waits for one.
        is_rebuilt: whether the state was built from the tables. Its channels are known, but not
            the numbers of their deliveries: the next batch closes them first.
    """

    now_ms: int = 0
    next_seq: int = 1
    topology_digest: bytes = b""
    queue_timers: dict[int, int] = {}
    channel_timers: dict[int, int] = {}
    next_outbound: int = 1
    resident_messages: int = 0
    resident_bytes: int = 0
    warned: list[tuple[str, str, int]] = []
    continue_ms: int = NEVER
    has_redrives: bool = False
    redrive_ms: int = NEVER
    is_rebuilt: bool = False
