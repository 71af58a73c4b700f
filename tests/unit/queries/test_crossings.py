"""Curves, rates, differences and the live view agree on what entered a queue and what left it."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streaming.broker.events import Kind
from streaming.contents.retention import Periods, retain
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.protocol.command_json import parse_command
from streaming.queries.as_of.instant import at_time, last_batch
from streaming.queries.cut import Cut
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.depth_curve import depth_curve
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queue_activity import QueueTraffic, queue_activity
from streaming.queries.queue_changes import queue_changes
from streaming.queries.queue_flow import NO_FLOW, queue_flows
from streaming.queries.queues import list_queues
from streaming.queries.redrives.plan import RedriveWish, plan_redrive
from tests.builders import START_MS, Broker
from tests.seeds import seeds
from tests.unit.queries.random_play import QUEUES, RandomPlay
from tests.unit.queries.recording import Recording, apart

START = datetime.fromtimestamp(START_MS / 1000, UTC)
RETRY_MS = 60_000
LATER_MS = 3_600_000
END = START + timedelta(milliseconds=LATER_MS)
BEGIN = END - timedelta(minutes=10)
PLACE = ("/", "safe")
HALF_MS = timedelta(microseconds=500)


def kill(broker, queue="safe"):
    given = broker.get(queue, f"kill{len(broker.rows)}", 1)
    broker.reject(*(one.ref for one in given))


def held_in(broker):
    """Let a broker hold a copy that died in `safe`, because the target is full."""
    broker.queue("full", max_length=1, overflow="reject-publish")
    broker.queue(
        "safe",
        queue_type="quorum",
        dead_letter_exchange="",
        dead_letter_routing_key="full",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    broker.publish("", "full", "in the way")
    broker.publish("", "safe", "held")
    kill(broker)
    return broker


def make_room(broker):
    """Let the held copy's dead letter arrive at last."""
    broker.get("full", "room", 1, auto_ack=True)
    broker.at(LATER_MS)


@pytest.fixture(params=["no snapshot", "a snapshot", "retention"])
def held_before(request, tmp_path):
    """Tables of two batches: a copy is held in the first, and dies an hour later."""
    broker = Broker(dead_letter_retry_ms=RETRY_MS)
    recording = Recording(tmp_path, broker)
    held_in(broker)
    recording.commit()
    if request.param != "no snapshot":
        SnapshotWriter(recording.place).write()
    if request.param == "retention":
        assert retain(recording.place, Periods(events_ms=1), END)
    make_room(broker)
    recording.commit()
    recording.close()
    with Tables(recording.root) as tables:
        yield tables


def test_a_copy_held_before_a_stretch_does_not_leave_in_it(held_before):
    curve = depth_curve(held_before, *PLACE, BEGIN, END, 4)

    assert (curve.depth, sum(curve.left), sum(curve.died)) == ([0, 0, 0, 0], 0, 0)
    assert queue_flows(held_before, END).get(PLACE, NO_FLOW).left == NO_FLOW.left
    assert queue_changes(held_before, "safe", Cut(0), Cut(1)) == []
    held_before.cut = None
    assert queue_activity(held_before, 0).traffic.get(PLACE, QueueTraffic()) == QueueTraffic()


def test_a_copy_that_is_held_leaves_when_it_is_held(tmp_path):
    broker = Broker(dead_letter_retry_ms=RETRY_MS)
    recording = Recording(tmp_path, broker)
    held_in(broker)
    make_room(broker)
    recording.commit()
    recording.close()

    with Tables(recording.root) as tables:
        curve = depth_curve(tables, *PLACE, START - timedelta(minutes=1), END, 4)
        taken = queue_flows(tables, START + timedelta(seconds=1))[PLACE].taken
        activity = queue_activity(tables, -1).traffic[PLACE]
        changes = [row["why"] for row in queue_changes(tables, "safe", Cut(-1), Cut(0))]

    assert (curve.entered, curve.left, curve.died) == ([1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0])
    assert activity == QueueTraffic(entered=1, left=1)
    assert changes == ["published", "rejected"]
    assert taken == 1, "it was delivered before it was rejected"


def test_copies_of_other_lanes_and_vhosts_with_the_number_of_a_held_one_leave(tmp_path):
    brokers = shards()
    recording = Recording(tmp_path, *brokers)
    held, *others = brokers
    held_in(held)
    for broker in others:
        broker.queue("full", max_length=1, overflow="reject-publish")
        broker.queue("safe", queue_type="quorum")
        broker.publish("", "full", "in the way")
        broker.publish("", "safe", "waits")
    recording.commit()
    make_room(held)
    for broker in others:
        broker.at(LATER_MS)
        kill(broker)
    recording.commit()
    recording.close()
    deaths = {row.copy.copy_id for one in brokers for row in one.rows if row.kind == Kind.DIED}
    assert len(deaths) == 1

    with Tables(recording.root) as tables:
        curves = [depth_curve(tables, vhost, "safe", BEGIN, END, 4) for vhost in ("/", "other")]
        flows = queue_flows(tables, END)
        activity = queue_activity(tables, 0).traffic
        changes = queue_changes(tables, "safe", Cut(0), Cut(1))

    assert [(curve.depth[0], sum(curve.left)) for curve in curves] == [(1, 1), (1, 1)]
    assert {place: sum(one.left) for place, one in flows.items() if place[1] == "safe"} == {
        ("/", "safe"): 1,
        ("other", "safe"): 1,
    }
    assert activity["/", "safe"] == activity["other", "safe"] == QueueTraffic(left=1)
    assert [(row["vhost"], row["lane"], row["change"]) for row in changes] == [
        ("/", 1, "left"),
        ("other", 0, "left"),
    ]


