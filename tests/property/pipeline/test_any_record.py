"""Any Kafka record is processed, refused with an event, or quarantined (D11)."""

from collections import Counter
from itertools import count

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from streaming.broker import commands as broker_commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.outbound import DeliveryOut
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.pipeline.fold import fold
from streaming.pipeline.intake.stage import Intake
from streaming.pipeline.outbound.records import OutboundRecords
from streaming.pipeline.rows.dead_letters import dead_letter_tables
from streaming.pipeline.rows.events import event_table
from streaming.pipeline.rows.stored import published_rows, stored_rows
from streaming.pipeline.shard_block import unpack
from streaming.pipeline.task import (
    BatchContext,
    OutboundTask,
    TaskSettings,
    TopicTask,
)
from streaming.protocol.command_codec import decode_command, encode_command
from streaming.protocol.record_headers import (
    MalformedRecordError,
    PublishHeaders,
    command_record,
    publish_headers,
)
from streaming.storage.location import Location
from tests.builders import START_MS, a_queue
from tests.property.pipeline.records import (
    arrow_batch,
    commands,
    flags,
    maybe,
    ops,
    properties,
    records,
    short,
    tables,
)
from topology.declarations import Binding, Exchange

QUERY = "fuzz"
OFFSETS = count(0, 1000)
WORKER = Actor(None, "worker")


def understood_or_malformed(read):
    """The parsed record; None if it is malformed, with a cause and a detail."""
    try:
        understood = read()
    except MalformedRecordError as malformed:
        event(f"malformed: {malformed.cause}")
        if not all(malformed.args):
            raise
        return None
    event("understood")
    return understood


@given(
    st.tuples(*(maybe(short) for _ in range(3)), maybe(properties), maybe(tables), maybe(flags)),
    maybe(short),
)
def test_headers_are_either_understood_or_malformed(values, channel):
    understood = understood_or_malformed(lambda: publish_headers((None, *values, channel)))

    assert understood is None or type(understood) is PublishHeaders


@given(ops.map(str.encode), maybe(short), maybe(commands))
def test_a_command_is_either_malformed_or_reaches_the_fold_as_it_is(op, vhost, value):
    record = understood_or_malformed(lambda: command_record(op, vhost, value))

    assert record is None or decode_command(encode_command(record.command), 1) == record.command


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Location(str(tmp_path_factory.mktemp("tables")))


def task(place, compat):
    config = ShardConfig(compat=compat, clock="event")
    return TaskSettings(
        tables=place,
        topics={"log": TopicTask(1, "guest")},
        vhosts={"/": (1,)},
        shards={1: config},
        outbound=OutboundTask({}),
        max_body_bytes=16,
        max_header_bytes=16 * 1024,
    )


def prepared(config):
    """A store whose queue `q` dead-letters to `dead`, and a channel's consumer takes from both."""
    store = MemoryStore()
    shard = Shard(config, store, now_ms=START_MS)
    everything = [
        broker_commands.DeclareExchange(exchange=Exchange("dlx", "headers")),
        broker_commands.DeclareExchange(exchange=Exchange("x", "topic")),
        broker_commands.DeclareQueue(
            queue=a_queue("q", dead_letter_exchange="dlx", message_ttl=50, max_length=2)
        ),
        broker_commands.DeclareQueue(queue=a_queue("dead", message_ttl=500)),
        broker_commands.Bind(binding=Binding("x", "q", routing_key="#")),
        broker_commands.Bind(binding=Binding("dlx", "dead")),
        broker_commands.Consume(queue="dead", label="c", prefetch=0, channel="worker"),
    ]
    for command in everything:
        shard.command(START_MS, command, WORKER)
    shard.finish()
    return store


WITH_FOREIGN = {
    "value": b"body",
    "dlx-exchange": b"x",
    "foreign": [("ce_id", b"1"), ("traceparent", b"\xff\x00"), ("ce_id", b"2"), ("empty", None)],
}
"""A publish that dies in `q`, by the time of the next one, and is delivered as a dead letter."""


@example(rows=[WITH_FOREIGN, WITH_FOREIGN], compat="4.0")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=records, compat=st.sampled_from(["4.0", "3.10"]))
def test_no_record_stops_the_stream_and_each_has_a_row(place, rows, compat):
    first = next(OFFSETS)
    settings_ = task(place, compat)
    context = BatchContext(QUERY, first, START_MS)
    intake = Intake(settings_, context)

    intake.add(arrow_batch(rows, "log", first))
    blobs = dict(intake.blobs())
    files = intake.close()

    written = Counter({file.table: file.rows for file in files})
    taken = unpack([blobs[1]]) if blobs else None
    understood = 0 if taken is None else len(taken.columns["offset"])
    publishes = 0 if taken is None else int((taken.columns["publication"] >= 0).sum())
    assert written["quarantine"] + understood == len(rows)
    assert written["messages"] == publishes
    for file in files:
        assert pq.read_table(f"{place.url}/{file.table}/{file.path}").num_rows == file.rows
    delivered = {} if taken is None else deliveries(settings_, context, taken)
    for offset, (value, headers) in delivered.items():
        record = rows[offset - first]
        assert value == record["value"]
        assert [one for one in headers if not one[0].startswith("dlx-")] == [
            *(record.get("foreign") or ())
        ], "byte for byte, repeats included, whatever hops it made"
    assert len(delivered) == 1 or rows != [WITH_FOREIGN, WITH_FOREIGN]


def deliveries(settings_, context, taken):
    """The rest of the batch as in the stateful stage, without sending to Kafka.

    Returns:
        Value and headers of each delivery, by offset.
    """
    config = settings_.shards[1]
    store = prepared(config)

    with published_rows(settings_.tables, QUERY, context.batch_id, "s1") as published:
        batch = fold(config, store, taken, published)

    assert event_table(batch.events, QUERY, context.batch_id, "/", 0).num_rows == len(batch.events)
    with stored_rows(settings_.tables) as bodies:
        dead = dead_letter_tables(batch.events, QUERY, context.batch_id, "/", 0, bodies, 16_384)
        rows = sum(table.num_rows for _first, table in dead)
        delivered = {
            out.copy.message.offset: record[:2]
            for out, record in OutboundRecords(settings_, config, context).of(batch, bodies)
            if isinstance(out, DeliveryOut)
        }
    assert rows == len(batch.events.death_rows)
    Shard(config, store, now_ms=START_MS + 10_000).finish()
    return delivered
