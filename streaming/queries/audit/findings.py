"""What the balance cannot explain, and the clues that name the message.

A missing event leaves a gap in the dense numbers of its shard; whom it was about, others must tell.
A *clue* is such a testimony: of one number exactly, or of some number within bounds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from streaming.contents.query import CONTENTS
from streaming.queries.audit.ledger_rows import Shard
from streaming.queries.message_id import MessageId

What = Literal[
    "missing event",
    "missing message",
    "missing dead letter",
    "missing batch row",
    "missing row",
    "missing row of queue_contents",
    "stray row of queue_contents",
    "wrong row of queue_contents",
    "repeated row",
    "contradiction",
]

MOST_NAMED: Final = 1000
"""Gaps are named one by one up to so many; more are counted."""


REBUILD: Final = f"; `dlx tables rebuild` makes {CONTENTS} anew from events"
"""What to do where that table alone is at odds with the others."""


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it must be.

    Attributes:
        count: how many rows it is about; all that `why` does not name are alike.
        why: how it is known, in words.
        table: where the rows should be, for findings that name none.
    """

    what: What
    vhost: str | None
    lane: int | None
    why: str
    seq: int | None = None
    copy_id: int | None = None
    queue: str | None = None
    message_id: str | None = None
    count: int = 1
    table: str | None = None

    def __str__(self) -> str:
        """In one line: what, about which message, where, and how it is known."""
        what = self.what if self.count == 1 else f"{self.count} times {self.what}"
        place = []
        if self.message_id is not None:
            place.append(f"message {self.message_id}")
        if self.queue is not None:
            place.append(f"queue {self.queue!r}")
        if self.vhost is not None:
            place.append(f"vhost {self.vhost!r}")
        if self.lane:
            place.append(f"lane {self.lane}")
        if self.seq is not None:
            place.append(f"seq {self.seq}")
        return f"{what}: {', '.join([*place, self.why])}"


class Clue(NamedTuple):
    """What tells of an event that is not there.

    Attributes:
        after, before: its seq lies between these, both not included; `before` None: open.
        seq: its seq, where that is known.
        alone: what it means where no number is missing.
    """

    shard: int
    why: str
    message_id: MessageId | None
    queue: str | None
    copy_id: int | None
    seq: int | None = None
    after: int = 0
    before: int | None = None
    alone: What = "missing event"


class Gap(NamedTuple):
    """Numbers of a shard that no event has, both ends included.

    Attributes:
        neighbours: the events on both sides, in words.
    """

    shard: int
    first: int
    last: int
    neighbours: str


def explain(
    gaps: Sequence[Gap], clues: Iterable[Clue], shards: Mapping[int, Shard]
) -> list[Finding]:
    """Bring gaps and clues together: a finding a missing event, named by the best clue there is."""
    missing = _Missing(gaps)
    testimony = list(clues)
    left = {
        (clue.shard, clue.seq): clue
        for clue in reversed(testimony)
        if clue.seq is not None and not missing.settle(clue, clue.seq)
    }
    findings = [_alone(clue, shards) for clue in reversed(left.values())]
    named = {
        pair
        for clue in missing.clues.values()
        for pair in ((clue.message_id, clue.queue), (clue.message_id, None))
    }
    loose = [clue for clue in testimony if clue.seq is None]
    for clue in sorted(loose, key=lambda clue: (clue.shard, clue.before is None, clue.after)):
        if clue.copy_id is None and (clue.message_id, clue.queue) in named:
            continue  # an exact clue told of the same copy
        if not missing.settle(clue, missing.free(clue)) and not missing.tells_of(clue):
            findings.append(_alone(clue, shards))
    return [*missing.findings(shards), *findings]


class _Missing:
    """The missing numbers, and which are spoken for."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        self._gaps = gaps
        self.clues: dict[tuple[int, int], Clue] = {}
        self._numbers = {
            (gap.shard, seq)
            for gap in gaps
            for seq in range(gap.first, min(gap.last, gap.first + MOST_NAMED) + 1)
        }

    def settle(self, clue: Clue, seq: int | None) -> bool:
        """Let a clue speak for a number, if that is missing."""
        if seq is None or (clue.shard, seq) not in self._numbers:
            return False
        self.clues.setdefault((clue.shard, seq), clue)
        return True

    def tells_of(self, clue: Clue) -> bool:
        """Whether the copy that a clue is about was told of."""
        return any(
            (known.shard, known.copy_id) == (clue.shard, clue.copy_id)
            for known in self.clues.values()
        )

    def free(self, clue: Clue) -> int | None:
        """The first number within a clue's bounds that nobody spoke for."""
        free = (
            seq
            for shard, seq in self._numbers
            if shard == clue.shard
            and seq > clue.after
            and (clue.before is None or seq < clue.before)
            and (shard, seq) not in self.clues
        )
        return min(free, default=None)

    def findings(self, shards: Mapping[int, Shard]) -> Iterable[Finding]:
        """One for each number that is spoken for, one for each run of the others."""
        for gap in self._gaps:
            vhost, lane = shards[gap.shard]
            told = sorted(
                seq
                for shard, seq in self.clues
                if shard == gap.shard and gap.first <= seq <= gap.last
            )
            for seq in told:
                clue = self.clues[gap.shard, seq]
                yield Finding(
                    "missing event",
                    vhost,
                    lane,
                    clue.why,
                    seq,
                    clue.copy_id,
                    clue.queue,
                    _name(clue.message_id),
                )
            rest = gap.last - gap.first + 1 - len(told)
            if rest:
                yield Finding("missing event", vhost, lane, gap.neighbours, gap.first, count=rest)


def _alone(clue: Clue, shards: Mapping[int, Shard]) -> Finding:
    vhost, lane = shards[clue.shard]
    return Finding(
        clue.alone,
        vhost,
        lane,
        f"{clue.why}{REBUILD}" if clue.alone.endswith(CONTENTS) else clue.why,
        clue.seq,
        clue.copy_id,
        clue.queue,
        _name(clue.message_id),
    )


def _name(message_id: MessageId | None) -> str | None:
    return None if message_id is None else str(message_id)


_TABLE_OF: Final[Mapping[What, str]] = {
    "missing event": "events",
    "missing message": "messages",
    "missing dead letter": "dead_letters",
}


def not_told(general: Iterable[Finding], particular: Sequence[Finding]) -> list[Finding]:
    """What the findings about whole batches say beyond those that name rows."""
    named = Counter[str]()
    for finding in particular:
        named[_TABLE_OF.get(finding.what, finding.what)] += finding.count
    explained = named["events"] > 0  # whatever is missing explains other numbers of copies
    kept: list[Finding] = []
    for finding in general:
        if finding.what == "contradiction" and explained:
            continue
        same = finding.table or "" if finding.what == "missing row" else finding.what
        known = min(named[same], finding.count)
        named[same] -= known
        if known < finding.count:
            kept.append(msgspec.structs.replace(finding, count=finding.count - known))
    return kept
