"""A job whose checkpoint is lost goes on from a rebuilt one, on other partitions and lanes too."""

import shutil
import subprocess
import sys

import attrs
import pytest

from streaming.config import show_config
from streaming.config.vhosts import VhostSettings
from streaming.pipeline.checkpoint.errors import CheckpointInUseError, TablesMismatchError
from streaming.pipeline.rebuild.rebuild import IntactCheckpointError, Rebuild
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queues import peek
from tests.fixtures.jobs import RunningJob
from tests.fixtures.waiting import wait_until


@pytest.fixture(scope="module")
def job(embedded_kafka, tmp_path_factory):
    running = RunningJob(tmp_path_factory.mktemp("job"), embedded_kafka.bootstrap_servers)
    running.config = attrs.evolve(running.config, vhosts={"/": VhostSettings()})
    yield running
    running.stop()


def opened(job):
    return Tables(str(job.root / "tables"))


def bodies(job, queue, *, unacked=False):
    return [row["body"] for row in peek(opened(job), queue, limit=1000, unacked=unacked)]


def balanced(job):
    found = balance(opened(job), whole=True)
    return found.findings, {row.surplus for row in found.queues}


def lose(job):
    """Stop the job and remove its checkpoint."""
    job.stop()
    shutil.rmtree(job.root / "checkpoints")


def rebuild(job, spark, partitions):
    work = Rebuild(job.config, partitions)
    with work.locked(replace=False):
        return work.plan(), work.write(work.plan(), spark)


def with_partitions(config, partitions):
    return attrs.evolve(config, job=attrs.evolve(config.job, shuffle_partitions=partitions))


def test_a_lost_checkpoint_is_rebuilt_and_the_job_goes_on(job, spark):
    job.start(spark)
    connection = job.connect()
    connection.publisher().publish("", "nowhere", b"").result(120)  # the first batch loads much
    channel = connection.channel()
    channel.declare_queue("dead")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.declare_queue("work", arguments=letters)
    channel.declare_queue("safe", arguments={"x-queue-type": "quorum"})
    publisher = connection.publisher()
    for queue in ("work", "safe"):
        for number in range(60):
            publisher.publish("", queue, b"%d" % number)
        publisher.wait_for_confirms(120)
    for one in channel.get_many("work", 12):
        if one.body in {b"3", b"7"}:
            one.reject(requeue=False)
    channel.get_many("safe", 5)
    with pytest.raises(CheckpointInUseError):
        rebuild(job, spark, 2)
    wait_until(lambda: len(bodies(job, "safe", unacked=True)) == 5)
    wait_until(lambda: bodies(job, "dead") == ["3", "7"])
    for number in range(40):  # under load: the next job reads some of these
        publisher.publish("", "work", b"late %d" % number)
    lose(job)
    with pytest.raises(TablesMismatchError, match="dlx checkpoint rebuild"):
        job.start(spark)
    lose(job)
    file = job.root / "dlx.toml"
    file.write_text(show_config(job.config))

    done = subprocess.run(
        [sys.executable, "-m", "streaming.cli", "checkpoint", "rebuild", "-c", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    with pytest.raises(IntactCheckpointError):
        rebuild(job, spark, 2)
    job.start(spark)
    publisher.wait_for_confirms(120)
    expected = [str(number) for number in range(60) if number not in {3, 7}]
    late = [f"late {number}" for number in range(40)]
    wait_until(lambda: bodies(job, "work") == [*expected, *late], lambda: bodies(job, "work"))
    wait_until(lambda: len(bodies(job, "safe")) == 60)
    connection.close()
    with job.connect() as other:
        got = other.channel().get_many("work", 3)
        assert [(one.body, one.redelivered) for one in got] == [
            (b"0", True),
            (b"1", True),
            (b"2", True),
        ]
    wait_until(lambda: len(bodies(job, "work")) == len(expected) + len(late))
    assert balanced(job) == ([], {0})


def test_a_job_moves_to_other_partitions_and_lanes(job, spark):
    before = {queue: sorted(bodies(job, queue)) for queue in ("work", "safe", "dead")}
    job.stop()
    job.config = with_partitions(attrs.evolve(job.config, vhosts={"/": VhostSettings(lanes=2)}), 3)
    work = Rebuild(job.config, 3)

    with work.locked(replace=True):
        kept = work.write(work.plan(), spark)

    assert kept is not None
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        job.start(spark)
        with job.connect() as connection:
            publisher = connection.publisher()
            for number in range(10):
                publisher.publish("", "dead", b"more %d" % number)
            publisher.wait_for_confirms(120)
        wait_until(lambda: len(bodies(job, "dead")) == len(before["dead"]) + 10)
        assert sorted(bodies(job, "work")) == before["work"]
        assert sorted(bodies(job, "safe")) == before["safe"]
        assert balanced(job) == ([], {0})
        job.stop()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
