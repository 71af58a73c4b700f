"""The rows of `events` equal the broker's events read one by one."""

from streaming.broker.events import Kind
from streaming.pipeline.rows.events import KIND_NAMES, event_table
from tests.bench import workload
from tests.bench.core import Broker


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
