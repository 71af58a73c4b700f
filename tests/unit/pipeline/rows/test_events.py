"""The rows of `events` equal the broker's events read one by one."""

from collections import Counter

from streaming.broker.events import Kind
from streaming.pipeline.rows.events import KIND_NAMES, event_table
from tests.bench import workload
from tests.bench.core import Broker
from tests.unit.queries.random_play import RandomPlay


def test_every_event_has_its_own_actor_kind_queue_and_instant() -> None:
    # The actor of a delivery or dead letter is its consumer, not the publisher.
    broker = Broker()
    depths = workload.Depths()
    broker.command(*workload.declarations(depths))
    broker.command(*workload.consumers(depths), actor=workload.WORKER)
    events = broker.fold(broker.log.batch(2))
    table = event_table(events, "query", 7, "/", 0).to_pylist()
    expected = [
        (
            event.seq,
            KIND_NAMES[event.kind],
            event.queue or None,
            event.user,
            event.channel or None,
            event.at_ms,
        )
        for event in events.rows()
    ]
    assert [
        (
            row["seq"],
            row["kind"],
            row["queue"],
            row["user"],
            row["channel"],
            int(row["at"].timestamp() * 1000),
        )
        for row in table
    ] == expected
    delivered = [row for row in table if row["kind"] == Kind.DELIVERED.name.lower()]
    assert {row["channel"] for row in delivered} == {workload.WORKER.channel}


def test_each_return_has_its_number_whatever_follows_in_the_batch() -> None:
    returned: Counter[int] = Counter()
    most_in_a_batch = 0
    for seed in range(10):
        play = RandomPlay(seed)
        returned.clear()
        for _ in range(3):
            play.steps(200)
            before = returned.copy()
            for row in event_table(play.broker.finish().events, "query", 7, "/", 0).to_pylist():
                if row["kind"] == "requeued":
                    returned[row["copy_id"]] += 1
                    assert row["number"] == returned[row["copy_id"]]
            most_in_a_batch = max(most_in_a_batch, *(returned - before).values(), 0)
    assert most_in_a_batch > 1
