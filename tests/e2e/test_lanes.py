"""Consumers in a vhost of four lanes: clients, tables and the balance."""

from typing import Any

import msgspec
import pytest

from streaming.client import Connection, Delivery, PreconditionFailedError
from streaming.client.address import address_of
from streaming.config import VhostSettings
from streaming.config.inputs import InputSettings
from streaming.queries import DeadLetterFilter, RedriveWish, open_tables
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import WAIT_S, wait_until

LANES = 4
MESSAGES = 210
KEYS = 9
LETTERS = 20


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: Any, embedded_kafka: Any, spark: Any) -> Any:
    pipeline = Pipeline(
        tmp_path_factory.mktemp("lanes"),
        embedded_kafka.bootstrap_servers,
        job={"shuffle_partitions": 2},
        vhosts={"/": VhostSettings(lanes=LANES, lane_by="routing_key")},
        inputs=(InputSettings(topic="lanes-transactions", source="transactions"),),
    )
    pipeline.start(spark)
    yield pipeline
    pipeline.stop()


@pytest.fixture
def connection(pipeline: Any) -> Any:
    with Connection(address_of(pipeline.config, "guest"), timeout_s=WAIT_S) as connection:
        yield connection


def lane_of(delivery: Delivery) -> str:
    return delivery.delivery_id.partition("@")[2]


def test_consumers_of_four_lanes_settle_every_message_once(connection, pipeline):
    channel = connection.channel()
    channel.declare_exchange("orders", "topic")
    channel.declare_queue("work")
    channel.declare_queue("exact", arguments={"x-single-lane": True})
    for queue in ("work", "exact"):
        channel.bind_queue(queue, "orders", "#")
    with connection.publisher() as publisher:
        confirms = [
            publisher.publish("orders", f"key.{number % KEYS}", str(number), record_key=b"one")
            for number in range(MESSAGES)
        ]
        for confirm in confirms:
            confirm.result(WAIT_S)

    assert channel.queue_depth("work") == channel.queue_depth("exact") == MESSAGES
    got = channel.get_many("work", MESSAGES + 1)
    assert sorted(int(one.body) for one in got) == list(range(MESSAGES))
    assert channel.recover() == MESSAGES

    work = channel.consume("work", prefetch=40)
    exact = connection.channel().consume("exact", prefetch=40)
    seen: list[tuple[str, int]] = []
    in_order = []
    for count in range(MESSAGES):
        delivery, other = work.next(WAIT_S), exact.next(WAIT_S)
        assert delivery is not None
        assert other is not None
        seen.append((lane_of(delivery), int(delivery.body)))
        in_order.append(int(other.body))
        other.ack()
        if count % 7 == 6:
            delivery.ack(multiple=True)
    assert channel.sync() == []

    lanes = {lane for lane, _body in seen}
    assert len(lanes) > 1
    assert in_order == list(range(MESSAGES))
    for lane in lanes:
        on_lane = [body for name, body in seen if name == lane]
        assert on_lane == sorted(on_lane)
    wait_until(lambda: pipeline.resident() == 0, pipeline.resident)
    acked = pipeline.query(
        "events",
        "queue, count(*) filter (kind = 'acked'), "
        "count(distinct (lane, copy_id)) filter (kind = 'acked')",
        "queue",
        "queue having queue is not null",
    )
    assert acked == [("exact", MESSAGES, MESSAGES), ("work", MESSAGES, MESSAGES)]


def settle_again(connection: Connection, channel: Any, delivery: Delivery) -> None:
    with connection.transaction() as transaction:
        transaction.publish("", "target", "none")
        transaction.ack(channel, delivery)


def test_a_transaction_settles_on_several_lanes_or_not_at_all(connection, pipeline):
    channel = connection.channel()
    channel.declare_exchange("paid", "topic")
    for queue in ("source", "target"):
        channel.declare_queue(queue)
    channel.bind_queue("source", "paid", "#")
    with connection.publisher() as publisher:
        confirms = [publisher.publish("paid", f"key.{number}", str(number)) for number in range(12)]
        for confirm in confirms:
            confirm.result(WAIT_S)
    deliveries = channel.get_many("source", 12)
    assert len({lane_of(one) for one in deliveries}) > 1

    with connection.transaction() as transaction:
        transaction.publish("", "target", "all")
        transaction.ack(channel, deliveries)
    with pytest.raises(PreconditionFailedError):
        settle_again(connection, channel, deliveries[0])

    [only] = channel.get_many("target", 2, auto_ack=True)
    assert only.body == b"all"


def test_a_redrive_waits_for_its_canary_on_all_lanes_and_ends_on_all(connection, pipeline):
    channel = connection.channel()
    channel.declare_exchange("failing", "topic")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.declare_queue("retried", arguments=dead)
    channel.declare_queue("dead")
    channel.bind_queue("retried", "failing", "#")
    with connection.publisher() as publisher:
        confirms = [
            publisher.publish("failing", f"key.{n}", str(n), {"expiration": "0"})
            for n in range(LETTERS)
        ]
        for confirm in confirms:
            confirm.result(WAIT_S)
    wanted = RedriveWish(wanted=DeadLetterFilter(queue="retried"))

    def plan() -> Any:
        with open_tables(str(pipeline.tables)) as queries:
            return queries.plan_redrive(wanted).sealed

    wait_until(lambda: len(plan().letters) == LETTERS, lambda: f"{len(plan().letters)} letters")
    sealed = plan()
    assert len({letter.lane for letter in sealed.letters}) == LANES
    options = msgspec.structs.replace(sealed.options, canary=1)

    def status() -> Any:
        return channel.control_redrive(sealed.id, "status", "")

    assert channel.approve_redrive(sealed, "fixed", options).moved == 1
    channel.control_redrive(sealed.id, "pause", "to see")
    resumed = channel.control_redrive(sealed.id, "resume", "seen")
    assert (resumed.status, resumed.moved, channel.queue_depth("retried")) == ("running", 1, 1)
    [canary] = channel.get_many("retried", LETTERS)
    canary.ack()
    wait_until(lambda: status().status == "finished", lambda: str(status()))

    assert status().moved == LETTERS
    assert len(channel.get_many("retried", LETTERS, auto_ack=True)) == LETTERS - 1
    statuses = pipeline.query(
        "events",
        "lane, list(detail ->> '$.what' order by seq) filter (kind = 'redrive')",
        "lane",
        "lane having lane is not null",
    )
    said = ["requested", "paused", "resumed", "finished"]
    assert statuses == [(lane, said) for lane in range(LANES)]


def test_the_books_of_all_lanes_balance(pipeline):
    pipeline.stop()

    found = balance(Tables(str(pipeline.tables)), whole=True)

    assert found.findings == []
    assert {one.messages for one in found.vhosts} == {MESSAGES + LETTERS + 13}
