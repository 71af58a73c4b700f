"""Checkpoint and tables in an object store: leases, a lost checkpoint, lost records."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.cli.exit_codes import EXIT_INVALID
from streaming.embedded.object_store_server import SECRET_KEY
from streaming.pipeline.checkpoint.lease import read_lease
from streaming.protocol.record_headers import KIND
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from streaming.storage.location import Location
from tests.bench.chaos.compare import outbound_records
from tests.bench.processes import command_lines, family
from tests.fixtures.dlx_run import DlxRun
from tests.fixtures.object_store import object_store, shared_place
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import WAIT_S

__all__ = ["object_store", "shared_place"]

LEASE_MS = 10_000
MESSAGES = 200
LOST, LATE = 3, 2
SECRETS = {"S3_SECRET": SECRET_KEY}


@pytest.fixture
def pipeline(tmp_path: Path, embedded_kafka: Any, shared_place: Any) -> Pipeline:
    found = Pipeline(tmp_path, embedded_kafka.bootstrap_servers, job={"lease_ms": LEASE_MS})
    found.use_storage(shared_place, ["s3"], {"AWS_SECRET_ACCESS_KEY": "S3_SECRET"})
    return found


@pytest.fixture
def run_in(tmp_path: Path, pipeline: Pipeline) -> Iterator[Any]:
    """Makes a run of the job from a folder of its own, as on another machine."""
    runs = []

    def make(name: str) -> DlxRun:
        folder = tmp_path / name
        folder.mkdir()
        job = attrs.evolve(pipeline.config.job, log_dir=str(folder / "logs"))
        runs.append(DlxRun(folder, attrs.evolve(pipeline.config, job=job)))
        return runs[-1]

    yield make
    for run in runs:
        run.kill()


def publish(pipeline: Pipeline, messages: int = MESSAGES) -> None:
    for number in range(messages):
        pipeline.publish(b"%d" % number, routing_key=b"work", flags=b"confirm")
    assert pipeline.producer.flush(WAIT_S) == 0


def published(run: DlxRun) -> int:
    return sum(batch["publishes"] for batch in run.batches())


def lose_records(pipeline: Pipeline, end: int) -> None:
    """Delete the records of the publishes below an offset."""
    place = TopicPartition(pipeline.publishes, 0, end)
    admin = AdminClient({"bootstrap.servers": pipeline.servers, "log_level": 0})
    admin.delete_records([place])[place].result()


def rebuild(run: DlxRun) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streaming.cli", "checkpoint", "rebuild", "-c", str(run.file)],
        env={**os.environ, **SECRETS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def lose_checkpoint_and_records(pipeline: Pipeline, place: Location) -> None:
    """Delete all objects of the checkpoint, and publishes that no job has read."""
    checkpoint = Location(pipeline.config.job.checkpoint_location, place.options).storage()
    for name in checkpoint.all_names():
        checkpoint.delete(name)
    publish(pipeline, LOST + LATE)
    lose_records(pipeline, 2 * MESSAGES + LOST)


def confirmed(pipeline: Pipeline) -> list[int]:
    """The offsets of the publishes that a client knows to be confirmed."""
    topic = pipeline.config.outbound_topics()["/", "guest"]
    records = outbound_records(pipeline.servers, topic)
    confirms = [value for _key, value, headers in records if (KIND, b"confirm") in headers]
    return [json.loads(value)["offset"] for value in confirms]


@pytest.mark.long
def test_a_stopped_driver_is_succeeded_and_a_lost_checkpoint_rebuilt(
    pipeline, run_in, shared_place
):
    checkpoint = Location(pipeline.config.job.checkpoint_location, shared_place.options)
    first, second = run_in("first"), run_in("second")
    first.start(SECRETS)
    pipeline.command(op="declare_queue", queue={"name": "work"})
    assert pipeline.producer.flush(WAIT_S) == 0
    first.until(lambda: any(batch["events"] for batch in first.batches()))
    publish(pipeline)
    first.until(lambda: published(first) == MESSAGES)
    held = read_lease(checkpoint)

    processes = family(first.process.pid)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    publish(pipeline)
    second.start(SECRETS)
    second.until(lambda: published(second) == MESSAGES)
    before = len(first.batches())
    assert SECRET_KEY not in command_lines([*processes, *family(second.process.pid)])
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()

    assert first.process.wait() == EXIT_INVALID, first.log.read_text()
    assert "lost the lease" in first.log.read_text()
    assert len(first.batches()) == before
    now = read_lease(checkpoint)
    assert held is not None
    assert now is not None
    assert now.epoch > held.epoch
    second.until(lambda: second.batches()[-1]["resident_messages"] == 2 * MESSAGES)
    second.kill()

    lose_checkpoint_and_records(pipeline, shared_place)
    third = run_in("third")
    rebuild(third)
    third.start(SECRETS, ["--accept-loss"])
    third.until(lambda: published(third) == LATE)
    third.stop(signal.SIGTERM)

    with closing(Tables(pipeline.config.job.tables_location, shared_place.options)) as tables:
        assert balance(tables, whole=True).findings == []
        tables.view("queue_contents")
        tables.view("quarantine")
        assert tables.values("SELECT count(*) FROM queue_contents") == [(2 * MESSAGES + LATE,)]
        assert tables.values('SELECT "offset", end_offset, cause FROM quarantine') == [
            (2 * MESSAGES, 2 * MESSAGES + LOST, "lost_in_kafka")
        ]
    read = range(2 * MESSAGES + LOST + LATE)
    assert confirmed(pipeline) == [*read[: 2 * MESSAGES], *read[-LATE:]]

    secrets = [run.file.parent / "logs" for run in (first, second, third)]
    for log in (path for folder in secrets for path in folder.rglob("*") if path.is_file()):
        assert SECRET_KEY.encode() not in log.read_bytes(), log
