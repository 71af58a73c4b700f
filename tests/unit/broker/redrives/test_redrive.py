"""A redrive moves exactly its sealed letters, each once, and says why others stay."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.commands import Redrive
from streaming.broker.events import Kind
from streaming.broker.redrive_letters import Letter, RedriveOptions, Target
from tests.builders import Broker
from tests.property.broker.playing import tiny_pages
from tests.unit.broker.redrives.builders import (
    CUT,
    WORK,
    a_broker,
    events,
    in_queue,
    kill,
    letters,
    redrive,
    skipped,
)


@CUT
def test_letters_return_to_where_they_died_in_their_order(cut):
    broker = a_broker(cut=cut)

    answer = redrive(broker, letters(broker))

    assert answer == {"status": "finished", "total": 5, "moved": 5, "skipped": 0, "parked": 0}
    assert broker.drain("work") == ["m0", "m1", "m2", "m3", "m4"]
    assert broker.depth("dead") == 0
    moves = [row for row in events(broker) if row.kind is Kind.REDRIVEN]
    assert [(move.queue, move.number, move.detail) for move in moves] == [
        ("dead", 1, {"redrive": "r", "targets": ["work"]})
    ] * 5
    parents = [row.copy.parent_copy_id for row in broker.rows if row.copy is not None]
    assert {move.copy.copy_id for move in moves} <= set(parents)


@CUT
def test_the_same_id_again_moves_nothing(cut):
    broker = a_broker(cut=cut)
    sealed = letters(broker)
    redrive(broker, sealed)
    kill(broker, "work", 5)
    before = broker.depth("dead")

    again = redrive(broker, sealed)

    assert again["moved"] == 5
    assert (before, broker.depth("dead"), broker.depth("work")) == (5, 5, 0)


def test_an_id_stands_for_one_sealed_list():
    broker = a_broker()
    sealed = letters(broker)
    redrive(broker, sealed)

    refusal = broker.refusal(Redrive(id="r", reason="x", seal="t", total=5, letters=sealed))

    assert refusal is not None
    assert refusal.code == 406


@CUT
def test_what_changed_since_is_skipped_and_listed(cut):
    broker = a_broker(cut=cut)
    sealed = letters(broker)
    broker.get("dead", count=2, auto_ack=True)
    broker.get("dead", "held", count=1)

    answer = redrive(broker, sealed)

    assert (answer["moved"], answer["skipped"]) == (2, 3)
    assert skipped(broker) == [(letter.copy_id, "not_ready") for letter in sealed[:3]]
    assert broker.drain("work") == ["m3", "m4"]


def test_an_expired_letter_that_is_not_at_the_head_yet_is_skipped():
    broker = Broker()
    broker.queue("dead")
    broker.publish("", "dead", "m0")
    broker.publish("", "dead", "m1", expiration="100")
    sealed = letters(broker, Target("dead", "", ("dead",)))
    broker.at(200)

    assert redrive(broker, sealed[1:])["skipped"] == 1


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (Target("gone", "", ("gone",)), "target_gone"),
        (Target(None, "gone", ("key",)), "target_gone"),
        (Target(None, "amq.direct", ("key",)), "no_route"),
    ],
)
def test_a_letter_without_a_target_stays(target, reason):
    broker = a_broker(1)
    sealed = letters(broker, target)

    redrive(broker, sealed)

    assert skipped(broker) == [(sealed[0].copy_id, reason)]
    assert broker.drain("dead") == ["m0"]


def test_a_letter_whose_queue_is_gone_is_skipped():
    broker = a_broker(1)
    sealed = letters(broker)
    broker.do(commands.DeleteQueue(queue="dead"))

    redrive(broker, sealed)

    assert skipped(broker) == [(sealed[0].copy_id, "queue_gone")]


def test_a_copy_belongs_to_one_open_redrive():
    broker = a_broker(2)
    sealed = letters(broker)
    redrive(broker, sealed, rate=1)

    other = redrive(broker, sealed[1:] * 2, id="other")

    assert (other["moved"], other["skipped"]) == (0, 2)
    assert skipped(broker) == [(sealed[1].copy_id, "in_redrive")] * 2


def test_the_exchange_of_a_target_routes_the_letter_again():
    broker = a_broker(1)
    broker.queue("copy")
    broker.bind("amq.fanout", "copy")
    broker.bind("amq.fanout", "work")

    redrive(broker, letters(broker, Target(None, "amq.fanout", ("k",))))

    assert (broker.depth("copy"), broker.depth("work"), broker.depth("dead")) == (1, 1, 0)
    [move] = [row for row in events(broker) if row.kind is Kind.REDRIVEN]
    assert sorted(move.detail["targets"]) == ["copy", "work"]


def test_a_redriven_letter_bears_its_marks_and_keeps_the_rest():
    broker = a_broker(1)

    redrive(broker, letters(broker, Target("work", "shop", ("new",))))

    [got] = broker.get("work")
    envelope = got.copy.envelope
    headers = broker.delivered_headers(got.copy) or {}
    assert headers["n"] == 0
    assert (headers["x-redrive-id"], headers["x-redrive-count"]) == ("r", 1)
    assert [entry["queue"] for entry in headers["x-death"]] == ["work"]
    assert (envelope.exchange, envelope.routing_keys, envelope.expiration) == (
        "shop",
        ("new",),
        None,
    )


def test_x_death_can_be_cleared():
    broker = a_broker(1)

    redrive(broker, letters(broker), x_death="clear")

    [got] = broker.get("work")
    assert set(broker.delivered_headers(got.copy) or {}) == {"n", "x-redrive-id", "x-redrive-count"}


@pytest.mark.parametrize(("expiration", "left_ms"), [("restart", 60_000), ("keep", 50_000)])
def test_an_expiration_starts_again_or_goes_on(expiration, left_ms):
    broker = a_broker(1)
    broker.at(10_000)
    [letter] = letters(broker)
    published_ms = broker.time_ms - 10_000
    sealed = (Letter(0, letter.copy_id, "dead", WORK, published_ms),)

    redrive(broker, sealed, expiration=expiration)

    assert broker.depth("work") == 1
    broker.at(10_000 + left_ms - 1)
    assert broker.depth("work") == 1
    broker.at(10_000 + left_ms)
    assert (broker.depth("work"), broker.depth("dead")) == (0, 1)


def test_a_letter_without_an_expiration_gets_none():
    broker = Broker()
    broker.queue("dead")
    broker.queue("work")
    broker.publish("", "dead", "m0")

    redrive(broker, letters(broker), expiration="restart")

    [got] = broker.get("work")
    assert got.copy.envelope.expiration is None


def test_a_letter_is_parked_once_it_was_redriven_often_enough():
    broker = a_broker(1)
    for number in range(2):
        sealed = letters(broker)[-1:]
        assert redrive(broker, sealed, id=f"r{number}", cap=2)["moved"] == 1
        kill(broker, "work", 1)
    sealed = letters(broker)[-1:]

    answer = redrive(broker, sealed, id="last", cap=2)

    assert (answer["moved"], answer["parked"]) == (0, 1)
    assert skipped(broker) == [(sealed[0].copy_id, "cap")]
    assert broker.drain("dead") == ["m0"]


def test_a_count_that_no_redrive_wrote_is_no_count():
    broker = Broker()
    broker.queue("dead")
    broker.queue("work")
    broker.publish("", "dead", "m0", headers={"x-redrive-count": 3})

    assert redrive(broker, letters(broker))["moved"] == 1


@CUT
@pytest.mark.parametrize("kind", ["classic", "priority", "quorum"])
@pytest.mark.parametrize("chosen", [{5}, {0, 9}, {2, 3, 4, 5}, set(range(10))])
def test_letters_move_from_wherever_they_are_in_their_queue(cut, kind, chosen):
    with tiny_pages():
        broker = Broker(cut=cut)
        broker.queue("work")
        arguments: Any = {"max_priority": 2} if kind == "priority" else {"queue_type": kind}
        broker.queue("dead", **arguments)
        for number in range(10):
            priority: Any = {"priority": 1} if kind == "priority" and number == 9 else {}
            broker.publish("", "dead", f"m{number}", **priority)
        broker.get("dead", "g", count=3)
        broker.reject("g/1", requeue=True)
        broker.reject("g/0", requeue=True)
        broker.reject("g/2", requeue=True)
        births = {
            row.copy.message.offset: row.seq for row in events(broker) if row.kind is Kind.ENQUEUED
        }
        sealed = tuple(Letter(0, births[number], "dead", WORK) for number in sorted(chosen))

        assert redrive(broker, sealed)["moved"] == len(chosen)

        assert broker.drain("work") == [f"m{number}" for number in sorted(chosen)]
        left = {f"m{number}" for number in range(10) if number not in chosen}
        assert set(broker.drain("dead")) == left
        assert broker.depth("dead") == 0


@pytest.mark.parametrize("arguments", [{"max_priority": 2}, {"queue_type": "quorum"}, {}])
def test_a_letter_that_is_nowhere_does_not_hide_the_others(arguments):
    broker = Broker()
    broker.queue("work")
    broker.queue("dead", **arguments)
    for number in range(3):
        broker.publish("", "dead", f"m{number}", priority=2 - number)
    last = in_queue(broker, "dead")[-1]
    broker.get("dead", count=1, auto_ack=True)
    sealed = (Letter(0, 999, "dead", WORK), Letter(0, last, "dead", WORK))

    answer = redrive(broker, sealed)

    assert (answer["moved"], answer["skipped"]) == (1, 1)
    assert (broker.drain("work"), broker.drain("dead")) == (["m2"], ["m1"])


@CUT
def test_a_redrive_starts_when_all_its_parts_have_arrived(cut):
    broker = a_broker(5, cut=cut)
    sealed = letters(broker)

    first = redrive(broker, sealed[:3], total=5)
    again = redrive(broker, sealed[:3], total=5)
    assert (first["status"], again["status"], broker.depth("work")) == ("receiving", "receiving", 0)
    gap = broker.refusal(
        Redrive(id="r", reason="x", seal="s", total=5, first=4, letters=sealed[4:])
    )
    much = broker.refusal(
        Redrive(id="r", reason="x", seal="s", total=5, first=3, letters=sealed[:3])
    )
    assert (gap and gap.code, much and much.code) == (406, 406)
    assert redrive(broker, sealed[3:], total=5, first=3)["status"] == "finished"

    assert broker.drain("work") == ["m0", "m1", "m2", "m3", "m4"]


@CUT
def test_letters_of_later_parts_wait_for_the_rate_too(cut):
    broker = a_broker(4, cut=cut)
    sealed = letters(broker)
    redrive(broker, sealed[:2], total=4, rate=1)
    redrive(broker, sealed[2:], total=4, first=2, rate=1)

    broker.at(1_000)
    assert broker.depth("work") == 2
    broker.at(10_000)
    assert broker.drain("work") == ["m0", "m1", "m2", "m3"]


def test_a_lane_moves_only_its_own_letters():
    broker = a_broker(2, lanes=1)
    sealed = letters(broker)
    mixed = (sealed[0], Letter(1, sealed[1].copy_id, "dead", WORK))

    assert redrive(broker, mixed)["moved"] == 1
    assert broker.drain("dead") == ["m1"]


@CUT
def test_discarded_letters_leave_their_queue_for_nowhere(cut):
    broker = a_broker(3, cut=cut)

    answer = redrive(broker, letters(broker, None)[:2], action="discard")

    assert answer["moved"] == 2
    assert broker.drain("dead") == ["m2"]
    assert [row.queue for row in events(broker) if row.kind is Kind.DISCARDED] == ["dead"] * 2


def test_a_letter_of_an_empty_queue_is_skipped():
    broker = a_broker(1)
    sealed = letters(broker)
    broker.drain("dead")

    assert redrive(broker, sealed)["skipped"] == 1


def test_a_letter_in_a_queue_is_not_restored_past_its_cap():
    broker = a_broker(1)
    options = RedriveOptions(action="restore")
    command = Redrive(
        id="r", reason="x", seal="s", total=1, letters=letters(broker), options=options
    )

    refusal = broker.refusal(command)

    assert refusal is not None
    assert (refusal.code, broker.depth("dead")) == (406, 1)
