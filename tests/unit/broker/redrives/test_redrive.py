"""A redrive moves exactly its sealed letters, each once, and says why others stay."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.commands import ControlRedrive, Redrive, RedriveAction
from streaming.broker.events import Kind
from streaming.broker.redrive_letters import Letter, RedriveOptions, Target
from streaming.broker.redrives import open_redrives
from tests.builders import ADMIN, Broker
from tests.property.broker.playing import tiny_pages
from topology.declarations import Queue
from topology.refusals import Refusal

CUT = pytest.mark.parametrize("cut", [False, True])
WORK = Target("work", "", ("work",))


def a_broker(letters: int = 5, **fields: Any) -> Broker:
    """A broker with letters `m0`, `m1`, ... in `dead`, which died in `work`."""
    broker = Broker(**fields)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for number in range(letters):
        broker.publish("", "work", f"m{number}", expiration="60000", headers={"n": number % 2})
    kill(broker, "work", letters)
    return broker


def kill(broker: Broker, queue: str, count: int) -> None:
    given = broker.get(queue, "kill", count=count, channel="killer")
    for number in range(len(given)):
        broker.reject(f"kill/{number}", channel="killer")


def events(broker: Broker) -> list[Any]:
    broker.finish()
    return broker.rows


def in_queue(broker: Broker, queue: str) -> list[int]:
    """The copies that ever entered a queue, oldest first."""
    return [row.seq for row in events(broker) if row.kind is Kind.ENQUEUED and row.queue == queue]


def letters(
    broker: Broker, target: Target | None = WORK, queue: str = "dead"
) -> tuple[Letter, ...]:
    return tuple(Letter(0, copy_id, queue, target) for copy_id in in_queue(broker, queue))


def redrive(broker: Broker, sealed: tuple[Letter, ...], **options: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": "r",
        "reason": "fixed",
        "seal": "s",
        "total": len(sealed),
        "first": 0,
    }
    fields |= {name: options.pop(name) for name in list(options) if name in fields}
    user = options.pop("user", None)
    command = Redrive(letters=sealed, options=RedriveOptions(**options), **fields)
    answer = broker.answer(command, user=user)
    assert isinstance(answer, dict), answer
    return answer


def control(broker: Broker, action: RedriveAction, redrive_id: str = "r", **fields: Any) -> Any:
    return broker.answer(ControlRedrive(id=redrive_id, action=action, reason="why"), **fields)


def skipped(broker: Broker) -> list[tuple[int, str]]:
    rows = [row.detail for row in events(broker) if row.kind is Kind.SKIPPED]
    return [(detail["copy_id"], detail["reason"]) for detail in rows]


def said(broker: Broker) -> list[str]:
    return [row.detail["what"] for row in events(broker) if row.kind is Kind.REDRIVE]


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


# -- progress


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


# -- parts


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


# -- discard


@CUT
def test_discarded_letters_leave_their_queue_for_nowhere(cut):
    broker = a_broker(3, cut=cut)

    answer = redrive(broker, letters(broker, None)[:2], action="discard")

    assert answer["moved"] == 2
    assert broker.drain("dead") == ["m2"]
    assert [row.queue for row in events(broker) if row.kind is Kind.DISCARDED] == ["dead"] * 2


# -- permissions


def a_guarded_broker(**permissions: str) -> Broker:
    broker = a_broker(1, enforce_permissions=True, administrators=(ADMIN,))
    fields = {"configure": "", "write": "", "read": ""} | permissions
    broker.do(commands.SetPermissions(user="ann", **fields))
    return broker


@pytest.mark.parametrize(
    ("permissions", "target", "code"),
    [
        ({"read": "^dead$", "write": "^amq.default$"}, WORK, None),
        ({"read": "^dead$", "write": "^amq.fanout$"}, Target(None, "amq.fanout", ("",)), None),
        ({"read": "^other$", "write": ".*"}, WORK, 403),
        ({"read": ".*", "write": "^work$"}, WORK, 403),
        ({"read": ".*", "write": "^amq.default$"}, Target(None, "amq.fanout", ("",)), 403),
    ],
)
def test_a_user_needs_what_a_get_and_a_publish_need(permissions, target, code):
    broker = a_guarded_broker(**permissions)
    sealed = letters(broker, target)

    command = Redrive(id="r", reason="x", seal="s", total=1, letters=sealed)
    refusal = broker.refusal(command, user="ann")

    assert (refusal and refusal.code) == code


def test_another_users_redrive_is_controlled_by_administrators_only():
    broker = a_guarded_broker(read="^dead$", write="^amq.default$")
    redrive(broker, letters(broker), rate=1, total=2, user="ann")

    refusal = control(broker, "pause", user="bob")

    assert isinstance(refusal, Refusal)
    assert refusal.code == 403
    assert "may not pause redrive 'r', which user 'ann' approved, in vhost '/'" in refusal.text
    assert control(broker, "cancel", user=ADMIN)["status"] == "cancelled"


def test_an_exclusive_queue_of_another_channel_is_refused():
    broker = a_broker(1)
    broker.do(commands.DeclareQueue(queue=Queue("mine", exclusive=True), channel="own"))
    sealed = (Letter(0, 1, "mine", WORK),)

    refusal = broker.refusal(Redrive(id="r", reason="x", seal="s", total=1, letters=sealed))

    assert refusal is not None
    assert refusal.code == 405


def test_an_internal_exchange_is_refused():
    broker = a_broker(1)
    broker.exchange("inner", internal=True)
    sealed = letters(broker, Target(None, "inner", ("k",)))

    refusal = broker.refusal(Redrive(id="r", reason="x", seal="s", total=1, letters=sealed))

    assert refusal is not None
    assert refusal.code == 403


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


def test_a_refused_part_ends_its_redrive():
    broker = a_guarded_broker(read="^dead$", write="^amq.default$")
    [letter] = letters(broker)
    redrive(broker, (letter,), total=2, user="ann")
    other = Letter(0, letter.copy_id, "other", WORK)
    fields: dict[str, Any] = {"id": "r", "reason": "x", "seal": "s", "total": 2, "first": 1}

    refusal = broker.refusal(Redrive(letters=(other,), **fields), user="ann")

    assert refusal is not None
    assert refusal.code == 403
    assert control(broker, "status")["status"] == "cancelled"
    assert said(broker) == ["requested", "cancelled"]
    assert broker.drain("dead") == ["m0"]


def test_nobody_adds_letters_to_the_redrive_of_another_user():
    broker = a_guarded_broker(read="^dead$", write="^amq.default$")
    [letter] = letters(broker)
    redrive(broker, (letter,), total=2, user="ann")
    fields: dict[str, Any] = {"id": "r", "reason": "x", "seal": "s", "total": 2, "first": 1}

    refusal = broker.refusal(Redrive(letters=(letter,), **fields), user=ADMIN)

    assert refusal is not None
    assert refusal.code == 403
    assert control(broker, "status")["status"] == "receiving"
