"""What came and went lately agrees with the depth curve, part by part."""

from datetime import UTC, datetime, timedelta

import pytest

from streaming.queries.as_of.instant import at_time, last_batch
from streaming.queries.depth_curve import depth_curve, first_change
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queue_flow import NO_FLOW, PART_S, PARTS, WINDOW, QueueFlow, queue_flows
from streaming.queries.queues import list_queues
from tests.builders import START_MS, Broker
from tests.unit.queries.random_play import QUEUES
from tests.unit.queries.recording import Recording, random_tables

START = datetime.fromtimestamp(START_MS / 1000, UTC)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The tables of random play."""
    with random_tables(tmp_path_factory.mktemp("played") / "tables", seed=11) as tables:
        yield tables


def test_what_came_and_went_is_that_of_the_curve(played):
    last = last_batch(played)
    begin = first_change(played, "/", "work")
    assert begin is not None
    seen = 0
    for later in (timedelta(milliseconds=700), timedelta(minutes=4), WINDOW - timedelta(seconds=1)):
        end = begin + later
        played.cut = at_time(played, end, last)
        flows = queue_flows(played, end)
        depths = {one.queue: one.ready + one.unacked for one in list_queues(played)}
        for queue in QUEUES:
            flow = flows.get(("/", queue), NO_FLOW)
            curve = depth_curve(played, "/", queue, end - WINDOW, end, PARTS)
            assert sum(flow.entered) == sum(curve.entered), queue
            assert sum(flow.left) == sum(curve.left), queue
            assert flow.depths(depths.get(queue, 0))[-1] == depths.get(queue, 0)
            seen += sum(flow.left)
        played.cut = None
    assert seen


def test_parts_and_rates_end_at_the_instant(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    for after_s in (1, 100, 890, 950, 999):
        broker.at(after_s * 1000)
        broker.publish("", "work", "order")
    broker.get("work", "g", 3, auto_ack=True)
    recording.commit()
    recording.close()
    tables = Tables(str(tmp_path))

    flow = queue_flows(tables, START + timedelta(seconds=1000))["/", "work"]

    assert sum(flow.entered) == 3  # the first two are older than the window, or its edge
    assert flow.entered[-1] == 1
    assert flow.entered[-2] == 1
    assert flow.left[-1] == 3
    assert (flow.rate_in, flow.rate_out) == (2 / 60, 3 / 60)
    assert flow.depths(2)[-3:] == [3, 4, 2]
    tables.close()


def test_the_depth_is_never_negative():
    flow = QueueFlow((0,) * (PARTS - 1) + (5,), (0,) * PARTS)

    assert flow.depths(3)[0] == 0
    assert WINDOW.total_seconds() == PART_S * PARTS
