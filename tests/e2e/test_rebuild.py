"""A job whose checkpoint is lost goes on from a rebuilt one, on other partitions and lanes too."""

import shutil
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from streaming.config import show_config
from streaming.config.tables import TablesSettings
from streaming.config.vhosts import VhostSettings
from streaming.contents.retention import Periods, retain
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import compact, small_files
from streaming.pipeline.checkpoint.errors import CheckpointInUseError, TablesMismatchError
from streaming.pipeline.rebuild.rebuild import IntactCheckpointError, Rebuild
from streaming.queries.as_of.instant import last_batch
from streaming.queries.audit.balance import balance
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.queues import peek
from streaming.storage.location import Location
from tests.fixtures.jobs import RunningJob
from tests.fixtures.waiting import wait_until


@pytest.fixture(scope="module")
def job(embedded_kafka, tmp_path_factory):
    running = RunningJob(tmp_path_factory.mktemp("job"), embedded_kafka.bootstrap_servers)
    tables = TablesSettings(compaction_interval_ms=86_400_000)  # the test compacts
    running.config = attrs.evolve(running.config, vhosts={"/": VhostSettings()}, tables=tables)
    yield running
    running.stop()


def opened(job):
    return Tables(str(job.root / "tables"))


def bodies(job, queue, *, unacked=False):
    return [row["body"] for row in peek(opened(job), queue, limit=1000, unacked=unacked)]


def balanced(job):
    found = balance(opened(job), whole=True)
    return found.findings, {row.surplus for row in found.queues}


class Views:
    """What was seen while the job ran: batch -> the copies of queues, and who held them."""

    def __init__(self, job):
        self.place = Location(str(job.root / "tables"))
        self.seen = {}

    def contents(self, cut=None):
        with closing(Tables(self.place.url)) as tables:
            tables.cut = cut
            return last_batch(tables), {
                (queue, unacked): [
                    (row["copy_id"], row["body"], row["user"], row["channel"], row["returns"])
                    for row in peek(tables, queue, limit=1000, unacked=unacked)
                ]
                for queue in ("work", "safe", "dead")
                for unacked in (False, True)
            }

    def look(self):
        batch_id, found = self.contents()
        self.seen[batch_id] = found

    def again(self, batches):
        """The same batches, seen later."""
        return {batch_id: self.contents(Cut(batch_id))[1] for batch_id in batches}

    def compact(self, last):
        """Compact what the batches up to `last` have written."""

        def is_compact(spec, below):
            active = ActiveFiles(load_table(below))
            ends = active.greatest("batch_id")
            small = zip(small_files(spec, active), ends, strict=True)
            files = [one for one, end in small if end <= last]
            return len(files) < 2 or compact(below, spec, files) is not None

        for table in ("events", "messages", "dead_letters"):
            spec, below = TABLES[table], self.place / table
            wait_until(lambda: is_compact(spec, below))  # noqa: B023 - called here


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
    views = Views(job)
    wait_until(lambda: len(bodies(job, "safe", unacked=True)) == 5)
    views.look()
    wait_until(lambda: bodies(job, "dead") == ["3", "7"])
    views.look()
    publisher.publish("", "nowhere", b"").result(120)  # at least one batch before the snapshot
    closed = SnapshotWriter(views.place, threads=None).write()
    assert closed is not None
    views.compact(closed.batch_id)
    views.look()
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
    views.look()
    connection.close()
    with job.connect() as other:
        got = other.channel().get_many("work", 3)
        assert [(one.body, one.redelivered) for one in got] == [
            (b"0", True),
            (b"1", True),
            (b"2", True),
        ]
        wait_until(lambda: len(bodies(job, "work", unacked=True)) == 3)
        views.look()
    wait_until(lambda: len(bodies(job, "work")) == len(expected) + len(late))
    views.look()
    assert balanced(job) == ([], {0})

    views.compact(last_batch(opened(job)))
    assert views.again(views.seen) == views.seen

    closed = SnapshotWriter(views.place, threads=None).write()
    assert closed is not None
    views.look()
    with job.connect() as other:
        other.publisher().publish("", "safe", b"last").result(120)
    wait_until(lambda: bodies(job, "safe")[-1] == "last")
    views.look()
    removed = retain(views.place, Periods(events_ms=1), datetime.now(UTC) + timedelta(hours=1))
    kept = {batch: found for batch, found in views.seen.items() if batch >= closed.batch_id}
    assert [(one.table, one.batch_id) for one in removed] == [("events", closed.batch_id)]
    assert len(kept) >= 2
    assert views.again(kept) == kept
    with pytest.raises(QueryError, match=r"tables\.retention"):
        views.again([closed.batch_id - 1])


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
