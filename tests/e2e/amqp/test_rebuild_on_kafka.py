"""`dlx checkpoint rebuild` of a job with a sequenced vhost, whose front goes on meanwhile."""

import os
import shutil
import subprocess
import sys
from contextlib import closing

import attrs
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.config import show_config
from streaming.config.vhosts import VhostSettings
from streaming.job_locations import checkpoint_place
from streaming.pipeline.checkpoint.spark_logs import SparkLogs
from streaming.queries.audit.balance import balance
from streaming.sequencer.log_reader import LogReader
from tests.e2e.amqp.test_on_kafka import declare, fill, ready
from tests.fixtures.fronts import Fronts
from tests.fixtures.waiting import wait_until

PLAIN = "plain"


def with_a_plain_vhost(fronts: Fronts) -> None:
    """Give the job an ordinary vhost of two lanes, too, and let it trim the log soon."""
    config = fronts.config
    fronts.config = attrs.evolve(
        config,
        vhosts={**config.vhosts, PLAIN: VhostSettings(lanes=2)},
        kafka=attrs.evolve(config.kafka, trim_interval_ms=1_000, topic_partitions=4),
        amqp=attrs.evolve(config.amqp, log_retention_ms=0),
    )
    fronts.file.write_text(show_config(fronts.config))


def ends_of_log(fronts: Fronts) -> tuple[int, int]:
    """The first offset that the log has, and the next one."""
    topic = fronts.config.log_topics()["/"]
    with closing(LogReader({"bootstrap.servers": fronts.servers}, topic)) as reader:
        return reader.ends()


def position(fronts: Fronts) -> int:
    """How far the job has committed the log."""
    logs = SparkLogs(checkpoint_place(fronts.config, os.environ))
    return sum(logs.next_positions().get(fronts.config.log_topics()["/"], {}).values())


def trim(fronts: Fronts, first: int) -> None:
    """Delete the records of the log before an offset."""
    admin = AdminClient({"bootstrap.servers": fronts.servers})
    place = TopicPartition(fronts.config.log_topics()["/"], 0, first)
    for done in admin.delete_records([place]).values():
        done.result()
    assert ends_of_log(fronts)[0] >= first


def follows(fronts: Fronts, job) -> None:
    """Wait until the job has all of the log."""
    _first, end = ends_of_log(fronts)

    def has_all() -> bool:
        job.check()
        return position(fronts) >= end

    wait_until(has_all, job.log_end, 600.0, 0.5)


def dlx(fronts: Fronts, *words: str, stdin: str = "") -> str:
    """Run a command of `dlx`; what it prints."""
    done = subprocess.run(
        (sys.executable, "-P", "-m", "streaming.cli", *words, "--config", str(fronts.file)),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def counts(fronts: Fronts, sql: str) -> dict[str, int]:
    """Ask the tables."""
    with closing(fronts.tables()) as tables:
        tables.view("events")
        return dict(tables.values(sql))


def balanced(fronts: Fronts) -> dict[tuple[str | None, str | None], tuple[int, int]]:
    """The ready and unacked messages of each queue; nothing is unexplained."""
    with closing(fronts.tables()) as tables:
        whole = balance(tables, whole=True)
    assert whole.findings == []
    return {(row.vhost, row.queue): (row.ready, row.unacked) for row in whole.queues if row.queue}


KINDS = """
    SELECT kind, count(*) FROM events
    WHERE vhost = '/' AND kind IN ('enqueued', 'acked', 'died', 'requeued') GROUP BY ALL
"""


@pytest.mark.long
def test_the_job_goes_on_from_what_the_log_came_to_and_the_front_notices_nothing(fronts):
    with_a_plain_vhost(fronts)
    front, job = fronts.start(), fronts.start_job()
    connection = fronts.connect(front)
    channel = connection.channel()
    declare(channel)
    channel.queue_declare("safe", durable=True, arguments={"x-queue-type": "quorum"})
    fill(channel, 4_200)  # there are digests in the log
    taken = [channel.basic_get("work")[0].delivery_tag for _ in range(60)]
    channel.basic_ack(taken[19], multiple=True)
    for tag in taken[20:30]:
        channel.basic_reject(tag, requeue=False)
    follows(fronts, job)
    dlx(fronts, "queues", "declare", "orders", "--vhost", PLAIN, "--timeout", "60")
    orders = "".join(f"{number}\n" for number in range(30))
    publish = ("publish", "--lines", "-k", "orders", "--vhost", PLAIN, "--timeout", "60")
    dlx(fronts, *publish, stdin=orders)
    fill(channel, 300, "n")
    job.kill()
    # what the front does while there is no job
    for tag in taken[30:40]:
        channel.basic_ack(tag)
    fill(channel, 200, "o")
    assert ends_of_log(fronts)[0] == 0
    shutil.rmtree(fronts.root / "checkpoints")  # with the snapshots of the front

    said = dlx(fronts, "checkpoint", "rebuild")

    assert "follows its log" in said
    fill(channel, 100, "p")
    for tag in taken[40:50]:
        channel.basic_ack(tag)
    job = fronts.start_job()
    follows(fronts, job)
    assert counts(fronts, KINDS) == {"enqueued": 4_810, "acked": 40, "died": 10}
    resident = {(("/", "work")): (4_740, 10), ("/", "dead"): (10, 0)}
    assert balanced(fronts).items() >= {**resident, (PLAIN, "orders"): (30, 0)}.items()


@pytest.mark.long
def test_a_trimmed_log_is_folded_from_a_snapshot_of_the_front_for_other_partitions(fronts):
    with_a_plain_vhost(fronts)
    front, job = fronts.start(), fronts.start_job()
    channel = fronts.connect(front).channel()
    declare(channel)
    fill(channel, 300)
    channel.queue_purge("work")
    follows(fronts, job)
    front.stop()  # it leaves a snapshot
    front = fronts.start()
    channel = fronts.connect(front).channel()
    channel.confirm_delivery()
    fill(channel, 50, "q")
    trim(fronts, 200)
    method, _properties, _body = channel.basic_get("work")
    follows(fronts, job)
    job.stop()
    channel.basic_reject(channel.basic_get("work")[0].delivery_tag, requeue=False)
    fill(channel, 30, "r")

    said = dlx(fronts, "checkpoint", "rebuild", "--replace", "--shuffle-partitions", "3")

    assert "follows its log" in said
    channel.basic_ack(method.delivery_tag)
    config = fronts.config
    fronts.config = attrs.evolve(config, job=attrs.evolve(config.job, shuffle_partitions=3))
    fronts.file.write_text(show_config(fronts.config))
    job = fronts.start_job()
    fill(channel, 20, "s")
    follows(fronts, job)
    left, dead = ready(channel, "work"), ready(channel, "dead")
    front.stop()  # and a start from its snapshots, which the rebuild has left where they are
    front = fronts.start()
    channel = fronts.connect(front).channel()
    assert (ready(channel, "work"), ready(channel, "dead")) == (left, dead) == (98, 1)
    follows(fronts, job)
    job.stop()
    found = balanced(fronts)
    assert found["/", "work"] == (left, 0)
    assert found["/", "dead"] == (dead, 0)
