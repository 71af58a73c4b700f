"""The layout of redrives in the stored state; see `schema.py` for the rest of the state.

OpenRecord       one per open redrive, all in one entry
ChunkRecord      sealed letters that are not handled yet, as they came in one command
ClosedRecord     one per redrive that ended: the same id never moves anything again
"""

from __future__ import annotations

from typing import Final

import msgspec

from streaming.broker.commands import Letter, RedriveOptions

RECEIVING: Final = "receiving"
RUNNING: Final = "running"
PAUSED: Final = "paused"
STOPPED: Final = "stopped"
FINISHED: Final = "finished"
CANCELLED: Final = "cancelled"


class OpenRecord(msgspec.Struct, array_like=True):
    """An open redrive on one lane.

    Attributes:
        number: sequence number of the event that opened it: its place in the state.
        total, received: sealed letters, of all lanes: in the plan, and those that have arrived.
        chunks: numbers of the chunks that still have letters, and how many each has.
        next_ms, moved_at_ms: the next tick, and the last; epoch milliseconds.
        credit: what the rate allows at once: thousandths of letters, times the lanes.
        moved, skipped, parked: letters by what became of them on this lane.
        acked, died, removed: moved letters by their fate; only counted while they are followed.
        excused: deaths before the redrive was resumed, which the stop rule forgives.
        trusted: whether the canary has passed.
        following: copies whose fate is not known yet.
    """

    id: str
    number: int
    user: str | None
    reason: str
    seal: str
    options: RedriveOptions
    total: int
    received: int = 0
    chunks: list[tuple[int, int]] = []
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

    def left(self) -> int:
        """How many letters are not handled yet."""
        return sum(letters for _, letters in self.chunks)

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
