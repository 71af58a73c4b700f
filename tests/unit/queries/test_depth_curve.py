"""The depth of a queue over time agrees with its contents at every instant of random play."""

from datetime import timedelta

import pytest

from streaming.queries.as_of.instant import at_time, last_batch
from streaming.queries.depth_curve import depth_curve, first_change
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queues import list_queues
from streaming.queries.traffic import traffic
from tests.builders import Broker
from tests.unit.queries.random_play import QUEUES
from tests.unit.queries.recording import Recording, random_tables
from tests.unit.queries.redrives.letters import Shop

HOUR = timedelta(hours=1)
PARTS = 7


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The tables of random play."""
    with random_tables(tmp_path_factory.mktemp("played") / "tables", seed=7) as tables:
        yield tables


def test_the_curve_is_as_deep_as_the_queue_at_each_instant(played):
    last = last_batch(played)
    begin = first_change(played, "/", "work")
    assert begin is not None
    seen = 0
    for milliseconds in (100, 500, 3_600_000):
        instant = begin + timedelta(milliseconds=milliseconds)
        played.cut = at_time(played, instant, last)
        depths = {one.queue: one.ready + one.unacked for one in list_queues(played)}
        for queue in QUEUES:
            curve = depth_curve(played, "/", queue, begin - HOUR, instant, PARTS)

            assert curve.depth[-1] == depths.get(queue, 0), queue
            steps = zip([0, *curve.depth], curve.depth, strict=False)
            moved = zip(curve.entered, curve.left, strict=True)
            assert [now - then for then, now in steps] == [came - went for came, went in moved]
            seen += sum(curve.died)
        played.cut = None
    assert seen


def test_what_entered_the_queues_is_counted_by_exchange(played):
    begin = first_change(played, "/", "work")
    assert begin is not None

    found = traffic(played, "/", begin - HOUR, begin + HOUR)

    for queue in QUEUES:
        curve = depth_curve(played, "/", queue, begin - HOUR, begin + HOUR, PARTS)
        entered = sum(count for (_, name), count in found.entered.items() if name == queue)
        assert entered == sum(curve.entered), queue
    assert sum(found.deaths.values())


def test_what_a_bounded_queue_drops_is_not_lost_on_its_way(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("ring", max_length=1)
    broker.queue("work")
    for queue in ("ring", "work"):
        broker.publish("", queue, "one")
        broker.publish("", queue, "two")
    broker.reject(*(one.ref for one in broker.get("work", "g", 1)))
    recording.commit()

    with Tables(recording.root) as tables:
        begin = first_change(tables, "/", "ring")
        assert begin is not None
        found = traffic(tables, "/", begin - HOUR, begin + HOUR)

    assert (found.lost, found.dropped) == ({"work": 1}, {"ring": 1})


def test_a_curve_is_marked_by_the_redrives_of_its_own_letters(tmp_path):
    shop = Shop(tmp_path, letters=1)
    shop.broker.queue("other")
    plan = shop.plan()
    shop.approve(plan)
    shop.broker.at(1_000)

    def marks(tables, queue):
        begin = first_change(tables, "/", "work")
        assert begin is not None
        curve = depth_curve(tables, "/", queue, begin - HOUR, begin + HOUR, PARTS)
        return [one.name for one in curve.marks if one.what == "redrive"]

    found = {queue: shop.ask(marks, queue) for queue in ("work", "dead", "other")}

    assert found == {"work": [plan.sealed.id], "dead": [plan.sealed.id], "other": []}
