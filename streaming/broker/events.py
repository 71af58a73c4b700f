"""Everything that can happen, and the columns it is recorded in.

The events of a batch are kept as columns: one list append per column and event is what the fold can
afford, and columns are what Arrow needs. The sequence number of an event is `first_seq` plus its
row.
"""

from collections.abc import Iterator
from enum import IntEnum
from itertools import count
from typing import Any, Final, NamedTuple

from streaming.broker.message import Copy, Envelope, Message


class Kind(IntEnum):
    """What an event says. The numbers are stored in users' tables: append only."""

    ENQUEUED = 1  # a copy entered a queue: by a publish, or by the death of its parent
    DELIVERED = 2  # a ready copy became unacked; `number`: how often it was requeued before
    CONSUMED = 3  # a ready copy was delivered with automatic ack, and left its queue
    ACKED = 4  # an unacked copy was acknowledged, and left its queue
    REQUEUED = 5  # an unacked copy became ready again; in the table, `number`: its returns so far
    DIED = 6  # left its queue: rejected, expired, or over a length or delivery limit (`reason`)
    HELD = 7  # died, but at-least-once dead-lettering keeps it until every target accepts it
    PURGED = 8  # removed by a purge of its queue
    DELETED = 9  # deleted with its queue, which was deleted, expired or auto-deleted
    REROUTED = 10  # rejected or orphaned into its queue's own alternate exchange (R-QPID-1)
    REFUSED = 11  # a full queue refused a publish or a dead letter (R-LEN-8, R-LEN-12)
    UNROUTABLE = 12  # no queue took a publish
    RETURNED = 13  # no queue took a publish, and it went back to its publisher; `number`: the code
    PUBLISH_ERROR = 14  # a publish was refused with a channel error; `detail`: its code and text
    COMMAND_ERROR = 15  # a command was refused with a channel error; `detail`: its code and text
    TOPOLOGY = 16  # something was declared, deleted, bound or unbound, or a policy or right changed
    CHANNEL = 17  # a channel was opened or closed, or a consumer started or was cancelled
    WARNING = 18  # something that an operator should know; `detail` says what
    SETTLE_MISSED = 19  # a settlement of something that is not unacked: it changed nothing
    REDRIVEN = 20  # a redrive moved it: it left its queue for `targets`; `number`: how often now
    DISCARDED = 21  # a discard removed it from its queue; it can be restored
    REPUBLISHED = 22  # a copy that had left its queue earlier was published again to `targets`
    SKIPPED = 23  # a sealed letter of a redrive stays where it is; `reason` says why
    REDRIVE = 24  # a redrive was requested, started, paused, resumed, stopped, cancelled or ended
    EDITED = 25  # an editor stored a new version of a letter; a redrive puts it into a queue
    VOID = 26  # a publish in the log of a sequenced vhost: its writer or channel had ended


ENQUEUED: Final = 1
DELIVERED: Final = 2
CONSUMED: Final = 3
DIED: Final = 6
"""The kinds of nearly all events as plain integers: enum members take longer to access."""

ENDINGS = frozenset(
    {
        Kind.CONSUMED,
        Kind.ACKED,
        Kind.DIED,
        Kind.PURGED,
        Kind.DELETED,
        Kind.REROUTED,
        Kind.REDRIVEN,
        Kind.DISCARDED,
    }
)
"""The events that end a copy's life in its queue."""

ENDING_KINDS: Final = frozenset(int(kind) for kind in ENDINGS)
"""The same as plain integers, as the columns of events have them."""


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


COPIED_CHANNEL: Final = "kafka:"
"""In a sequenced vhost, names of channels begin with it whose records were copied from inputs into
the log. Those of AMQP's clients begin with an address."""


class Actor(NamedTuple):
    """Who caused an event: the user of the input (None: the operator) and the channel."""

    user: str | None
    channel: str

    @property
    def is_copied(self) -> bool:
        """Whether it is a channel of copied records, which need not be open."""
        return self.channel.startswith(COPIED_CHANNEL)


CLOCK = Actor(None, "")
"""The actor of everything that time alone causes."""


class Moves(NamedTuple):
    """Offsets of the messages whose copies moved; one for each copy.

    Attributes:
        entered: they entered queues.
        left: they left them for good.
        died: they died on arrival, and were never in their queues.
    """

    entered: list[int]
    left: list[int]
    died: list[int]


