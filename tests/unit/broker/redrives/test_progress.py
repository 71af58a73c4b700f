"""How far a redrive goes, and when: rate, ceiling, canary, stop rules, commands to it."""

from __future__ import annotations

import pytest

from streaming.broker import commands
from streaming.broker.commands import Redrive
from streaming.broker.events import Kind
from streaming.broker.redrive_letters import Letter, RedriveOptions, Target
from streaming.broker.redrives import open_redrives
from tests.builders import Broker
from tests.unit.broker.redrives.builders import (
    CUT,
    WORK,
    a_broker,
    control,
    events,
    in_queue,
    kill,
    letters,
    redrive,
    said,
)
from topology.declarations import Queue
from topology.refusals import Refusal


@CUT
def test_a_rate_is_kept(cut):
    broker = a_broker(10, cut=cut)
    assert redrive(broker, letters(broker), rate=4)["moved"] == 1
    depths = []
    for second in (250, 500, 1000, 1250, 2000, 5000):
        broker.at(second)
        depths.append(broker.depth("work"))
    assert depths == [2, 3, 5, 6, 9, 10]
    assert said(broker) == ["requested", "finished"]


@pytest.mark.parametrize(("rate", "lanes"), [(1, 4), (2, 4), (4, 4), (6, 4)])
def test_lanes_keep_a_rate_together(rate, lanes):
    moved = 0
    for lane in range(lanes):
        broker = Broker(lane=lane, lanes=lanes)
        for name in ("work", "dead"):
            broker.do(commands.DeclareQueue(queue=Queue(name)))
        for number in range(100):
            broker.publish("", "dead", f"m{number}")
        sealed = tuple(Letter(lane, copy_id, "dead", WORK) for copy_id in in_queue(broker, "dead"))
        options = RedriveOptions(rate=rate)
        broker.do(Redrive(id="r", reason="x", seal="s", total=100, letters=sealed, options=options))
        for tick in range(100):
            broker.at(100 * tick + 100)
        moved += sum(row.kind is Kind.REDRIVEN for row in events(broker))

    assert moved in range(10 * rate - lanes, 11 * rate + 1)


def test_skipped_letters_are_handled_in_portions_too(monkeypatch):
    monkeypatch.setattr(open_redrives, "MAX_AT_ONCE", 2)
    broker = a_broker(5)
    sealed = letters(broker)
    broker.drain("dead")

    answers = [redrive(broker, sealed)["skipped"]]
    for after_ms in (100, 200):
        broker.at(after_ms)
        answers.append(control(broker, "status")["skipped"])

    assert answers == [2, 4, 5]


def test_without_a_rate_portions_follow_each_other(monkeypatch):
    monkeypatch.setattr(open_redrives, "MAX_AT_ONCE", 2)
    broker = a_broker(5)

    assert redrive(broker, letters(broker))["moved"] == 2
    broker.at(100)
    assert broker.depth("work") == 4
    broker.at(200)

    assert broker.drain("work") == ["m0", "m1", "m2", "m3", "m4"]


def test_when_time_moves_far_a_redrive_has_few_ticks(monkeypatch):
    monkeypatch.setattr(open_redrives, "MAX_AT_ONCE", 1)
    broker = a_broker(50)
    redrive(broker, letters(broker))

    broker.at(3_600_000)

    assert broker.depth("work") in range(10, 15)


@CUT
def test_letters_wait_while_their_target_is_at_the_ceiling(cut):
    broker = a_broker(5, cut=cut)

    assert redrive(broker, letters(broker), ceiling=2)["moved"] == 2
    broker.at(5_000)
    assert broker.drain("work") == ["m0", "m1"]
    broker.at(10_000)
    assert broker.drain("work") == ["m2", "m3"]
    broker.at(15_000)

    assert broker.drain("work") == ["m4"]
    assert said(broker) == ["requested", "finished"]


@CUT
def test_a_full_target_blocks_only_its_own_letters(cut):
    broker = a_broker(4, cut=cut)
    broker.queue("small", max_length=1, overflow="reject-publish")
    broker.queue("other")
    small, other = Target("small", "", ("small",)), Target("other", "", ("other",))
    sealed = letters(broker)
    mixed = tuple(
        Letter(0, one.copy_id, "dead", small if index < 3 else other)
        for index, one in enumerate(sealed)
    )

    assert redrive(broker, mixed)["moved"] == 2

    assert (broker.depth("small"), broker.drain("other")) == (1, ["m3"])
    for expected in ("m0", "m1", "m2"):
        assert broker.drain("small") == [expected]
        broker.at(broker.time_ms - 1_600_000_000_000 + 2_000)
    assert said(broker) == ["requested", "finished"]