def shards():
    """The brokers of two lanes and of another vhost; what they do alike has the same numbers."""
    configs: list[dict[str, Any]] = [{}, {"lane": 1}, {"vhost": "other"}]
    return [
        apart(Broker(dead_letter_retry_ms=RETRY_MS, **one), 100 * number)
        for number, one in enumerate(configs)
    ]


def test_a_dead_letter_is_not_redriven_because_another_shard_moved_its_number(tmp_path):
    brokers = shards()
    moved, *others = brokers
    recording = Recording(tmp_path, *brokers)
    for broker in brokers:
        broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
        broker.queue("dead", dead_letter_exchange="", dead_letter_routing_key="work")
    moved.publish("", "work", "order")
    kill(moved, "work")
    for broker in others:
        for number in range(4):
            broker.publish("", "dead", f"order {number}")
    recording.commit()
    for broker in others:
        given = broker.get("dead", "all", 4)
        broker.reject(given[-1].ref)
    with Tables(recording.root) as tables:
        plan = plan_redrive(tables, RedriveWish(wanted=DeadLetterFilter(vhost="/")))
    for command in plan.sealed.commands("fixed", plan.sealed.options):
        moved.answer(parse_command({"op": "redrive", **command}))
    recording.commit()
    recording.close()
    parents = {
        row.copy.parent_copy_id
        for broker in brokers
        for row in broker.rows
        if row.kind == Kind.ENQUEUED and row.queue == "work" and row.copy.parent_copy_id > 0
    }
    assert len(parents) == 1, "the numbers coincide"

    with Tables(recording.root) as tables:
        changes = queue_changes(tables, "work", Cut(0), Cut(1))

    assert {(row["vhost"], row["lane"]): (row["why"], row["from_queue"]) for row in changes} == {
        ("/", 0): ("redriven", "dead"),
        ("/", 1): ("dead_lettered", "dead"),
        ("other", 0): ("dead_lettered", "dead"),
    }


def test_a_publish_that_is_rejected_on_arrival_never_leaves(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("box", max_length=1, overflow="reject-publish-dlx", dead_letter_exchange="x")
    for number in range(3):
        broker.publish("", "box", f"order {number}")
    recording.commit()
    recording.close()
    assert [row.kind for row in broker.rows].count(Kind.DIED) == 2
    begin, end = START - timedelta(seconds=1), START + timedelta(seconds=1)

    with Tables(recording.root) as tables:
        curve = depth_curve(tables, "/", "box", begin, end, 1)
        flow = queue_flows(tables, end)["/", "box"]
        activity = queue_activity(tables, -1).traffic["/", "box"]
        changes = queue_changes(tables, "box", Cut(-1), Cut(0))

    assert (curve.entered, curve.left, curve.depth) == ([1], [0], [1])
    assert (sum(flow.entered), sum(flow.left)) == (1, 0)
    assert activity == QueueTraffic(entered=1, left=0)
    assert [row["change"] for row in changes] == ["entered"]


def test_no_earlier_events_are_read_if_no_queue_holds_copies(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="work")
    recording.commit()
    SnapshotWriter(recording.place).write()
    for after_ms in (1_000, LATER_MS):
        broker.at(after_ms)
        broker.publish("", "work", "order")
        recording.commit()
    recording.close()
    for batch_id in (0, 1):
        for file in (tmp_path / "events").glob(f"*.{batch_id:012}.events.*"):
            file.unlink()

    with Tables(recording.root) as tables:
        assert depth_curve(tables, "/", "work", BEGIN, END, 4, deep=2).depth == [1, 1, 1, 2]
        assert sum(queue_flows(tables, END)["/", "work"].entered) == 1


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_all_agree_with_the_contents_wherever_a_stretch_begins(tmp_path, seed):
    """Half of the stretches begin after copies were held that die in them."""
    play = RandomPlay(seed)
    recording = Recording(tmp_path, play.broker)
    ends = [START]
    for batch_id in range(6):
        play.steps(50)
        recording.commit()
        ends.append(START + timedelta(milliseconds=play.time_ms))
        if batch_id == 1:
            SnapshotWriter(recording.place).write()
    recording.close()
    with Tables(recording.root) as tables:
        last = last_batch(tables)
        for first in (1, 3, 4):
            begin, end = ends[first] + HALF_MS, ends[-1] + HALF_MS
            tables.cut = at_time(tables, begin, last)
            before = depths(tables)
            tables.cut = at_time(tables, end, last)
            after = depths(tables)
            for queue in QUEUES:
                curve = depth_curve(tables, "/", queue, begin, end, 5)
                grown = after[queue] - before[queue]
                assert sum(curve.entered) - sum(curve.left) == grown, queue
                assert curve.depth[-1] == after[queue]
            tables.cut = None
        for queue, moves in counted(tables, 2, 5).items():
            assert moves == queue_activity(tables, 2).traffic[queue], queue


def depths(tables):
    return Counter({one.queue: one.ready + one.unacked for one in list_queues(tables)})


def counted(tables, first, last):
    """The traffic of each queue, from the differences."""
    found = {}
    for queue in QUEUES:
        changes = Counter(
            row["change"] for row in queue_changes(tables, queue, Cut(first), Cut(last))
        )
        if changes:
            found["/", queue] = QueueTraffic(changes["entered"], changes["left"])
    tables.cut = None
    return found
