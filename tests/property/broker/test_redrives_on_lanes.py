"""Redrives on several lanes, with verdicts that come late and twice: the canary holds for all."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from streaming.broker import commands
from streaming.broker.commands import RedriveVerdict
from streaming.broker.events import CLOCK, ENDINGS, Kind
from streaming.broker.redrives.agreement import verdicts
from tests.unit.broker.redrives.test_lanes import Case

ACTIONS = ("agree", "again", "ack", "reject", "pause", "resume", "purge", "take", "time", "cut")


class Play:
    """Does what a script says, and watches the redrive."""

    def __init__(self, on_lane: list[int], canary: int, rate: int | None) -> None:
        self.case = Case(*on_lane)
        self.canary = canary
        self.written: list[RedriveVerdict] = []
        self.is_forgiven = False
        self.case.redrive(canary=canary, rate=rate)

    def do(self, action: str, number: int) -> None:
        case, vhost = self.case, self.case.vhost
        work = vhost.depths("work")
        match action:
            case "agree":
                vhost.cut()
                self.written += [verdict for _note, verdict in verdicts(vhost.notes)]
                if self.written:
                    vhost.tell(self.written[-1], CLOCK)
            case "again" if self.written:
                vhost.tell(self.written[number % len(self.written)], CLOCK)
            case "ack" | "reject" if any(work):
                case.settle(action)
            case "pause":
                case.control("pause")
            case "resume":
                self.is_forgiven |= case.statuses() == {"stopped"}
                case.control("resume")
            case "purge":
                case.do(commands.Purge(queue="work"))
            case "take":
                lane = number % len(work)
                case.do(commands.Get(queue="dead", auto_ack=True, lane=lane))
            case "time":
                vhost.at(vhost.time_ms - 1_600_000_000_000 + 100 * number)
            case "cut":
                vhost.cut()
        self._check()

    def _check(self) -> None:
        assert len(self.case.statuses()) == 1
        records = self.case.records()
        assert len({(record.trusted, record.round) for record in records}) <= 1
        moved, settled = self._moved_and_settled()
        if moved > self.canary and not self.is_forgiven:
            assert settled >= self.canary

    def _moved_and_settled(self) -> tuple[int, int]:
        """How many letters moved, and how many of them left `work` again, on all lanes."""
        vhost = self.case.vhost
        rows = [
            event
            for told, shard in zip(vhost.events, vhost.shards, strict=True)
            for event in (*told, *shard.events.rows())
        ]
        ended = [row for row in rows if row.kind in ENDINGS and row.queue == "work"]
        return sum(row.kind is Kind.REDRIVEN for row in rows), len(ended)

    def end(self) -> None:
        """Settle what moves and go on until the redrive has ended."""
        for _ in range(60):
            if self.case.statuses() == {"finished"}:
                return
            if any(self.case.vhost.depths("work")):
                self.do("ack", 0)
            self.do("resume", 0)
            self.do("time", 30)
            self.do("agree", 0)
        raise AssertionError(f"it never ends: {self.case.records()}")


@given(
    on_lane=st.lists(st.integers(0, 4), min_size=2, max_size=4).filter(any),
    canary=st.integers(1, 6),
    rate=st.sampled_from([None, 3]),
    script=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 30)), max_size=25),
)
def test_no_lane_moves_more_than_the_canary_before_all_trust_it(on_lane, canary, rate, script):
    play = Play(on_lane, canary, rate)

    for action, number in script:
        play.do(action, number)
    play.end()

    play.case.vhost.cut()
    found = [event for events in play.case.vhost.events for event in events]
    handled = [event for event in found if event.kind in {Kind.REDRIVEN, Kind.SKIPPED}]
    assert len(handled) == sum(on_lane)
    stopped = sum(
        event.kind is Kind.REDRIVE and (event.detail or {})["what"] == "stopped" for event in found
    )
    assert (stopped > 0) == play.is_forgiven


@given(verdict=st.sampled_from(["trust", "share", "stop", "finish"]), lane=st.integers(0, 5))
def test_a_verdict_survives_the_wire(verdict, lane):
    from streaming.protocol.command_json import parse_command

    told = RedriveVerdict(id="r", round=3, verdict=verdict, lane=lane, share=2, reason="why")

    assert parse_command(msgspec.json.decode(msgspec.json.encode(told))) == told
