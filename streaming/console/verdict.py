"""Is anything wrong? What is known to be, what is not known, and never "nothing" for the latter.

    deaths, letters that wait, the gate, batches, lag --> concerns     the worst first
    who asks, how far back the tables go, Kafka       --> unknown      then nothing is "fine"

What counts as a concern is what the shipped alerts fire for: see `streaming.queries.death_rates`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from streaming.console.lag import Lag
from streaming.console.shown import ago, duration, instant
from streaming.ledger.batch_detail import GateState
from streaming.queries.dead_letters.waiting import WaitingQueue
from streaming.queries.death_rates import BURST, BURST_LETTERS, OLD_S
from streaming.queries.queues import QueueDepth
from topology.sentences import say, say_count

if TYPE_CHECKING:
    from streaming.pipeline.checkpoint.job_state import Failing

STALE_S: Final = 300.0
"""Without a batch for so long, the figures no longer say how things are now."""

MINUTES: Final = 60
_RECENT: Final = 5
_USUAL: Final = 30
_ROUND: Final = 10
"""Minutes that are compared for a burst: the last ones, with those before them."""

_LEAST_USUAL: Final = 10
"""Fewer minutes do not say what is usual."""

Tone = Literal["good", "unknown", "warn", "bad"]


class Concern(NamedTuple):
    """Something that is wrong, or may be.

    Attributes:
        path: the page that shows more, with `about` as its parameters.
    """

    tone: Tone
    what: str
    path: str
    about: Mapping[str, str] = {}


class Facts(NamedTuple):
    """What a verdict follows from.

    Attributes:
        end: the instant of the verdict.
        minutes: deaths by minute of the hour before.
        lost: deaths of that hour whose letter reached no queue that was meant to take it.
        waiting: the queues in which dead letters wait, the longest waiting first.
        unserved, nearly_full: the queues with these marks, the one with the most messages first.
        dropping: the same, for those that are full and drop dead letters.
        dropped: how many messages of the last hour each of these dropped.
        gate: of the last batch; None: it does not say.
        silence_s: how long ago the last batch was; None: of the past, where this means nothing.
        has_batch: whether there is a batch at all.
        lag: the records that wait in Kafka; None: not known.
        runs: whether the process of the job runs; None: not known.
        failing: the attempts that failed since the last batch; None: none that is known.
        unexplained: what the balance says; None: nothing yet.
        known_since: the earliest instant of which the tables know everything.
        missing: tables that could not be read.
        sees: `all`, `some` or `none` of the vhosts.
    """

    end: datetime
    minutes: Sequence[int]
    lost: int = 0
    waiting: Sequence[WaitingQueue] = ()
    unserved: Sequence[QueueDepth] = ()
    nearly_full: Sequence[QueueDepth] = ()
    dropping: Sequence[QueueDepth] = ()
    dropped: Mapping[tuple[str, str], int] = {}
    gate: GateState | None = None
    silence_s: float | None = None
    has_batch: bool = True
    lag: Lag | None = None
    runs: bool | None = None
    failing: "Failing | None" = None
    unexplained: str = ""
    known_since: datetime | None = None
    missing: Sequence[str] = ()
    sees: Literal["all", "some", "none"] = "all"

    @property
    def is_stale(self) -> bool:
        """Whether the figures are too old to say how things are now."""
        return self.silence_s is not None and self.silence_s > STALE_S

    @property
    def usual(self) -> float | None:
        """Deaths a minute in the half hour before the last minutes; None: too little is known."""
        if self.known_before < _LEAST_USUAL:
            return None
        before = self.minutes[-_RECENT - _USUAL : -_RECENT]
        return sum(before) / min(self.known_before, _USUAL)

    @property
    def known_before(self) -> float:
        """How many minutes before the last ones the tables know."""
        if self.known_since is None:
            return _USUAL
        return (self.end - self.known_since).total_seconds() / 60 - _RECENT


class Verdict(NamedTuple):
    """The answer.

    Attributes:
        concerns: what needs a look, the worst first.
        unknown: what is not known; with it, nothing is said to be fine.
        notes: what limits a good verdict.
    """

    concerns: Sequence[Concern]
    unknown: Sequence[str]
    notes: Sequence[str]

    @property
    def tone(self) -> Tone:
        """How it looks."""
        if self.concerns:
            return self.concerns[0].tone
        return "unknown" if self.unknown else "good"


def verdict(facts: Facts) -> Verdict:
    """Judge the facts."""
    concerns = sorted(_concerns(facts), key=lambda one: one.tone != "bad")
    return Verdict(concerns, list(_unknown(facts)), list(_notes(facts)))


def _concerns(facts: Facts) -> list[Concern]:
    found = []
    if facts.unexplained:
        found.append(Concern("bad", facts.unexplained, "/balance"))
    if facts.lost:
        what = say_count(
            "%(count)s dead letter of the last hour is lost",
            "%(count)s dead letters of the last hour are lost",
            facts.lost,
        )
        about = {**_since(facts, MINUTES), "end": "lost"}
        found.append(Concern("bad", what, "/search", about))
    if facts.dropping:
        dropped = sum(facts.dropped[one.vhost, one.queue] for one in facts.dropping)
        what = say_count(
            "%(queue)s is full of dead letters and drops its oldest: %(dropped)s in the last hour",
            "%(count)s queues are full of dead letters and drop their oldest, such as %(queue)s: "
            "%(dropped)s in the last hour",
            len(facts.dropping),
            queue=facts.dropping[0].queue,
            dropped=dropped,
        )
        found.append(_marked(what, facts.dropping, "dropping", "bad"))
    is_open = facts.gate is None or facts.gate.open
    found += _of_job(facts, is_open=is_open)
    recent = sum(facts.minutes[-_RECENT:])
    usual = facts.usual
    if recent >= BURST_LETTERS and (usual is None or recent > BURST * usual * _RECENT):
        if usual is None:
            what = say(
                "%(count)s messages died in the last %(minutes)s minutes; how many are usual is "
                "not known yet",
                count=recent,
                minutes=_RECENT,
            )
        else:
            what = say(
                "%(count)s messages died in the last %(minutes)s minutes, and %(usual)s a minute "
                "in the %(before)s minutes before",
                count=recent,
                minutes=_RECENT,
                usual=round(usual, 1) if usual % 1 and usual < _ROUND else round(usual),
                before=int(min(facts.known_before, _USUAL)),
            )
        found.append(Concern("bad", what, "/causes", _since(facts, _RECENT)))
    if not is_open:
        assert facts.gate is not None
        cause = facts.gate.cause
        what = say("publishes are paused by flow control: %(cause)s", cause=cause)
        found.append(Concern("warn", what, "/health"))
    old = [
        one
        for one in facts.waiting
        if (facts.end - datetime.fromisoformat(one.oldest_at)).total_seconds() > OLD_S
    ]
    if old:
        oldest = old[0]
        what = say_count(
            "%(count)s dead letter waits in queues, the oldest for %(age)s in %(queue)s",
            "%(count)s dead letters wait in queues, the oldest for %(age)s in %(queue)s",
            sum(one.count for one in old),
            age=ago(oldest.oldest_at, facts.end),
            queue=oldest.queue,
        )
        about = {"vhost": oldest.vhost, "queue": oldest.queue}
        found.append(Concern("warn", what, "/queue", about))
    if facts.unserved:
        what = say_count(
            "%(queue)s has messages and no consumer",
            "%(count)s queues have messages and no consumer, such as %(queue)s",
            len(facts.unserved),
            queue=facts.unserved[0].queue,
        )
        found.append(_marked(what, facts.unserved, "unserved"))
    if facts.nearly_full:
        what = say_count(
            "%(queue)s is full, or nearly",
            "%(count)s queues are full, or nearly, such as %(queue)s",
            len(facts.nearly_full),
            queue=facts.nearly_full[0].queue,
        )
        found.append(_marked(what, facts.nearly_full, "nearly_full"))
    return found


def _of_job(facts: Facts, *, is_open: bool) -> list[Concern]:
    """What is wrong with the job itself: its batches fail, it does not run, or it is stuck."""
    failing, silence_s = facts.failing, facts.silence_s
    waiting = 0 if facts.lag is None else facts.lag.records
    age = "" if silence_s is None else duration(silence_s)
    tone: Tone = "bad"
    if failing is not None:
        since = instant(datetime.fromtimestamp(failing.since_ms / 1000, UTC))
        tone = "warn" if failing.attempts == 1 else "bad"
        if facts.runs is False or failing.next_ms is None:
            tone = "bad"
            what = say_count(
                "the job has ended: %(count)s attempt to commit a batch failed, at %(since)s",
                "the job has ended: %(count)s attempts to commit a batch failed since %(since)s",
                failing.attempts,
                since=since,
            )
        else:
            what = say_count(
                "no batch is committed: %(count)s attempt failed, at %(since)s",
                "no batch is committed: %(count)s attempts failed since %(since)s",
                failing.attempts,
                since=since,
            )
    elif facts.runs is False and not facts.has_batch:
        what = say("the job does not run, and has committed no batch: start it with `dlx run`")
        tone = "warn"
    elif facts.runs is False and waiting:
        what = say_count(
            "the job does not run since the last batch, %(age)s ago, and %(count)s record waits "
            "in Kafka: start it with `dlx run`",
            "the job does not run since the last batch, %(age)s ago, and %(count)s records wait "
            "in Kafka: start it with `dlx run`",
            waiting,
            age=age,
        )
    elif facts.runs is False:
        what = say(
            "the job does not run since the last batch, %(age)s ago: start it with `dlx run`",
            age=age,
        )
        tone = "warn"
    elif not (facts.is_stale and waiting and is_open):
        return []
    elif facts.runs:
        what = say_count(
            "no batch for %(age)s, although %(count)s record waits in Kafka: the job is stuck",
            "no batch for %(age)s, although %(count)s records wait in Kafka: the job is stuck",
            waiting,
            age=age,
        )
    else:
        what = say_count(
            "no batch for %(age)s, although %(count)s record waits in Kafka: the job does not run, "
            "or is stuck",
            "no batch for %(age)s, although %(count)s records wait in Kafka: the job does not run, "
            "or is stuck",
            waiting,
            age=age,
        )
    return [Concern(tone, what, "/health")]


def _marked(what: str, queues: Sequence[QueueDepth], show: str, tone: Tone = "warn") -> Concern:
    """The concern of queues that have a mark: it leads to the only one, or to all of them."""
    if len(queues) > 1:
        return Concern(tone, what, "/queues", {"show": show})
    [one] = queues
    return Concern(tone, what, "/queue", {"vhost": one.vhost, "queue": one.queue})


def _since(facts: Facts, minutes: int) -> dict[str, str]:
    """The parameters for the letters of the last minutes."""
    return {"since": instant(facts.end - timedelta(minutes=minutes))}


def _unknown(facts: Facts) -> list[str]:
    found: list[str] = []
    if facts.sees == "none":
        found.append(
            say(
                "You may see no vhost, so this page knows nothing: an administrator can give "
                "permissions with `dlx permissions set`."
            )
        )
    if not facts.has_batch and facts.failing is None and facts.runs is not False:
        found.append(
            say(
                "The job has committed no batch yet. If it stays so, it does not run or its "
                "batches fail: `dlx doctor` and dlx.log in job.log_dir say why."
            )
        )
    found += [
        say("The table %(name)s cannot be read, so deaths are not known.", name=one)
        for one in facts.missing
    ]
    if facts.is_stale and facts.failing is None and facts.runs is not False:
        assert facts.silence_s is not None
        age = duration(facts.silence_s)
        if facts.lag is None:
            found.append(
                say(
                    "The last batch was %(age)s ago, and whether records wait in Kafka is not "
                    "known: `dlx doctor` says whether the job runs.",
                    age=age,
                )
            )
        elif not facts.lag.records and not facts.runs:
            found.append(
                say(
                    "The last batch was %(age)s ago and no record waits in Kafka: the job is idle, "
                    "or does not run; `dlx doctor` says which.",
                    age=age,
                )
            )
    if facts.known_since is not None and facts.known_since >= facts.end:
        found.append(say("The tables begin at %(at)s.", at=instant(facts.known_since)))
    return found


def _notes(facts: Facts) -> list[str]:
    found: list[str] = []
    if facts.sees == "some":
        found.append(say("This is about the vhosts that you may see."))
    begins = facts.known_since
    if begins is not None and (facts.end - begins).total_seconds() < MINUTES * 60:
        found.append(
            say("The tables begin at %(at)s: nothing earlier is known.", at=instant(begins))
        )
    return found
