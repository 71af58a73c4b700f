"""Everything that can happen, and the columns it is written to.

A batch's events are kept as columns: one list append a column and event is what the fold can
afford, and it is what Arrow wants. The sequence number of an event is `first_seq` plus its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from streaming.broker.dead_letters.dead_lettering import DeathPlan
    from streaming.broker.message import Copy, Envelope, Message


class Kind(IntEnum):
    """What an event says. Numbers are stored in tables of users: append only."""

    ENQUEUED = 1  # a copy was born: by a publish, or by the death of its parent
    DELIVERED = 2  # ready -> unacked; number: earlier returns
    CONSUMED = 3  # handed out with automatic ack, gone
    ACKED = 4
    REQUEUED = 5  # unacked -> ready; number: its position now
    DIED = 6  # left its queue by rejection, expiry, length or delivery limit; see dead_letters
    HELD = 7  # died, kept by at-least-once dead-lettering until every target accepts
    PURGED = 8
    DELETED = 9  # lost with its queue: deleted, expired or auto-deleted
    REROUTED = 10  # rejected or orphaned into its queue's own alternate exchange (R-QPID-1)
    REFUSED = 11  # a full queue refused a publish, or a dead letter (R-LEN-8, R-LEN-12)
    UNROUTABLE = 12  # a publish reached no queue and was dropped
    RETURNED = 13  # a publish reached no queue and went back to its publisher
    PUBLISH_ERROR = 14  # a publish refused with a channel error
    COMMAND_ERROR = 15
    TOPOLOGY = 16  # declared, deleted, bound, unbound, policy or permission changed
    CHANNEL = 17  # opened, closed, consumer started or cancelled
    WARNING = 18
    SETTLE_MISSED = 19  # a settlement of something not unacked: changes nothing


ENQUEUED: Final = 1
DELIVERED: Final = 2
CONSUMED: Final = 3
DIED: Final = 6
"""What nearly all events are, as plain integers: members of an enum take longer to get at."""

ENDINGS = frozenset(
    {Kind.CONSUMED, Kind.ACKED, Kind.DIED, Kind.PURGED, Kind.DELETED, Kind.REROUTED}
)
"""The events that end a copy's life in its queue."""


class Event(NamedTuple):
    """One event, read back from the columns."""

    seq: int
    at_ms: int
    kind: Kind
    queue: str
    copy: Copy | None
    number: int
    user: str | None
    channel: str
    detail: dict[str, Any] | None


class Actor(NamedTuple):
    """Who caused what follows: the user of the input (None: the operator) and the channel."""

    user: str | None
    channel: str


CLOCK = Actor(None, "")
"""Caused by time alone."""


class Events:
    """The events of one batch, in order."""

    __slots__ = (
        "actors",
        "copies",
        "cut_deaths",
        "death_plans",
        "death_rows",
        "details",
        "first_seq",
        "kinds",
        "messages",
        "numbers",
        "queues",
        "receivers",
        "refused_deaths",
        "times",
    )

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.kinds: list[int] = []
        self.queues: list[str] = []
        self.copies: list[Copy | None] = []
        self.numbers: list[int] = []
        self.times: list[tuple[int, int]] = []  # (row, at_ms): from this row on
        self.actors: list[tuple[int, Actor]] = []  # (row, actor): from this row on
        self.receivers: dict[int, Actor] = {}  # row -> its actor, for this row alone
        self.details: dict[int, dict[str, Any]] = {}
        self.messages: dict[int, tuple[Message, Envelope | None]] = {}  # rows without a copy
        self.death_rows: list[int] = []
        self.death_plans: list[DeathPlan] = []
        self.refused_deaths: dict[int, list[str]] = {}  # row of a death -> targets that were full
        self.cut_deaths: dict[
            int, tuple[DeathPlan, str]
        ] = {}  # row -> what was left of its plan, why

    def __len__(self) -> int:
        return len(self.kinds)

    def add(
        self,
        kind: int,
        queue: str = "",
        copy: Copy | None = None,
        number: int = 0,
        detail: dict[str, Any] | None = None,
    ) -> int:
        """Append one event; returns its row."""
        row = len(self.kinds)
        self.kinds.append(kind)
        self.queues.append(queue)
        self.copies.append(copy)
        self.numbers.append(number)
        if detail is not None:
            self.details[row] = detail
        return row

    def replace_plan(self, row: int, plan: DeathPlan, why: str) -> None:
        """Note that a death could not be carried out as planned."""
        self.cut_deaths[row] = (plan, why)

    def deaths(self) -> Iterator[tuple[int, Copy, str, DeathPlan, str, tuple[str, ...]]]:
        """The deaths: row, copy, queue, plan, outcome (empty if it went well), where it arrived."""
        for row, planned in zip(self.death_rows, self.death_plans, strict=True):
            plan, outcome = self.cut_deaths.get(row, (planned, planned.outcome))
            refused = self.refused_deaths.get(row, ())
            targets = tuple(queue.name for queue in plan.targets if queue.name not in refused)
            if refused and not targets:
                outcome = "refused"
            copy = self.copies[row]
            assert copy is not None
            yield row, copy, self.queues[row], plan, outcome, targets

    def rows(self) -> Iterator[Event]:
        """The events one by one (for tests, stories and small batches)."""
        times = dict(self.times)
        actors = dict(self.actors)
        at_ms, actor = 0, CLOCK
        columns = zip(self.kinds, self.queues, self.copies, self.numbers, strict=True)
        for row, (kind, queue, copy, number) in enumerate(columns):
            at_ms = times.get(row, at_ms)
            actor = actors.get(row, actor)
            by = self.receivers.get(row, actor)
            yield Event(
                self.first_seq + row,
                at_ms,
                Kind(kind),
                queue,
                copy,
                number,
                by.user,
                by.channel,
                self.details.get(row),
            )
