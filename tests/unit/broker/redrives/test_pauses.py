"""What a redrive remembers when it is paused, stopped and resumed: canary, deaths, rate."""

from __future__ import annotations

import pytest

from streaming.broker.commands import Redrive
from streaming.broker.events import Kind
from tests.unit.broker.redrives.builders import (
    CUT,
    a_broker,
    control,
    events,
    kill,
    letters,
    redrive,
    said,
)


def pause_and_resume(broker):
    control(broker, "pause")
    return control(broker, "resume")


@CUT
def test_a_pause_does_not_end_the_wait_for_the_canary(cut):
    broker = a_broker(5, cut=cut)
    redrive(broker, letters(broker), canary=2)

    assert pause_and_resume(broker)["moved"] == 2
    broker.at(10_000)
    assert control(broker, "status")["moved"] == 2
    broker.get("work", "g", count=2)
    broker.ack("g/0")
    broker.reject("g/1")
    broker.at(20_000)

    assert said(broker) == ["requested", "paused", "resumed", "stopped"]


@CUT
def test_a_canary_that_was_not_complete_goes_on_after_a_pause(cut):
    broker = a_broker(5, cut=cut)
    redrive(broker, letters(broker), canary=3, rate=1)

    pause_and_resume(broker)
    broker.at(60_000)

    assert broker.depth("work") == 3


@CUT
@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_pause_forgives_no_death(cut, every):
    broker = a_broker(20, cut=cut)
    redrive(broker, letters(broker), rate=1, stop_after=3)
    for second in range(10):
        kill(broker, "work", 1)
        broker.at(1_000 * second + 1_000)
        if second % every == 0 and said(broker)[-1] != "stopped":
            pause_and_resume(broker)

    assert said(broker)[-1] == "stopped"
    assert control(broker, "status")["moved"] == 3


@CUT
def test_only_a_resume_after_a_stop_forgives(cut):
    broker = a_broker(20, cut=cut)
    redrive(broker, letters(broker), rate=1, stop_after=2)
    for second in range(20):
        kill(broker, "work", 1)
        broker.at(1_000 * second + 1_000)
        if control(broker, "status")["status"] == "stopped":
            break
    stopped_at = control(broker, "status")["moved"]
    control(broker, "resume")
    for later in range(second + 1, second + 20):
        kill(broker, "work", 1)
        broker.at(1_000 * later + 1_000)

    assert stopped_at == 2
    assert control(broker, "status") == {
        "status": "stopped",
        "total": 20,
        "moved": 4,
        "skipped": 0,
        "parked": 0,
    }


@pytest.mark.parametrize("every_ms", [10, 100, 130, 700])
def test_resumes_move_no_letter_above_the_rate(every_ms):
    broker = a_broker(100)
    redrive(broker, letters(broker), rate=2)
    for after_ms in range(every_ms, 10_000, every_ms):
        broker.at(after_ms)
        pause_and_resume(broker)

    moves = [row.at_ms for row in events(broker) if row.kind is Kind.REDRIVEN]
    assert len(moves) in range(19, 22)


def test_a_resume_waits_no_longer_than_the_rate_asks():
    broker = a_broker(10)
    redrive(broker, letters(broker), rate=5)
    broker.at(100)
    pause_and_resume(broker)
    broker.at(320)

    assert broker.depth("work") == 2


@CUT
def test_a_pause_while_letters_arrive_holds_until_a_resume(cut):
    broker = a_broker(4, cut=cut)
    sealed = letters(broker)
    redrive(broker, sealed[:2], total=4)

    assert control(broker, "pause")["status"] == "paused"
    assert redrive(broker, sealed[2:3], total=4, first=2)["status"] == "paused"
    assert control(broker, "resume")["status"] == "receiving"
    assert control(broker, "pause")["status"] == "paused"
    assert redrive(broker, sealed[3:], total=4, first=3)["status"] == "paused"
    broker.at(10_000)
    assert broker.depth("work") == 0
    assert control(broker, "resume")["status"] == "finished"

    assert broker.drain("work") == ["m0", "m1", "m2", "m3"]


@CUT
@pytest.mark.parametrize("action", ["pause", None])
def test_an_empty_part_of_a_complete_redrive_starts_nothing(cut, action):
    broker = a_broker(4, cut=cut)
    sealed = letters(broker)
    redrive(broker, sealed, rate=1)
    if action:
        control(broker, action)
    before = control(broker, "status")

    again = Redrive(id="r", reason="x", seal="s", total=4, first=4, letters=())

    assert broker.answer(again) == before
    assert broker.depth("work") == 1
