"""Checkpoint and tables in other stores, and in MinIO: files, the lease, and a killed job."""

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from streaming.pipeline.checkpoint.errors import CheckpointInUseError, LeaseLostError
from streaming.pipeline.checkpoint.lease import CheckpointLease, read_lease
from streaming.pipeline.rebuild.put_in_place import put_aside, put_in_place
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from streaming.storage.location import Location
from streaming.storage.numbered_file import KEPT, NumberedFile
from tests.bench.processes import command_lines, family
from tests.fixtures.azurite import azure_place, azurite
from tests.fixtures.dlx_run import DlxRun
from tests.fixtures.gcs import gcs, gcs_place
from tests.fixtures.hdfs import hdfs, hdfs_place
from tests.fixtures.minio import minio, minio_place
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import WAIT_S

__all__ = ["azure_place", "azurite", "gcs", "gcs_place", "hdfs", "hdfs_place"]
__all__ += ["minio", "minio_place"]

LONG_MS: Final = 600_000
SHORT_MS: Final = 2_000
LEASE_MS: Final = 10_000
MESSAGES: Final = 200


class Store(NamedTuple):
    """A place in a store, and what a job is told of it.

    Attributes:
        storage: the words in `job.storage`.
        secrets: the options that hold secrets.
    """

    place: Location
    storage: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


GCS: Final = pytest.param("gcs", marks=pytest.mark.nightly)
"""Its stand-in is a translation of requests that outweighs what it tests."""

AZURE, HDFS = (pytest.param(name, marks=pytest.mark.nightly) for name in ("azure", "hdfs"))
"""Every run tests the files and the lease there; the job is the same in each store, and every run
stops a driver whose tables are in S3."""


@pytest.fixture(params=["azure", GCS, "hdfs", "minio"])
def store(request: pytest.FixtureRequest) -> Store:
    place = request.getfixturevalue(f"{request.param}_place")
    if request.param == "azure":
        return Store(place, ("azure",), ("AZURE_STORAGE_ACCOUNT_KEY",))
    if request.param == "minio":
        return Store(place, ("s3",), ("AWS_SECRET_ACCESS_KEY",))
    return Store(place, ("gcs",) if request.param == "gcs" else ())


def writing(content: bytes) -> Any:
    return lambda file: file.write(content)


def test_files_are_created_once_replaced_on_a_condition_listed_read_in_parts_and_moved(
    store, tmp_path
):
    folder = store.place / "checkpoint"
    files = folder.storage()
    content = bytes(range(250)) * 8_000

    assert (files.create("a", writing(b"1")), files.create("a", writing(b"2"))) == (True, False)
    assert files.read("a") == b"1"
    files.replace("a", b"22")
    assert (files.size("a"), files.read("a")) == (2, b"22")
    assert (files.size("b"), files.read("b")) == (None, None)
    assert not files.has_any("sub")

    numbered = NumberedFile(files, "numbered")
    assert (numbered.replace(b"1", 0), numbered.replace(b"other", 0)) == (1, None)
    assert (numbered.replace(b"2", 1), numbered.replace(b"3", 2)) == (2, 3)
    assert numbered.replace(b"late", 1) is None
    assert numbered.read() == (b"3", 3)
    for number in range(3, 6):
        assert numbered.replace(b"more", number) == number + 1
    assert numbered.replace(b"very late: the files of these numbers are gone", 1) is None
    left = [f"numbered.{number}" for number in range(7 - KEPT, 7)]
    assert sorted(files.names()) == ["a", *left]
    for name in left:
        files.delete(name)

    (folder / "sub" / "c").write_bytes(b"old")
    (folder / "sub" / "c").write_bytes(content)
    assert (folder / "sub").is_dir()
    assert [(each.name, each.size) for each in files.files("sub")] == [("c", len(content))]
    with files.open("sub/c") as file:
        file.seek(1_000_100)
        assert file.read(500_000) == content[1_000_100:1_500_100]
        file.seek(-10, 2)
        assert file.read() == content[-10:]
    with pytest.raises(FileNotFoundError):
        files.open("sub/d")
    with pytest.raises(FileNotFoundError):
        (folder / "sub" / "d").read_bytes()

    files.delete("a")
    files.delete("a")
    assert sorted(files.all_names()) == ["sub/c"]
    new = tmp_path / "new" / "sub"
    new.mkdir(parents=True)
    (new / "c").write_bytes(b"new")
    kept = put_aside(folder)
    put_in_place(new.parent, folder)
    assert kept is not None
    assert (kept / "sub" / "c").read_bytes() == content
    assert (folder / "sub" / "c").read_bytes() == b"new"


