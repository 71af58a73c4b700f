"""A real job writes snapshots and trims its tables; what it was like before stays exact."""

import attrs
import pytest

from streaming.config.tables import TablesSettings
from streaming.queries.as_of.instant import last_batch
from streaming.queries.as_of.snapshots import list_snapshots, opening_batch
from streaming.queries.audit.balance import balance
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queues import peek
from tests.fixtures.jobs import RunningJob
from tests.fixtures.services import embedded_kafka, spark
from tests.fixtures.waiting import wait_until

__all__ = ["embedded_kafka", "spark"]

SETTINGS = TablesSettings(
    snapshot_interval_ms=1_000, retention={"events": "1s", "bodies": "1s", "dead_letters": "1s"}
)


@pytest.fixture(scope="module")
def running_job(embedded_kafka, spark, tmp_path_factory):
    """A job that writes a snapshot every second and keeps rows for a second."""
    running = RunningJob(tmp_path_factory.mktemp("job"), embedded_kafka.bootstrap_servers)
    running.config = attrs.evolve(running.config, tables=SETTINGS)
    running.start(spark)
    yield running
    running.stop()


def opened(job):
    return Tables(str(job.root / "tables"))


def bodies(job, cut, *, unacked=False):
    tables = opened(job)
    tables.cut = cut
    return [row["body"] for row in peek(tables, "work", limit=100, unacked=unacked)]


def test_earlier_instants_stay_exact_while_the_job_closes_and_trims(running_job):
    with running_job.connect() as connection:
        channel = connection.channel()
        channel.declare_queue("work")
        publisher = connection.publisher()
        for number in range(4):
            publisher.publish("", "work", f"order {number}".encode()).result(120)
        [first, second] = channel.get_many("work", 2)
        held = ["order 0", "order 1"]
        wait_until(lambda: bodies(running_job, None, unacked=True) == held)
        between = last_batch(opened(running_job))
        seen = (
            bodies(running_job, Cut(between)),
            bodies(running_job, Cut(between), unacked=True),
        )
        assert seen == (["order 2", "order 3"], held)
        first.ack()

        def keep_busy():
            publisher.publish("", "nowhere", b"lost").result(120)
            return opening_batch(opened(running_job), "events", "messages") >= 0

        wait_until(
            lambda: any(one.batch_id >= between for one in list_snapshots(opened(running_job)))
        )
        wait_until(keep_busy)

        found = balance(opened(running_job), whole=True)
        assert (found.findings, {row.surplus for row in found.queues}) == ([], {0})
        now = Cut(last_batch(opened(running_job)))
        assert bodies(running_job, now) == ["order 2", "order 3"]
        wait_until(lambda: bodies(running_job, None, unacked=True) == ["order 1"])
        second.ack()
        assert [one.body for one in channel.get_many("work", 9)] == [b"order 2", b"order 3"]
