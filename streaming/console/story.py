"""The life of a message as a picture: a row for each queue, a bar for each stay, time to the right.

    copies of a message --rows, places in time--> bars, ways, ends --story.html--> SVG

Stays last milliseconds or days, so the picture is not to scale: a stretch is as wide as its length
has digits, more or less. The page has the same as a list, which says every instant.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final, NamedTuple

from streaming.console.languages import ENGLISH, Language
from streaming.console.shown import duration, instant, preview
from streaming.queries.life.copies import CopyLife
from topology.sentences import say, say_count

MAX_BARS: Final = 60
"""The most stays that are drawn; the list has all."""

LEFT: Final = 170.0
WIDTH: Final = 960.0
_RIGHT: Final = 24.0
_TOP: Final = 30.0
ROW: Final = 40.0
_LEAST_BAR: Final = 5.0
_MOST_STRETCHED: Final = 6.0
_LETTER: Final = 6.6
"""How wide a letter is, at most."""

_NAME: Final = 24
_BAD: Final = frozenset({"died", "held", "rerouted"})
_GOOD: Final = frozenset({"acked", "consumed"})
_MOVED: Final = "redriven"


class Part(NamedTuple):
    """A horizontal stretch."""

    x: float
    width: float
    title: str


class Bar(NamedTuple):
    """A stay in a queue.

    Attributes:
        held: the deliveries in it.
        said: how it ended, beside the bar; empty: there is no room.
        anchor: at which of its ends the text is fixed: start or end.
    """

    row: int
    whole: Part
    held: list[Part]
    tone: str
    wait: str
    said: str
    said_x: float
    anchor: str


class Way(NamedTuple):
    """From the end of one stay to the beginning of another."""

    x: float
    from_row: int
    to_x: float
    to_row: int
    tone: str


class Tick(NamedTuple):
    """An instant at the top."""

    x: float
    said: str


class Story(NamedTuple):
    """The picture.

    Attributes:
        rows: the names of queues, as long as there is room, with the whole names.
        left_out: how many stays are not drawn.
        summary: what it shows, in a sentence.
    """

    rows: list[tuple[str, str]]
    bars: list[Bar]
    ways: list[Way]
    ticks: list[Tick]
    height: float
    left_out: int
    summary: str


def story_of(
    copies: Sequence[CopyLife],
    end: datetime,
    doers: Mapping[int, str] | None = None,
    language: Language = ENGLISH,
) -> Story | None:
    """Draw the copies of a message; None: there is nothing to draw.

    Args:
        end: up to when copies are known to be in their queues.
        doers: who moved a copy by a redrive, by copy.
        language: of the words in it.
    """
    drawn = sorted(copies, key=lambda one: (one.enqueued_at or "", one.copy_id))[:MAX_BARS]
    if not drawn:
        return None
    who = doers or {}
    spans = {one.copy_id: _span(one, end) for one in drawn}
    scale = _Scale([at for span in spans.values() for at in (span.start, span.end, *span.holds)])
    rows, row_of = _rows(drawn, spans)
    starts: dict[int, list[float]] = {}
    for one in drawn:
        starts.setdefault(row_of[one.copy_id], []).append(scale.x(spans[one.copy_id].start))
    bars = [
        _bar(one, spans[one.copy_id], scale, row_of[one.copy_id], starts, who, language)
        for one in drawn
    ]
    by_copy = {one.copy_id: one for one in drawn}
    ways = [
        Way(
            scale.x(spans[parent.copy_id].end),
            row_of[parent.copy_id],
            scale.x(spans[one.copy_id].start),
            row_of[one.copy_id],
            "moved" if parent.copy_id in who or parent.end == _MOVED else "bad",
        )
        for one in drawn
        if one.parent_copy_id is not None and (parent := by_copy.get(one.parent_copy_id))
    ]
    queues = list(dict.fromkeys(one.queue for one in drawn))
    return Story(
        rows=[(preview(name, _NAME), name) for name in rows],
        bars=bars,
        ways=ways,
        ticks=list(_ticks(scale, language.said)),
        height=_TOP + ROW * len(rows) + 6,
        left_out=len(copies) - len(drawn),
        summary=_summary(drawn, queues, spans),
    )


def _summary(drawn: Sequence[CopyLife], queues: Sequence[str], spans: Mapping[int, "_Span"]) -> str:
    deaths = sum(one.end in _BAD for one in drawn)
    whole = max(one.end.ms for one in spans.values()) - min(one.start.ms for one in spans.values())
    return say(
        "%(stays)s in %(queues)s within %(time)s, with %(deaths)s; the list below says each step",
        stays=say_count("%(count)s stay", "%(count)s stays", len(drawn)),
        queues=say_count("%(count)s queue", "%(count)s queues", len(queues)),
        time=_lasts(whole),
        deaths=say_count("%(count)s death", "%(count)s deaths", deaths)
        if deaths
        else say("no death"),
    )


class _Step(NamedTuple):
    """A place in the order of what happened; much of it may be in one millisecond.

    Attributes:
        copy_id: of the copy that begins with this step, or after it.
        number: within the stay of the copy; -1: before it.
    """

    ms: float
    copy_id: float
    number: int = 0


class _Span(NamedTuple):
    """A stay: its beginning, its end, and in between the beginnings and ends of its deliveries."""

    start: _Step
    end: _Step
    holds: list[_Step]


def _span(one: CopyLife, end: datetime) -> _Span:
    """A stay as far as it is known."""
    last = end.timestamp() * 1000 if one.left_at is None else _ms(one.left_at)
    since = [_ms(hold.since) for hold in one.holds]
    first = min([last, *since]) if one.enqueued_at is None else _ms(one.enqueued_at)
    last = max([last, first, *since])
    ended = _Step(last, min(one.children), -1) if one.children else _Step(last, math.inf)
    holds = []
    for number, hold in enumerate(one.holds):
        holds.append(_Step(_ms(hold.since), one.copy_id, 2 * number + 1))
        is_last = hold.until is None or (hold is one.holds[-1] and hold.until == one.left_at)
        until = last if hold.until is None else _ms(hold.until)
        holds.append(ended if is_last else _Step(until, one.copy_id, 2 * number + 2))
    return _Span(_Step(first, one.copy_id), ended, holds)


def _ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1000


class _Scale:
    """Places steps: a stretch is as wide as its length has digits."""

    def __init__(self, steps: Sequence[_Step]) -> None:
        self.steps = sorted(set(steps))
        widths = [
            10 + 12 * math.log10(1 + last.ms - first.ms) for first, last in pairwise(self.steps)
        ]
        room = WIDTH - LEFT - _RIGHT - 90  # the last end has a text beside it
        factor = min(room / sum(widths), _MOST_STRETCHED) if widths else 1.0
        place = LEFT
        self._places = {}
        for at, width in zip(self.steps, [*widths, 0.0], strict=True):
            self._places[at] = round(place, 1)
            place += width * factor

    def x(self, at: _Step) -> float:
        """The place of one of the steps."""
        return self._places[at]


def _rows(
    drawn: Sequence[CopyLife], spans: Mapping[int, _Span]
) -> tuple[list[str], dict[int, int]]:
    """The names of the rows, and the row of each copy; copies at one time have a row each."""
    lanes: dict[str, list[_Step]] = {}
    places: dict[int, tuple[str, int]] = {}
    for one in drawn:
        start, end, _holds = spans[one.copy_id]
        ends = lanes.setdefault(one.queue, [])
        number = next((number for number, last in enumerate(ends) if last <= start), len(ends))
        if number == len(ends):
            ends.append(end)
        else:
            ends[number] = end
        places[one.copy_id] = one.queue, number
    order = [(queue, number) for queue, ends in lanes.items() for number in range(len(ends))]
    index = {place: row for row, place in enumerate(order)}
    return [queue for queue, _number in order], {
        copy_id: index[place] for copy_id, place in places.items()
    }


def _bar(
    one: CopyLife,
    span: _Span,
    scale: _Scale,
    row: int,
    starts: Mapping[int, Sequence[float]],
    doers: Mapping[int, str],
    language: Language,
) -> Bar:
    x, right = scale.x(span.start), scale.x(span.end)
    width = max(right - x, _LEAST_BAR)
    lasts = language.said(_lasts(span.end.ms - span.start.ms))
    how = one.reason if one.end in _BAD and one.reason else one.end
    said = language.word(how) if how else language.said(say("still here"))
    if one.copy_id in doers:
        said = say("%(what)s by %(user)s", what=said, user=doers[one.copy_id])
    said = preview(language.said(said), _NAME)
    free = min((place for place in starts[row] if place > x), default=WIDTH) - (x + width)
    room = len(said) * _LETTER + 10
    inside = width > room + len(lasts) * _LETTER
    fits = free > room or inside
    at, anchor = (x + width + 5, "start") if free > room else (x + width - 5, "end")
    places = [scale.x(at) for at in span.holds]
    held = [
        Part(
            begun,
            round(max(ended - begun, 2.0), 1),
            say("held by %(user)s", user=hold.user or say("the operator")),
        )
        for hold, begun, ended in zip(one.holds, places[::2], places[1::2], strict=True)
    ]
    tone = "bad" if one.end in _BAD else "good" if one.end in _GOOD else ""
    tone = "moved" if one.end == _MOVED else tone
    return Bar(
        row,
        Part(
            x,
            round(width, 1),
            say("%(queue)s: %(what)s after %(time)s", queue=one.queue, what=said, time=lasts),
        ),
        held,
        tone,
        lasts if width > len(lasts) * _LETTER + 8 else "",
        said if fits else "",
        round(at, 1),
        anchor,
    )


def _ticks(scale: _Scale, say_it: Callable[[str], str]) -> Iterator[Tick]:
    first = scale.steps[0].ms
    free, last = 0.0, -1.0
    for at in scale.steps:
        said = f"+{say_it(_lasts(at.ms - first))}" if last >= 0 else instant(first / 1000)
        if scale.x(at) >= free and at.ms > last:
            yield Tick(scale.x(at), said)
            free, last = scale.x(at) + len(said) * _LETTER + 14, at.ms


def _lasts(ms: float) -> str:
    return say("%(count)s ms", count=round(ms)) if ms < 1000 else duration(ms / 1000)  # noqa: PLR2004 - a second