def test_a_silent_holder_of_the_lease_is_succeeded_and_may_not_commit(store):
    checkpoint = store.place / "checkpoint"
    first, second = CheckpointLease(checkpoint, SHORT_MS), CheckpointLease(checkpoint, LONG_MS)
    first.acquire()
    with pytest.raises(CheckpointInUseError, match="renews its lease"):
        second.acquire()
    first.check()
    first.stop_renewing()

    second.acquire()

    second.check()
    with pytest.raises(LeaseLostError, match="it was not renewed for 2 s"):
        first.check()
    first.renew()
    with pytest.raises(LeaseLostError):
        first.check()
    first.release()
    second.renew()
    held = read_lease(checkpoint)
    assert held is not None
    assert (held.epoch, held.held, held.renewals > 0) == (second.epoch, True, True)
    second.release()


@pytest.fixture
def pipeline(tmp_path: Path, embedded_kafka: Any, store: Store) -> Pipeline:
    found = Pipeline(tmp_path, embedded_kafka.bootstrap_servers, job={"lease_ms": LEASE_MS})
    found.use_storage(store.place, store.storage, {name: name for name in store.secrets})
    return found


@pytest.fixture
def run(tmp_path: Path, pipeline: Pipeline) -> Iterator[DlxRun]:
    made = DlxRun(tmp_path, pipeline.config)
    yield made
    made.kill()


def publish(pipeline: Pipeline) -> None:
    for number in range(MESSAGES):
        pipeline.publish(b"%d" % number, routing_key=b"work")
    assert pipeline.producer.flush(WAIT_S) == 0


def published(run: DlxRun) -> int:
    """How many publishes the batches have; one that ran twice counts once."""
    return sum({batch["batch_id"]: batch["publishes"] for batch in run.batches()}.values())


@pytest.mark.long
@pytest.mark.parametrize("store", [AZURE, GCS, HDFS], indirect=True)
def test_a_killed_job_resumes_with_nothing_lost_or_doubled(store, pipeline, run, tmp_path):
    environment = {name: store.place.options[name] for name in store.secrets}
    run.start(environment)
    pipeline.command(op="declare_queue", queue={"name": "work"})
    assert pipeline.producer.flush(WAIT_S) == 0
    run.until(lambda: any(batch["events"] for batch in run.batches()))
    publish(pipeline)
    run.until(lambda: published(run) == MESSAGES)
    shown = command_lines(family(run.process.pid))
    assert [name for name, secret in environment.items() if secret in shown] == []

    run.kill()
    publish(pipeline)
    run.start(environment)
    publish(pipeline)

    run.until(lambda: published(run) == 3 * MESSAGES)
    run.stop(signal.SIGTERM)
    with closing(Tables(pipeline.config.job.tables_location, store.place.options)) as tables:
        assert balance(tables).findings == []
        tables.view("queue_contents")
        assert tables.values("SELECT count(*) FROM queue_contents") == [(3 * MESSAGES,)]
    for log in (path for path in tmp_path.rglob("*") if path.is_file()):
        content = log.read_bytes()
        assert [name for name, secret in environment.items() if secret.encode() in content] == []
