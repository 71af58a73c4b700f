"""The layout of redrives in the stored state; see `schema.py` for the rest of the state.

OpenRecord       one per open redrive, all in one entry
ChunkRecord      sealed letters that are not handled yet, as they came in one command
ClosedRecord     one per redrive that ended: the same id never moves anything again
(claims)         which open redrive has a letter that is not handled yet: see `claims.py`
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final, NamedTuple

import msgspec

from streaming.broker.redrive_letters import Letter, RedriveOptions, Target

RECEIVING: Final = "receiving"
RUNNING: Final = "running"
PAUSED: Final = "paused"
STOPPED: Final = "stopped"
FINISHED: Final = "finished"
CANCELLED: Final = "cancelled"


MAX_TARGETS: Final = 16
"""Targets that a redrive tells apart; letters of others are looked at whatever is blocked."""


class Chunk(NamedTuple):
    """A chunk that still has letters.

    Attributes:
        number: of the first of its letters, in the plan.
        letters: how many are left.
        targets: a bit for each target of them; see `OpenRecord.mask`.
    """

    number: int
    letters: int
    targets: int = 0


class OpenRecord(msgspec.Struct, array_like=True):
    """An open redrive on one lane.

    Attributes:
        number: sequence number of the event that opened it: its place in the state.
        total, received: sealed letters, of all lanes: in the plan, and those that have arrived.
        chunks: the chunks that still have letters.
        next_ms, moved_at_ms: the next tick, and the last; epoch milliseconds.
        credit: what the rate allows at once: thousandths of letters, times the lanes.
        moved, skipped, parked: letters by what became of them on this lane.
        acked, died, removed: moved letters by their fate; only counted while they are followed.
        excused: deaths before the redrive was resumed from a stop, which the stop rule forgives.
        trusted: whether the canary has passed.
        share: letters of the canary that this lane moves.
        round: how many verdicts and resumes there were; the same on all lanes.
        opened_by: topic number and partition of the record that opened it; None: not known.
        following: copies whose fate is not known yet.
        targets: the targets of its letters, up to MAX_TARGETS; the masks of chunks number them.
    """

    id: str
    number: int
    user: str | None
    reason: str
    seal: str
    options: RedriveOptions
    total: int
    received: int = 0
    chunks: list[Chunk] = []
    status: str = RECEIVING
    next_ms: int = 0
    moved_at_ms: int = 0
    credit: int = 0
    moved: int = 0
    skipped: int = 0
    parked: int = 0
    acked: int = 0
    died: int = 0
    removed: int = 0
    excused: int = 0
    trusted: bool = False
    following: set[int] = set()
    targets: list[Target | None] = []
    share: int = 0
    round: int = 0
    opened_by: tuple[int, int] | None = None

    def left(self) -> int:
        """How many letters are not handled yet."""
        return sum(chunk.letters for chunk in self.chunks)

    @property
    def is_complete(self) -> bool:
        """Whether all letters have arrived."""
        return self.received >= self.total

    def may_move(self, chunk: Chunk, blocked: Container[Target | None]) -> bool:
        """Whether a chunk may have letters of other targets than the blocked ones."""
        waiting = sum(1 << bit for bit, target in enumerate(self.targets) if target in blocked)
        return bool(chunk.targets & ~waiting)

    def mask(self, targets: Iterable[Target | None]) -> int:
        """A bit for each of these targets, which get a number if there is room; one for others."""
        mask = 0
        for target in targets:
            if target not in self.targets and len(self.targets) < MAX_TARGETS:
                self.targets.append(target)
            known = target in self.targets
            mask |= 1 << (self.targets.index(target) if known else MAX_TARGETS)
        return mask

    def follows(self) -> bool:
        """Whether a canary or a stop rule needs the fate of its letters."""
        options = self.options
        limited = options.stop_after is not None or options.stop_percent is not None
        return limited or (options.canary > 0 and not self.trusted)


class ChunkRecord(msgspec.Struct, array_like=True):
    """Letters in their sealed order."""

    letters: list[Letter]


class ClosedRecord(msgspec.Struct, array_like=True):
    """A redrive that ended on this lane."""

    seal: str
    status: str
    total: int
    moved: int
    skipped: int
    parked: int
