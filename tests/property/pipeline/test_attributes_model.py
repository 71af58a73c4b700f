"""Properties and headers as columns equal those of a plain reader of one record at a time (D12)."""

import json
from itertools import count

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.dead_letters.x_death import headers_after
from streaming.broker.events import Actor
from streaming.broker.outbound import DeliveryOut
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.pipeline.fold import fold
from streaming.pipeline.intake.attributes import attributes_of
from streaming.pipeline.intake.stage import Intake
from streaming.pipeline.outbound.records import OutboundRecords
from streaming.pipeline.rows.amqp_columns import headers_json, table_bytes
from streaming.pipeline.rows.dead_letters import dead_letter_tables
from streaming.pipeline.rows.stored import published_rows, stored_rows
from streaming.pipeline.shard_block import unpack
from streaming.pipeline.task import BatchContext, OutboundTask, TaskSettings, TopicTask
from streaming.protocol.amqp_properties import PROPERTIES, WHOLE_PROPERTIES
from streaming.protocol.record_headers import (
    INBOUND,
    MalformedRecordError,
    delivered_headers,
    publish_headers,
)
from streaming.storage.location import Location
from tests.builders import START_MS, a_queue
from tests.property.pipeline.records import arrow_batch, maybe, odd_json, properties, tables
from tests.property.topology.amqp_values import amqp_values, texts
from topology.declarations import Binding
from topology.values import table_to_json

QUERY = "columns"
BATCHES = count()
COMPATS = st.sampled_from(["4.0", "3.10"])

values_of = {
    **dict.fromkeys(PROPERTIES, texts),
    **{name: st.integers(*bounds) for name, bounds in WHOLE_PROPERTIES.items()},
    "expiration": st.sampled_from(["0", "7", "0060000", "+5", "-1", "soon"]),
}
valid_properties = st.fixed_dictionaries({}, optional=values_of).map(msgspec.json.encode)
keys = st.lists(st.sampled_from(["q", "dead", "nowhere", "q"]), max_size=3)
deaths = st.lists(
    st.fixed_dictionaries(
        {"queue": st.sampled_from(["q", "x"]), "reason": st.just("maxlen")},
        optional={"count": st.integers(-2, 2**62), "more": amqp_values(1)},
    ),
    max_size=3,
)
headers = st.builds(
    lambda own, ours: json.dumps(table_to_json({**own, **ours}), ensure_ascii=False).encode(),
    st.dictionaries(texts, amqp_values(2), max_size=3),
    st.fixed_dictionaries(
        {},
        optional={
            "CC": st.one_of(keys, keys, amqp_values(1)),
            "BCC": st.one_of(keys, keys, amqp_values(1)),
            "x-death": st.one_of(deaths, deaths, amqp_values(1)),
            "x-first-death-queue": texts,
            "x-delivery-count": st.integers(0, 3),
        },
    ),
)
any_properties = maybe(st.one_of(valid_properties, properties, odd_json))
any_headers = maybe(st.one_of(headers, tables, odd_json))


def read_one(row):
    """What a publish says; None if it is malformed."""
    try:
        return publish_headers([row.get(name) for name in INBOUND])
    except MalformedRecordError as error:
        event(f"malformed: {error.cause}")
        return None


def of_columns(struct):
    return {name: value for name, value in (struct or {}).items() if value is not None}


@given(st.lists(st.tuples(any_properties, any_headers), min_size=1, max_size=8), st.booleans())
def test_columns_hold_what_each_record_says(pairs, trusts_x_death):
    found = attributes_of(
        *(pa.array(column, pa.binary()) for column in zip(*pairs, strict=True)),
        trusts_x_death=trusts_x_death,
    )

    for index, (sent, table) in enumerate(pairs):
        said = read_one({"dlx-properties": sent, "dlx-headers": table})
        assert found.malformed[index] == (said is None)
        if said is None:
            continue
        assert of_columns(found.properties[index].as_py()) == said.properties
        assert found.properties[index].is_valid == bool(said.properties)
        assert found.headers[index].as_py() == headers_json(said.headers)
        seen = dict(said.publication.headers or {})
        if not trusts_x_death:
            seen.pop("x-death", None)
        assert found.seen[index].as_py() == (table_bytes(seen) if seen else None)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Location(str(tmp_path_factory.mktemp("tables")))


def broker(config):
    """A store: all messages of `q` die at once, and a consumer takes them from `dead`."""
    store = MemoryStore()
    shard = Shard(config, store, now_ms=START_MS)
    for command in (
        commands.DeclareQueue(queue=a_queue("q", dead_letter_exchange="amq.fanout", max_length=0)),
        commands.DeclareQueue(queue=a_queue("dead")),
        commands.Bind(binding=Binding("amq.fanout", "dead")),
        commands.Consume(queue="dead", label="c", channel="worker"),
    ):
        shard.command(START_MS, command, Actor(None, "worker"))
    shard.finish()
    return store


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    pairs=st.lists(st.tuples(any_properties, any_headers), min_size=1, max_size=6), compat=COMPATS
)
def test_dead_letters_and_deliveries_have_them_without_what_the_broker_removed(
    place, pairs, compat
):
    rows = [
        {"value": b"", "dlx-routing-key": b"q", "dlx-properties": sent, "dlx-headers": table}
        for sent, table in pairs
    ]
    said = [read_one(row) for row in rows]
    config = ShardConfig(compat=compat, clock="event")
    task = TaskSettings(
        tables=place,
        topics={"log": TopicTask(1, "guest")},
        vhosts={"/": (1,)},
        shards={1: config},
        outbound=OutboundTask({}),
        max_body_bytes=16,
        max_header_bytes=1 << 20,
    )
    context = BatchContext(QUERY, next(BATCHES), START_MS)
    intake = Intake(task, context)

    intake.add(arrow_batch(rows, "log", 0))
    blobs = [blob for _key, blob in intake.blobs()]
    intake.close()
    if not blobs:
        assert not any(said)
        return
    with published_rows(place, QUERY, 1, "s1") as published:
        batch = fold(config, broker(config), unpack(blobs), published)
    with stored_rows(place) as stored:
        tables_ = dead_letter_tables(batch.events, QUERY, 0, "/", 0, stored, 1 << 20)
        died = [row for _first, table in tables_ for row in table.to_pylist()]
        records = list(OutboundRecords(task, config, context).of(batch, stored))

    for row, outcome in zip(died, batch.events.death_outcomes, strict=True):
        original = said[row["message_id"]["offset"]]
        assert row["headers"] == headers_json(headers_after(outcome.envelope, original.headers))
        left = {name: one for name, one in original.properties.items() if name != "expiration"}
        assert of_columns(row["properties"]) == left
    deliveries = [(out, record) for out, record in records if isinstance(out, DeliveryOut)]
    for out, record in deliveries:
        original, named = said[out.copy.message.offset], dict(record[1])
        table = delivered_headers(out, original.headers, compat)
        assert named.get("dlx-headers") == (None if table is None else table_bytes(table))
        wanted = {**original.properties, "expiration": out.copy.envelope.expiration}
        if wanted["expiration"] is None:
            del wanted["expiration"]
        sent = named.get("dlx-properties")
        assert (None if sent is None else msgspec.json.decode(sent)) == (wanted or None)
    event(f"deliveries: {min(len(deliveries), 3)}")
