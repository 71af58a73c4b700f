"""In a vhost of several lanes a redrive is one: canary, stop rules, controls and the end."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.commands import ControlRedrive, Redrive, RedriveAction
from streaming.broker.commands import RedriveVerdict as Verdict
from streaming.broker.events import Actor, Kind
from streaming.broker.lanes import Answering
from streaming.broker.redrive_letters import Letter, RedriveOptions, Target
from streaming.broker.redrives.records import OpenRecord
from tests.laned_vhost import LanedVhost
from topology.declarations import Queue
from topology.refusals import Refusal

LANES = 4
WORK = Target("work", "", ("work",))


class Case:
    """A vhost with letters in `dead`, so many on each lane, and what happens to them."""

    def __init__(self, *on_lane: int, **config: Any) -> None:
        self.vhost = LanedVhost(lanes=len(on_lane), **config)
        user = "admin" if config else None
        arguments: dict[str, Any] = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        }
        self.do(commands.DeclareQueue(queue=Queue("work", arguments=arguments)), user=user)
        self.do(commands.DeclareQueue(queue=Queue("dead")), user=user)
        for lane, count in enumerate(on_lane):
            for number in range(count):
                self.vhost.publish("", "dead", f"{lane}/{number}", lane=lane)
        self.vhost.cut()
        by_lane = [
            [event.seq for event in events if event.kind is Kind.ENQUEUED]
            for events in self.vhost.events
        ]
        self.letters = tuple(
            Letter(lane, copy_id, "dead", WORK)
            for lane, copies in enumerate(by_lane)
            for copy_id in copies
        )

    def do(self, command: commands.Command, **fields: Any) -> Any:
        return self.vhost.do(command, **fields)

    def redrive(
        self, letters: tuple[Letter, ...] | None = None, *, user: str | None = None, **options: Any
    ) -> Any:
        sealed = self.letters if letters is None else letters
        chosen = RedriveOptions(**options)
        command = Redrive(
            id="r", reason="x", seal="s", total=len(sealed), letters=sealed, options=chosen
        )
        return self.do(command, user=user)

    def control(self, action: RedriveAction, **fields: Any) -> Any:
        return self.do(ControlRedrive(id="r", action=action, reason="why"), **fields)

    def statuses(self) -> set[str]:
        known = [shard.state.redrives.named("r") for shard in self.vhost.shards]
        return {"gone" if one is None else one.status for one in known}

    def records(self) -> list[OpenRecord]:
        known = [shard.state.redrives.named("r") for shard in self.vhost.shards]
        return [one for one in known if isinstance(one, OpenRecord)]

    def settle(self, op: str, count: int = 1) -> None:
        """Settle letters that were moved, wherever they are."""
        for number in range(count):
            for lane in range(len(self.vhost.shards)):
                got = self.do(commands.Get(queue="work", label=f"{lane}.{number}", lane=lane))
                if got["delivered"]:
                    break
            ref = self.vhost.delivered[-1].name
            self.do(commands.Ack(refs=(ref,)) if op == "ack" else commands.Reject(refs=(ref,)))

    def pass_time(self, seconds: int = 1) -> list[str]:
        found = []
        for _ in range(seconds):
            self.vhost.at(self.vhost.time_ms - 1_600_000_000_000 + 1_000)
            found += self.vhost.agree()
        return found

    @property
    def moved(self) -> list[int]:
        return [record.moved for record in self.records()]


def test_the_others_wait_on_every_lane_until_the_canary_is_settled():
    case = Case(5, 5, 5, 5)

    answer = case.redrive(canary=1)
    assert (answer["status"], answer["moved"], case.moved) == ("running", 1, [1, 0, 0, 0])
    assert case.pass_time(10) == []
    assert case.moved == [1, 0, 0, 0]
    case.settle("ack")
    assert case.pass_time() == ["trust", "finish"]

    assert case.vhost.depths("work") == [4, 5, 5, 5]
    assert case.control("status") == {
        "status": "finished",
        "total": 20,
        "moved": 20,
        "skipped": 0,
        "parked": 0,
    }


def test_the_canary_is_the_first_sealed_letters_wherever_they_are():
    case = Case(2, 2, 2, 2)
    mixed = tuple(sorted(case.letters, key=lambda letter: (letter.copy_id, -letter.lane)))
    lanes = [letter.lane for letter in mixed[:3]]

    case.redrive(mixed, canary=3)

    assert case.moved == [lanes.count(lane) for lane in range(LANES)]


def test_the_canary_of_a_plan_in_parts_is_its_first_letters():
    case = Case(1, 2)
    head: dict[str, Any] = {"id": "r", "reason": "x", "seal": "s", "total": 3}
    options = RedriveOptions(canary=2)

    for first in range(3):
        part = case.letters[first : first + 1]
        case.do(Redrive(letters=part, first=first, options=options, **head))

    assert case.moved == [1, 1]


def test_letters_of_other_lanes_take_the_place_of_a_canary_that_is_gone():
    case = Case(2, 0, 3, 1)
    case.do(commands.Get(queue="dead", count=2, auto_ack=True, lane=0))

    assert case.redrive(canary=2)["moved"] == 0
    assert case.pass_time() == ["share"]

    assert case.moved == [0, 0, 2, 0]
    case.settle("ack", 2)
    assert case.pass_time() == ["trust", "finish"]
    assert case.control("status")["moved"] == 4


def test_a_pause_lets_no_lane_forget_the_canary():
    case = Case(3, 3)
    case.redrive(canary=1)

    assert case.control("pause")["status"] == "paused"
    assert case.pass_time(2) == []
    assert case.control("resume")["status"] == "running"
    assert case.pass_time(2) == []

    assert case.moved == [1, 0]


def test_a_canary_that_dies_stops_all_lanes_and_a_resume_lets_all_go():
    case = Case(1, 2, 0, 1)
    case.redrive(canary=1)
    case.settle("reject")

    assert case.pass_time() == ["stop"]
    assert (case.statuses(), case.moved) == ({"stopped"}, [1, 0, 0, 0])
    said = [
        (lane, event.detail["reason"])
        for lane, events in enumerate(case.vhost.events)
        for event in events
        if event.kind is Kind.REDRIVE and event.detail and event.detail["what"] == "stopped"
    ]
    assert said == [(lane, "canary") for lane in range(LANES)]
    assert case.control("resume")["status"] == "running"
    assert case.pass_time() == ["finish"]
    assert case.control("status")["moved"] == 4


def test_deaths_of_all_lanes_together_stop_a_redrive():
    case = Case(50, 50)
    case.redrive(rate=2, stop_after=4)
    found = []
    for _ in range(20):
        case.settle("reject", sum(case.vhost.depths("work")))
        found += case.pass_time()

    assert (found, case.statuses()) == (["stop"], {"stopped"})
    assert sum(record.died for record in case.records()) in {4, 5, 6}


def test_a_lane_with_too_many_deaths_waits_for_the_verdict():
    case = Case(50, 0)
    case.redrive(rate=2, stop_after=1)
    case.settle("reject")

    case.vhost.at(10_000)

    assert case.moved == [1, 0]
    assert case.vhost.agree() == ["stop"]


def test_a_share_of_deaths_is_that_of_all_lanes():
    case = Case(12, 12)
    case.redrive(case.letters[:1], stop_percent=50)  # closes: nothing is left
    assert case.vhost.agree() == ["finish"]
    case = Case(30, 30)
    case.redrive(rate=20, stop_percent=50)
    verdicts: list[str] = []
    for _ in range(8):
        for lane, op in ((0, "reject"), (1, "ack")):
            got = case.do(commands.Get(queue="work", label="g", count=4, lane=lane))
            if got["delivered"]:
                names = tuple(one.name for one in case.vhost.delivered[-got["delivered"] :])
                settled = commands.Ack(refs=names) if op == "ack" else commands.Reject(refs=names)
                case.do(settled)
        verdicts = case.pass_time()
        if verdicts:
            break

    assert verdicts == ["stop"]
    fates = [(record.acked, record.died) for record in case.records()]
    assert sum(map(sum, fates)) >= 10
    assert sum(died for _, died in fates) * 2 >= sum(map(sum, fates))


def test_a_lane_without_letters_stays_until_the_redrive_ends_on_all():
    case = Case(0, 3)

    assert case.redrive(rate=1)["status"] == "running"
    assert case.vhost.agree() == []
    assert case.statuses() == {"running"}

    assert case.pass_time(7) == ["finish"]
    assert case.statuses() == {"finished"}


def test_a_verdict_of_an_earlier_round_changes_nothing():
    case = Case(2, 2)
    case.redrive(canary=1)
    late = Verdict(id="r", round=0, verdict="trust")
    case.control("pause")
    case.control("resume")

    case.vhost.shards[0].command(case.vhost.time_ms, late)
    case.vhost.shards[1].command(case.vhost.time_ms, Verdict(id="other", round=0, verdict="stop"))

    assert case.moved == [1, 0]
    assert [record.trusted for record in case.records()] == [False, False]


def test_a_verdict_reaches_a_paused_redrive_too():
    case = Case(2, 2)
    case.redrive(canary=1)
    case.settle("reject")
    verdict = Verdict(id="r", round=0, verdict="stop", reason="canary")
    case.control("pause")

    assert case.vhost.agree() == []
    for shard in case.vhost.shards:
        shard.command(case.vhost.time_ms, verdict, answering=Answering.SILENT)
    assert case.statuses() == {"stopped"}
    assert case.control("resume")["status"] == "running"
    assert [record.trusted for record in case.records()] == [True, True]


# -- refusals


@pytest.fixture
def guarded() -> Case:
    case = Case(0, 3, enforce_permissions=True, administrators=("admin",))
    for user in ("ann", "bob"):
        permissions = {"configure": ".*", "write": ".*", "read": ".*"}
        case.do(commands.SetPermissions(user=user, **permissions), user="admin")
    own = Queue("bobs", exclusive=True)
    case.do(commands.DeclareQueue(queue=own, channel="admin"), user="bob")
    case.redrive(rate=1, user="ann")
    return case


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
def test_a_control_is_refused_on_all_lanes_or_on_none(guarded, action):
    refusal = guarded.control(action, user="bob")

    assert isinstance(refusal, Refusal)
    assert (refusal.code, guarded.statuses()) == (403, {"running"})
    assert ["bobs" in shard.vhost.queues for shard in guarded.vhost.shards] == [False, False]


@pytest.mark.parametrize(
    "command",
    [
        Redrive(id="r", reason="x", seal="t", total=3, letters=()),
        ControlRedrive(id="unknown", action="pause", reason="x"),
        Verdict(id="r", round=0, verdict="stop"),
        commands.DeleteQueue(queue="dead", if_empty=True),
        commands.DeclareQueue(queue=Queue("dead", durable=False)),
        commands.DeleteExchange(exchange="amq.direct"),
        commands.ExportDefinitions(),
        commands.ImportDefinitions(definitions={}),
        commands.SetPermissions(user="bob", configure="", write="", read=""),
    ],
)
def test_other_refusals_are_those_of_all_lanes(guarded, command):
    guarded.vhost.cut()
    guarded.vhost.tell(command, Actor("bob", "admin"))

    refused = [
        [event.kind for event in shard.events.rows()].count(Kind.COMMAND_ERROR)
        for shard in guarded.vhost.shards
    ]
    assert refused == [1, 1]
    assert not any("bobs" in shard.vhost.queues for shard in guarded.vhost.shards)


@pytest.mark.parametrize("first", [0, 3, 5])
def test_letters_of_a_complete_redrive_are_answered_alike_wherever_they_end(guarded, first):
    command = Redrive(id="r", reason="x", seal="s", total=3, first=first, letters=())

    before = guarded.do(command, user="bob")
    guarded.pass_time(7)
    after = guarded.do(command, user="bob")

    assert (before["status"], after["status"]) == ("running", "finished")
    assert all("bobs" in shard.vhost.queues for shard in guarded.vhost.shards)
