"""The life of a copy as one number: what its events add up to.

    enqueued --> ready --delivered--> unacked     ready ----> consumed, purged, died (age, length)
                   ^                     |        unacked --> acked, died or rerouted (rejected)
                   +------requeued-------+        either ---> deleted, rerouted (orphaned)
                                                  either ---> held --> died, deleted, rerouted

Each event counts in a field of its own inside one integer, so that one sum a copy tells a whole
life. The sums of possible lives are few. Any other sum means that an event is missing, or is there
twice.
"""

from enum import StrEnum
from typing import Final

from streaming.broker.events import Kind


class State(StrEnum):
    """Where a copy is."""

    READY = "ready"
    UNACKED = "unacked"
    HELD = "held"
    GONE = "gone"


BORN: Final = 1
ENDED: Final = 1 << 8
FROM_READY: Final = 1 << 16
FROM_UNACKED: Final = 1 << 24
HELD: Final = 1 << 32
LENT: Final = 1 << 40
"""Up by one when delivered, down when requeued. The fields below it hold up to 255."""

DEATHS_OF_READY: Final = ("expired", "maxlen")
DEATHS_OF_UNACKED: Final = ("rejected", "delivery_limit")

_WORTH: Final = {
    Kind.ENQUEUED: BORN,
    Kind.DELIVERED: LENT,
    Kind.REQUEUED: -LENT,
    Kind.CONSUMED: ENDED + FROM_READY,
    Kind.PURGED: ENDED + FROM_READY,
    Kind.ACKED: ENDED + FROM_UNACKED,
    Kind.DELETED: ENDED,
    Kind.HELD: HELD,
}


def _possible() -> dict[int, State]:
    lives = {BORN: State.READY, BORN + LENT: State.UNACKED}
    for lent in (0, LENT):
        lives[BORN + HELD + lent] = State.HELD
        for held in (0, HELD):
            lives[BORN + ENDED + lent + held] = State.GONE
            lives[BORN + ENDED + (FROM_UNACKED if lent else FROM_READY) + lent + held] = State.GONE
    return lives


LIVES: Final = _possible()
"""The sum of every possible life, and where the copy is."""


def worth_sql() -> str:
    """What an event of a copy adds to its life, by `kind`, `reason`, `seq` and `copy_id`.

    A message that is turned away into the dead-letter exchange is born and dies by one event.
    """
    ready = ", ".join(f"'{reason}'" for reason in DEATHS_OF_READY)
    unacked = ", ".join(f"'{reason}'" for reason in DEATHS_OF_UNACKED)
    cases = " ".join(f"WHEN '{kind.name.lower()}' THEN {worth}" for kind, worth in _WORTH.items())
    died = (
        f"{ENDED} + CASE WHEN reason IN ({ready}) THEN {FROM_READY} "
        f"WHEN reason IN ({unacked}) THEN {FROM_UNACKED} ELSE 0 END "
        f"+ CASE WHEN copy_id = seq THEN {BORN} ELSE 0 END"
    )
    rerouted = f"{ENDED} + CASE WHEN reason IN ({unacked}) THEN {FROM_UNACKED} ELSE 0 END"
    return f"CASE kind {cases} WHEN 'died' THEN {died} WHEN 'rerouted' THEN {rerouted} ELSE 0 END"
