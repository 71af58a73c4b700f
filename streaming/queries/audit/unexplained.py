"""Findings of the balance, and the clues that name the message of a missing event.

A missing event leaves a gap in the numbers of its shard. Other rows tell which message it was
about: a *clue* is about one exact number, or about some number within bounds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from streaming.queries.as_of.contents import CONTENTS
from streaming.queries.audit.ledger_rows import Shard
from streaming.queries.message_attributes import MessageId
from topology.sentences import Sentence, joined, say

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

MAX_NAMED: Final = 1000
"""How many findings of a kind are named one by one; the others are counted."""

REBUILD: Final = say("`dlx tables rebuild` rebuilds queue_contents from events")

_WHATS: Final[Mapping[What, Sentence]] = {
    "missing event": say("missing event"),
    "missing message": say("missing message"),
    "missing dead letter": say("missing dead letter"),
    "missing batch row": say("missing batch row"),
    "missing row": say("missing row"),
    "missing row of queue_contents": say("missing row of queue_contents"),
    "stray row of queue_contents": say("stray row of queue_contents"),
    "wrong row of queue_contents": say("wrong row of queue_contents"),
    "repeated row": say("repeated row"),
    "contradiction": say("contradiction"),
}


class Finding(msgspec.Struct, frozen=True):
    """Rows that are missing, repeated or contradictory.

    Attributes:
        count: number of rows; `why` describes one of them.
        table: the table of the rows, for findings that do not name a row.
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

    @property
    def sentence(self) -> str:
        """The whole finding, for people."""
        what = _WHATS[self.what]
        if self.count != 1:
            what = say("%(what)s (%(count)s times)", what=what, count=self.count)
        place = []
        if self.message_id is not None:
            place.append(say("message %(id)s", id=self.message_id))
        if self.queue is not None:
            place.append(say("queue %(name)s", name=repr(self.queue)))
        if self.vhost is not None:
            place.append(say("vhost %(name)s", name=repr(self.vhost)))
        if self.lane:
            place.append(say("lane %(number)s", number=str(self.lane)))
        if self.seq is not None:
            place.append(say("seq %(number)s", number=str(self.seq)))
        return joined([what, joined([*place, self.why], ", ")], ": ")

    def __str__(self) -> str:
        return str(self.sentence)


class Clue(NamedTuple):
    """Evidence of a missing event.

    Attributes:
        after, before: bounds of its seq (exclusive); `before` None: no upper bound.
        alone: what the clue means if no number is missing.
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


def word(text: str | None) -> str:
    """A word of the tables, which pages translate."""
    return say(text.replace("%", "%%")) if text else ""


def event_about(seq: int, kind: str) -> Sentence:
    """Why the event that enqueued a copy must be missing: another one is about that copy."""
    return say(
        "event %(seq)s (%(kind)s) is about the copy that it enqueued", seq=str(seq), kind=word(kind)
    )


class Gap(NamedTuple):
    """A range of a shard's numbers (inclusive) that no event has."""

    shard: int
    first: int
    last: int
    neighbours: str


def explain(
    gaps: Sequence[Gap], clues: Iterable[Clue], shards: Mapping[int, Shard]
) -> list[Finding]:
    """Match gaps and clues: one finding per missing event, named by the best clue."""
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
            continue  # an exact clue is about the same copy
        if not missing.settle(clue, missing.free(clue)) and not missing.explains_copy_of(clue):
            findings.append(_alone(clue, shards))
    return [*missing.findings(shards), *findings]


class _Missing:
    """The missing numbers, and the clue that explains each."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        self._gaps = gaps
        self.clues: dict[tuple[int, int], Clue] = {}
        self._numbers = {
            (gap.shard, seq)
            for gap in gaps
            for seq in range(gap.first, min(gap.last, gap.first + MAX_NAMED) + 1)
        }

    def settle(self, clue: Clue, seq: int | None) -> bool:
        """Let a clue explain a number; return False if the number is not missing."""
        if seq is None or (clue.shard, seq) not in self._numbers:
            return False
        self.clues.setdefault((clue.shard, seq), clue)
        return True

    def explains_copy_of(self, clue: Clue) -> bool:
        return any(
            (known.shard, known.copy_id) == (clue.shard, clue.copy_id)
            for known in self.clues.values()
        )

    def free(self, clue: Clue) -> int | None:
        """The first unexplained number within a clue's bounds."""
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
        """One finding per explained number, and one per gap for the others."""
        for gap in self._gaps:
            vhost, lane = shards[gap.shard]
            here = (seq for shard, seq in self.clues if shard == gap.shard)
            told = sorted(seq for seq in here if gap.first <= seq <= gap.last)
            for seq in told:
                clue = self.clues[gap.shard, seq]
                yield _finding("missing event", shards[gap.shard], clue, clue.why, seq)
            rest = gap.last - gap.first + 1 - len(told)
            if rest:
                yield Finding("missing event", vhost, lane, gap.neighbours, gap.first, count=rest)


def _alone(clue: Clue, shards: Mapping[int, Shard]) -> Finding:
    why = clue.why
    if clue.alone.endswith(CONTENTS):
        why = joined([why, REBUILD], "; ")
    return _finding(clue.alone, shards[clue.shard], clue, why, clue.seq)


def _finding(what: What, shard: Shard, clue: Clue, why: str, seq: int | None) -> Finding:
    message_id = None if clue.message_id is None else str(clue.message_id)
    return Finding(what, *shard, why, seq, clue.copy_id, clue.queue, message_id)


_TABLE_OF: Final[Mapping[What, str]] = {
    "missing event": "events",
    "missing message": "messages",
    "missing dead letter": "dead_letters",
}


def unmentioned(general: Iterable[Finding], particular: Sequence[Finding]) -> list[Finding]:
    """The findings about whole batches that findings about single rows do not cover."""
    named = Counter[str]()
    for finding in particular:
        named[_TABLE_OF.get(finding.what, finding.what)] += finding.count
    explained = named["events"] > 0  # missing events explain a wrong number of copies
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
