"""Messages are found by chosen values, on Kafka and Spark, across restarts of the job."""

import json

import attrs
import pytest

from streaming.config.tables import TablesSettings
from streaming.config.vhosts import VhostSettings
from streaming.queries.duckdb_tables import Tables
from streaming.queries.life.find import find_messages
from streaming.queries.life.why import why_of
from streaming.queries.search_index import indexed_paths
from tests.fixtures.jobs import RunningJob
from tests.fixtures.waiting import wait_until

SEARCH = ("body:$.order", "header:tenant")


@pytest.fixture
def job(embedded_kafka, tmp_path):
    running = RunningJob(tmp_path, embedded_kafka.bootstrap_servers)
    vhosts = {"/": VhostSettings()}
    running.config = attrs.evolve(running.config, vhosts=vhosts, tables=searched(*SEARCH[:1]))
    yield running
    running.stop()


def searched(*paths):
    return TablesSettings(contents_lag_ms=200, search=paths)


def found(job, text):
    with Tables(str(job.root / "tables")) as tables:
        answer = find_messages(tables, text, 10)
        return [(one.place, one.reason) for one in answer.messages], answer.indexed


def test_any_message_is_found_by_its_order_and_once(job, spark):
    job.start(spark)
    connection = job.connect()
    channel = connection.channel()
    channel.declare_queue("dead")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.declare_queue("orders", arguments=letters)
    publisher = connection.publisher()
    for order in range(50):
        body = json.dumps({"order": f"A-{order}"}).encode()
        publisher.publish("", "orders", body, headers={"tenant": "acme"})
    publisher.publish("", "orders", b"no JSON")
    publisher.wait_for_confirms(120)
    channel.get_many("orders", 1)[0].reject(requeue=False)
    wait_until(lambda: found(job, "A-0") == ([("body:$.order", "rejected")], True))
    wait_until(lambda: found(job, "A-49") == ([("body:$.order", None)], True))
    job.stop()

    job.config = attrs.evolve(job.config, tables=searched(*SEARCH))
    job.start(spark)
    again = job.connect()
    again.publisher().publish(
        "", "orders", b'{"order": "A-50"}', headers={"tenant": "zenith"}
    ).result(120)
    wait_until(lambda: found(job, "zenith") == ([("header:tenant", None)], True))

    with Tables(str(job.root / "tables")) as tables:
        view = tables.view("search_keys")
        rows = tables.values(f"SELECT path, count(*), count(DISTINCT key) FROM {view} GROUP BY ALL")
        known = indexed_paths(tables)
        [one] = find_messages(tables, "A-0", 10).messages
        why = why_of(tables, one.message_id)
    assert sorted(rows) == [("body:$.order", 51, 51), ("header:tenant", 1, 1)]
    assert [bool(one.since) for one in known] == [False, True]
    assert [(one.queue, one.reason, one.targets) for one in why.deaths] == [
        ("orders", "rejected", ["dead"])
    ]
    assert found(job, "A-50") == ([("body:$.order", None)], True)
