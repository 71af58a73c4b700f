"""Purges, deletions and consumers that concern very many copies continue in portions."""

import pytest

from streaming.broker import commands
from streaming.broker.queues import queue, unfinished
from tests.builders import START_MS, Broker

CUT = pytest.mark.parametrize("cut", [False, True])
KINDS = pytest.mark.parametrize(
    "arguments",
    [{}, {"max_priority": 2}, {"queue_type": "quorum"}],
    ids=["classic", "priority", "quorum"],
)
COUNT = 8
BODIES = [f"m{number}" for number in range(COUNT)]


@pytest.fixture(autouse=True)
def portion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MAX_AT_ONCE", 3)


def full_queue(cut: bool, **arguments: object) -> Broker:
    """A queue `work` with eight messages; three are handled at once."""
    broker = Broker(cut=cut)
    broker.queue("work", **arguments)
    for body in BODIES:
        broker.publish("", "work", body)
    broker.story()
    return broker


def told_at(broker: Broker, *after_ms: int) -> list[list[str]]:
    """What happened until each of these times."""
    told = []
    for each in after_ms:
        broker.at(each)
        told.append(broker.story())
    return told


@CUT
@KINDS
def test_a_purge_is_answered_at_once_and_told_in_portions(cut, arguments):
    broker = full_queue(cut, **arguments)

    answer = broker.answer(commands.Purge(queue="work"))
    broker.publish("", "work", "new")

    assert answer == {"purged": COUNT}
    assert broker.depth("work") == 1
    assert broker.story() == ["new enqueued in work"]
    purged = [f"{body} purged in work" for body in BODIES]
    assert told_at(broker, 99, 100, 200, 300, 1_000) == [
        [],
        purged[:3],
        purged[3:6],
        purged[6:],
        [],
    ]
    assert broker.drain("work") == ["new"]


@CUT
@KINDS
def test_a_deleted_queue_leaves_in_portions_and_its_name_is_free_at_once(cut, arguments):
    broker = full_queue(cut, **arguments)

    answer = broker.answer(commands.DeleteQueue(queue="work"))
    broker.queue("work")
    broker.publish("", "work", "new")

    assert answer == {"deleted_ready": COUNT}
    assert broker.story() == ["new enqueued in work"]
    broker.at(1_000)
    assert broker.story() == [f"{body} deleted in work" for body in BODIES]
    assert broker.drain("work") == ["new"]


@CUT
def test_orphans_are_rerouted_in_portions(cut):
    broker = Broker(cut=cut)
    broker.exchange("alt", "fanout")
    broker.queue("spare")
    broker.bind("alt", "spare")
    broker.queue("work", alternate_exchange="alt")
    for body in BODIES:
        broker.publish("", "work", body)

    broker.do(commands.DeleteQueue(queue="work"))
    depths = [broker.at(after_ms).depth("spare") for after_ms in (0, 100, 200, 300)]

    assert depths == [0, 3, 6, 8]
    assert broker.drain("spare") == BODIES


@CUT
@KINDS
def test_a_consumer_without_prefetch_is_served_in_portions_and_in_order(cut, arguments):
    broker = full_queue(cut, **arguments)

    broker.consume("work", "c")
    broker.publish("", "work", "new")

    assert broker.deliveries() == [f"c/{number} m{number}" for number in range(3)]
    assert broker.shard.overview().queues["work"].paused
    broker.at(100)
    assert len(broker.deliveries()) == 6
    broker.at(200)
    assert broker.deliveries() == [
        *(f"c/{number} m{number}" for number in range(COUNT)),
        "c/8 new",
    ]
    broker.at(300)
    assert not broker.shard.overview().queues["work"].paused
    broker.publish("", "work", "last")
    assert broker.deliveries()[-1] == "c/9 last"


@CUT
def test_a_paused_queue_that_is_deleted_is_served_no_more(cut):
    broker = full_queue(cut)
    broker.consume("work", "c")

    broker.do(commands.DeleteQueue(queue="work"))
    broker.at(1_000)

    assert len(broker.deliveries()) == 3
    assert broker.depth("work") is None


@CUT
def test_two_paused_queues_take_turns_and_detached_copies_go_first(cut):
    broker = full_queue(cut)
    for name in ("other", "purged"):
        broker.queue(name)
        for body in BODIES[:4]:
            broker.publish("", name, body)
    broker.consume("work", "c")
    broker.consume("other", "d", channel="c1")
    broker.do(commands.Purge(queue="purged"))
    broker.story()

    first, second, third = told_at(broker, 100, 200, 300)

    assert [line.split(" ", 1)[1] for line in first] == ["purged in purged"] * 3
    assert [line.split(" ", 1)[1] for line in second] == [
        "purged in purged",
        *["delivered in work"] * 3,
    ]
    assert [line.split(" ", 1)[1] for line in third] == ["delivered in other"]


def test_a_batch_does_a_limited_number_of_portions_and_the_next_goes_on(monkeypatch):
    monkeypatch.setattr(unfinished, "PORTIONS_PER_BATCH", 2)
    broker = full_queue(cut=False)
    broker.do(commands.Purge(queue="work"))

    told = told_at(broker, 10_000, 10_001, 20_000)

    assert [len(lines) for lines in told] == [6, 2, 0]


def test_unfinished_work_sets_the_deadline_and_leaves_nothing_behind():
    broker = full_queue(cut=False)
    before = {key for key in broker.store.values if key == "unfinished"}
    broker.do(commands.Purge(queue="work"))

    due_ms = broker.finish().next_deadline_ms
    during = {key for key in broker.store.values if key == "unfinished"}
    broker.at(1_000)
    broker.finish()

    assert due_ms == START_MS + unfinished.CONTINUE_AFTER_MS
    assert (before, during) == (set(), {"unfinished"})
    assert "unfinished" not in broker.store.values
    assert broker.finish().next_deadline_ms == 1 << 62
