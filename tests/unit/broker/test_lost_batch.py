"""A batch that was dropped after clients got its records: its numbers are not given again."""

import msgspec

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.outbound import OUTBOUND_STEP, DeliveryOut, next_start
from tests.builders import Broker


def test_numbers_begin_above_those_of_a_dropped_batch_and_no_settlement_reaches_another_copy():
    broker = Broker()
    broker.queue("work")
    broker.publish("", "work", "m1")
    broker.publish("", "work", "m2")
    broker.finish()
    rested = dict(broker.store.values)
    lost = broker.get("work", count=2)
    sent = broker.finish()
    broker.store.values = rested

    broker.config = msgspec.structs.replace(
        broker.config, outbound_from=next_start(sent.first_outbound)
    )
    broker.shard = broker.reopened()
    again = broker.get("work")
    broker.ack(lost[0].delivery_id, lost[1].delivery_id)
    batch = broker.finish()

    assert batch.first_outbound == OUTBOUND_STEP > sent.first_outbound + len(sent.outbound)
    assert {out.delivery_id for out in again}.isdisjoint(out.delivery_id for out in lost)
    assert (broker.depth("work"), batch.resident_messages) == (1, 2)
    assert Kind.ACKED not in {event.kind for event in batch.events.rows()}


def test_the_channels_of_before_are_closed_once_and_their_deliveries_return():
    broker = Broker()
    broker.queue("work")
    broker.publish("", "work", "m1")
    broker.get("work", "g")
    broker.finish()

    broker.config = msgspec.structs.replace(broker.config, outbound_from=OUTBOUND_STEP)
    broker.shard = broker.reopened()
    first = broker.finish()
    broker.do(commands.OpenChannel(channel="c0"))
    second = broker.finish()

    closed = [event.detail for event in first.events.rows() if event.kind == Kind.CHANNEL]
    assert [detail and detail["cause"] for detail in closed] == ["batch_dropped"]
    assert [event.kind for event in first.events.rows()] == [Kind.CHANNEL, Kind.REQUEUED]
    assert second.first_outbound >= first.first_outbound == OUTBOUND_STEP
    assert broker.shard.state.channels.count() == 1
    assert not [out for out in broker.outbound if isinstance(out, DeliveryOut)][1:]
