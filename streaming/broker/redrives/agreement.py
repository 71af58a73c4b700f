"""What the lanes of a vhost decide together about a redrive: canary, stop rules, its end.

    lane 0 --note--+
    lane 1 --note--+--> agreed --verdict--> the log --> every lane, in the same order
    lane 2 --note--+

Lanes do not talk to each other: each notes how far it has come, whoever sees the notes of all lanes
writes the verdict into the log as a command, and all lanes carry it out at the same place of the
log. A redrive on a single lane decides by the same rules at once.

A verdict names the round that it ends. A verdict or a resume begins the next one, so a verdict that
comes twice, or too late, changes nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from streaming.broker.commands import RedriveVerdict, VerdictWord
from streaming.broker.redrive_letters import RedriveOptions
from streaming.broker.redrives.records import RUNNING

TRUST: Final = "trust"
SHARE: Final = "share"
STOP: Final = "stop"
FINISH: Final = "finish"

MIN_FATES: Final = 10
"""Letters whose fate must be known before a share of them stops a redrive."""


class LaneNote(msgspec.Struct, frozen=True, array_like=True):
    """How far a redrive has come on one lane; see `OpenRecord`.

    Attributes:
        left: letters that are not handled yet.
        following: moved letters whose fate is not known yet.
        opened_by: topic number and partition of the record that opened it; None: not known.
    """

    id: str
    user: str | None
    options: RedriveOptions
    round: int
    status: str
    trusted: bool
    share: int
    left: int
    moved: int
    following: int
    acked: int
    died: int
    removed: int
    excused: int
    opened_by: tuple[int, int] | None = None


def verdicts(lanes: Sequence[Iterable[LaneNote]]) -> Iterator[tuple[LaneNote, RedriveVerdict]]:
    """Yield what the lanes of a vhost agree on, in the order in which the redrives were opened.

    Args:
        lanes: the notes of each lane, the home lane first.

    Yields:
        The note of the home lane, and what is to happen.
    """
    by_lane = [{note.id: note for note in notes} for notes in lanes]
    known = set.intersection(*map(set, by_lane))
    for redrive_id in [one for one in by_lane[0] if one in known]:
        notes = [on_lane[redrive_id] for on_lane in by_lane]
        verdict = agreed(notes)
        if verdict is not None:
            yield notes[0], verdict


def agreed(notes: Sequence[LaneNote]) -> RedriveVerdict | None:
    """What the lanes of a redrive do next, all of them; None: they go on.

    Args:
        notes: one of each lane, the home lane first.
    """
    first = notes[0]
    if any((note.status, note.round) != (RUNNING, first.round) for note in notes):
        return None
    reason = _stop_reason(notes)
    if reason:
        return _verdict(first, STOP, reason)
    left = sum(note.left for note in notes)
    if not left:
        return _verdict(first, FINISH)
    canary = first.options.canary
    if not canary or first.trusted or any(map(_is_pending, notes)):
        return None
    missing = canary - sum(note.moved for note in notes)
    if missing > 0:  # letters of the canary were skipped: others take their place
        lane = next(lane for lane, note in enumerate(notes) if note.left)
        return _verdict(first, SHARE, lane=lane, share=min(missing, notes[lane].left))
    return _verdict(first, TRUST)


def _verdict(
    note: LaneNote,
    verdict: VerdictWord,
    reason: str = "",
    *,
    lane: int | None = None,
    share: int = 0,
) -> RedriveVerdict:
    return RedriveVerdict(
        id=note.id, round=note.round, verdict=verdict, reason=reason, lane=lane, share=share
    )


def _is_pending(note: LaneNote) -> bool:
    """Whether letters of the canary have not moved yet, or are not settled."""
    return bool(note.following) or (note.left > 0 and note.moved < note.share)


def _stop_reason(notes: Sequence[LaneNote]) -> str:
    """Why the redrive stops; empty if it goes on."""
    options = notes[0].options
    died = sum(note.died - note.excused for note in notes)
    if options.canary and not notes[0].trusted and died and not any(map(_is_pending, notes)):
        return "canary"
    if options.stop_after is not None and died >= options.stop_after:
        return "stop_after"
    known = died + sum(note.acked + note.removed for note in notes)
    if (
        options.stop_percent is not None
        and known >= MIN_FATES
        and died * 100 >= options.stop_percent * known
    ):
        return "stop_percent"
    return ""