class DeathOutcome:
    """What became of a death; deaths that are alike share one.

    Attributes:
        reason: why the copy died; `rejected` or `orphaned` if it was rerouted.
        envelope: the message as its dead letters carry it.
        targets: names of the queues that accepted a dead letter.
        outcome: why there is none or not every one: `no_exchange`, `no_route`, `cycle`,
            `rerouted_before`, `cascade_limit`, `strategy_changed` or `refused`; else empty.
        cycles: targets that the cycle rule excluded (R-CYC-1).
        refused: targets that were full and refused it.
    """

    __slots__ = ("cycles", "envelope", "outcome", "reason", "refused", "targets")

    def __init__(
        self,
        reason: str,
        envelope: Envelope,
        targets: tuple[str, ...],
        outcome: str,
        cycles: tuple[str, ...],
        refused: tuple[str, ...] = (),
    ) -> None:
        self.reason = reason
        self.envelope = envelope
        self.targets = targets
        self.outcome = outcome
        self.cycles = cycles
        self.refused = refused


PENDING: Final = DeathOutcome("", Envelope("", ("",)), (), "", ())
"""The outcome of a death that is not planned yet; no event keeps it beyond its step."""


class Events:
    """The events of one batch, in order."""

    __slots__ = (
        "actors",
        "copies",
        "death_outcomes",
        "death_rows",
        "details",
        "first_seq",
        "kinds",
        "messages",
        "numbers",
        "queues",
        "receivers",
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
        self.death_outcomes: list[DeathOutcome] = []  # one per row in `death_rows`

    def __len__(self) -> int:
        return len(self.kinds)

    def take(self, now_ms: int, actor: Actor) -> "Events":
        """Remove and return the events so far; this object goes on with the next number."""
        taken = Events(self.first_seq)
        taken.kinds, self.kinds = self.kinds, []
        taken.queues, self.queues = self.queues, []
        taken.copies, self.copies = self.copies, []
        taken.numbers, self.numbers = self.numbers, []
        taken.times, self.times = self.times, [(0, now_ms)]
        taken.actors, self.actors = self.actors, [(0, actor)]
        taken.receivers, self.receivers = self.receivers, {}
        taken.details, self.details = self.details, {}
        taken.messages, self.messages = self.messages, {}
        taken.death_rows, self.death_rows = self.death_rows, []
        taken.death_outcomes, self.death_outcomes = self.death_outcomes, []
        self.first_seq = taken.next_seq
        return taken

    @property
    def next_seq(self) -> int:
        """The sequence number of the next event."""
        return self.first_seq + len(self.kinds)

    def add(
        self,
        kind: int,
        queue: str = "",
        copy: Copy | None = None,
        number: int = 0,
        detail: dict[str, Any] | None = None,
    ) -> int:
        """Append one event; return its row."""
        row = len(self.kinds)
        self.kinds.append(kind)
        self.queues.append(queue)
        self.copies.append(copy)
        self.numbers.append(number)
        if detail is not None:
            self.details[row] = detail
        return row

    def add_all(self, kind: int, queue: str, copies: list[Copy]) -> None:
        """Append an event for each of several copies of a queue."""
        count = len(copies)
        self.kinds += [kind] * count
        self.queues += [queue] * count
        self.copies += copies
        self.numbers += [0] * count

    def add_death(self, kind: int, queue: str, copy: Copy, outcome: DeathOutcome = PENDING) -> int:
        """Append a death; return its index in `death_outcomes`, to set the outcome later."""
        kinds = self.kinds
        rows = self.death_rows
        index = len(rows)
        rows.append(len(kinds))
        kinds.append(kind)
        self.queues.append(queue)
        self.copies.append(copy)
        self.numbers.append(0)
        self.death_outcomes.append(outcome)
        return index

    def add_refused(self, queue: str, message: Message, envelope: Envelope) -> None:
        """Record that a full queue refused a message."""
        self.messages[self.add(Kind.REFUSED, queue)] = (message, envelope)

    def deaths(self) -> Iterator[tuple[int, Copy, str, DeathOutcome, str, tuple[str, ...]]]:
        """Yield the deaths: row, copy, queue, outcome, and the outcome's text and targets."""
        for row, outcome in zip(self.death_rows, self.death_outcomes, strict=True):
            copy = self.copies[row]
            assert copy is not None
            yield row, copy, self.queues[row], outcome, outcome.outcome, outcome.targets

    def moves(self) -> Moves:
        """What moved into queues and out of them."""
        moves = Moves([], [], [])
        for seq, kind, copy in zip(count(self.first_seq), self.kinds, self.copies, strict=False):
            if copy is None:
                continue
            if kind == ENQUEUED:
                moves.entered.append(copy.message.offset)
            elif kind in ENDING_KINDS:
                (moves.left if copy.copy_id != seq else moves.died).append(copy.message.offset)
        return moves

    def rows(self) -> Iterator[Event]:
        """Yield the events one by one (for tests, stories and small batches)."""
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
