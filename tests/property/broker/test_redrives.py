"""Redrives under any traffic: nothing is moved twice, nothing is lost, and the counts close."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from streaming.broker import commands
from streaming.broker.events import Event, Kind
from streaming.broker.redrive_letters import Letter, RedriveOptions, Target
from tests.property.broker.balance import Balance
from tests.property.broker.playing import CONFIG, low_limit, play, tiny_pages
from tests.property.broker.scripts import Publish, Step, scripts
from topology.declarations import Queue


class Moves(Balance):
    """Tracks every letter of every redrive, and every copy."""

    def __init__(self) -> None:
        super().__init__()
        self.moved: Counter[int] = Counter()
        self.handled: Counter[tuple[str, int]] = Counter()
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.ended: dict[str, dict[str, Any]] = {}
        self._last = 0

    def after_batch(self, events: list[Event]) -> None:
        super().after_batch(events)
        for event in events:
            if event.seq > self._last:
                self._last = event.seq
                self._count(event)

    def _count(self, event: Event) -> None:
        detail = event.detail or {}
        redrive = detail.get("redrive", "")
        if event.kind in {Kind.REDRIVEN, Kind.DISCARDED, Kind.REPUBLISHED}:
            assert event.copy is not None
            self.moved[event.copy.copy_id] += 1
            self.handled[(redrive, event.copy.copy_id)] += 1
            self.counts[redrive]["moved"] += 1
        elif event.kind is Kind.SKIPPED:
            what = "parked" if detail["reason"] == "cap" else "skipped"
            self.counts[redrive][what] += 1
            if detail["reason"] != "in_redrive":
                self.handled[(redrive, detail["copy_id"])] += 1
        elif event.kind is Kind.REDRIVE and detail["what"] in {"finished", "cancelled"}:
            assert redrive not in self.ended
            self.ended[redrive] = detail


@given(script=scripts(), cuts=st.sets(st.integers(0, 70)))
def test_a_letter_moves_at_most_once_and_the_counts_close(script, cuts):
    moves = Moves()
    with low_limit(), tiny_pages():
        play(script, cuts=cuts, watch=moves)

    assert all(count == 1 for count in moves.moved.values())
    assert all(count == 1 for count in moves.handled.values())
    for redrive, detail in moves.ended.items():
        counts = moves.counts[redrive]
        for what in ("moved", "skipped", "parked"):
            assert counts[what] == detail[what]
        if detail["what"] == "finished":
            assert detail["left"] == 0


def _traffic(draw: st.DrawFn, queue: str) -> commands.Command:
    return draw(
        st.sampled_from(
            [
                commands.Get(queue=queue, label="g", count=2, channel="c1"),
                commands.Ack(refs=("g/0",), multiple=False),
                commands.Reject(refs=("g/1", "g/0")),
                commands.Reject(refs=("g/0",), requeue=True),
                commands.Get(queue=queue, count=1, auto_ack=True, channel="c1"),
            ]
        )
    )


@st.composite
def dead_letters_and_a_redrive(draw: st.DrawFn) -> tuple[list[Step], int]:
    """Letters in a queue, traffic, one redrive of all of them, traffic; ends after a minute."""
    count = draw(st.integers(1, 12))
    work = Queue(
        "work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    kind = draw(st.sampled_from(["classic", "quorum"]))
    dead = Queue("dead", arguments={"x-queue-type": kind})
    script = [Step(0, commands.DeclareQueue(queue=queue)) for queue in (work, dead)]
    script += [Step(0, Publish("", "dead", 1, {}, {"n": n}, 0, "pub", None)) for n in range(count)]
    script += [
        Step(draw(st.sampled_from([0, 3])), _traffic(draw, "dead"))
        for _ in range(draw(st.integers(0, 5)))
    ]
    first = 3  # the declarations are events 1 and 2
    sealed = tuple(
        Letter(0, first + n, "dead", Target("work", "", ("work",))) for n in range(count)
    )
    options = RedriveOptions(rate=draw(st.sampled_from([None, 5, 100])))
    script.append(
        Step(
            1,
            commands.Redrive(
                id="r", reason="x", seal="s", total=count, letters=sealed, options=options
            ),
        )
    )
    for _ in range(draw(st.integers(0, 10))):
        queue = draw(st.sampled_from(["dead", "work"]))
        script.append(Step(draw(st.sampled_from([0, 50, 300])), _traffic(draw, queue)))
    script += [Step(1_000, commands.Tick()) for _ in range(60)]
    return script, count


@given(case=dead_letters_and_a_redrive(), data=st.data())
def test_each_sealed_letter_is_moved_or_listed(case, data):
    script, count = case
    cuts = data.draw(st.sets(st.integers(0, len(script) - 1)))
    config = msgspec.structs.replace(CONFIG, ignores_timeouts=True)
    moves = Moves()

    with tiny_pages():
        in_parts = play(script, config, cuts=cuts, watch=moves)
    whole = play(script, config)

    assert in_parts.events == whole.events
    [(redrive, detail)] = moves.ended.items()
    assert (redrive, detail["what"]) == ("r", "finished")
    assert detail["moved"] + detail["skipped"] == count
    assert sorted(copy_id for _, copy_id in moves.handled) == list(range(3, 3 + count))