def test_a_queue_can_be_source_and_target():
    broker = Broker()
    broker.queue("q", max_length=3)
    broker.queue("other")
    for number in range(3):
        broker.publish("", "q", f"m{number}")
    sealed = letters(broker, Target("q", "", ("q",)), "q")
    broker.publish("", "other", "x")
    other = letters(broker, Target("q", "", ("q",)), "other")

    answer = redrive(broker, (*other, *sealed))

    assert (answer["moved"], answer["skipped"]) == (3, 1)
    assert broker.drain("q") == ["x", "m1", "m2"]


def test_a_target_that_dead_letters_what_it_refuses_is_full_too():
    broker = a_broker(2)
    broker.queue(
        "tiny",
        max_length=1,
        overflow="reject-publish-dlx",
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )

    answer = redrive(broker, letters(broker, Target("tiny", "", ("tiny",))))

    assert (answer["moved"], broker.depth("tiny"), broker.depth("dead")) == (1, 1, 1)


@CUT
def test_after_the_canary_the_others_wait_for_its_fate(cut):
    broker = a_broker(5, cut=cut)

    assert redrive(broker, letters(broker), canary=2)["moved"] == 2
    broker.at(10_000)
    assert broker.depth("work") == 2
    broker.get("work", "g", count=2)
    broker.ack("g/0", "g/1")
    broker.at(20_000)

    assert broker.drain("work") == ["m2", "m3", "m4"]
    assert said(broker) == ["requested", "finished"]


@CUT
def test_a_canary_that_dies_stops_the_redrive_until_it_is_resumed(cut):
    broker = a_broker(5, cut=cut)
    redrive(broker, letters(broker), canary=2)
    broker.get("work", "g", count=2)
    broker.ack("g/0")
    broker.reject("g/1")

    broker.at(10_000)
    assert (broker.depth("work"), said(broker)) == (0, ["requested", "stopped"])
    assert control(broker, "resume")["status"] == "finished"

    assert broker.drain("work") == ["m2", "m3", "m4"]


@CUT
def test_too_many_deaths_stop_a_redrive(cut):
    broker = a_broker(20, cut=cut)
    redrive(broker, letters(broker), rate=10, stop_after=3)
    for _ in range(10):
        kill(broker, "work", 10)
        broker.at(broker.time_ms - 1_600_000_000_000 + 100)

    assert said(broker) == ["requested", "stopped"]
    moves = [row for row in broker.rows if row.kind is Kind.REDRIVEN]
    assert len(moves) == 3


@CUT
def test_a_share_of_deaths_stops_a_redrive_once_ten_fates_are_known(cut):
    broker = a_broker(40, cut=cut)
    redrive(broker, letters(broker), rate=10, stop_percent=50)
    for number in range(30):
        given = broker.get("work", f"g{number}", count=10)
        if number % 2:
            broker.reject(*(one.ref for one in given))
        else:
            broker.ack(*(one.ref for one in given))
        broker.at(broker.time_ms - 1_600_000_000_000 + 100)

    assert said(broker) == ["requested", "stopped"]
    moves = [row for row in broker.rows if row.kind is Kind.REDRIVEN]
    assert len(moves) == 10


def test_a_letter_that_is_purged_counts_as_neither_good_nor_bad():
    broker = a_broker(3)
    redrive(broker, letters(broker), canary=1)
    broker.do(commands.Purge(queue="work"))

    broker.at(5_000)

    assert broker.drain("work") == ["m1", "m2"]


@CUT
def test_a_redrive_can_be_paused_resumed_and_cancelled(cut):
    broker = a_broker(10, cut=cut)
    redrive(broker, letters(broker), rate=1)

    assert control(broker, "status", user="bob")["status"] == "running"
    assert control(broker, "pause")["status"] == "paused"
    assert control(broker, "pause")["status"] == "paused"
    broker.at(5_000)
    assert broker.depth("work") == 1
    assert control(broker, "resume")["status"] == "running"
    assert control(broker, "resume")["status"] == "running"
    assert broker.depth("work") == 2
    assert control(broker, "cancel")["status"] == "cancelled"
    broker.at(60_000)

    assert control(broker, "cancel")["status"] == "cancelled"
    assert (broker.depth("work"), broker.depth("dead")) == (2, 8)
    assert said(broker) == ["requested", "paused", "resumed", "cancelled"]
    assert [key for key in broker.store.values if key.startswith("redrive/")] == []


def test_a_missing_redrive_cannot_be_controlled():
    refusal = control(a_broker(1), "pause")

    assert isinstance(refusal, Refusal)
    assert refusal.code == 404
