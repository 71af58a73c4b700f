"""What others see of a job: whether it runs, and why its batches fail."""

import threading

from attrs import evolve
from filelock import FileLock

from streaming.config import JobConfig
from streaming.pipeline.checkpoint.checkpoint import LOCK_FILE, CheckpointLock
from streaming.pipeline.checkpoint.job_state import (
    FILE,
    Failing,
    FailingFile,
    JobState,
    job_state,
    read_failing,
)
from streaming.pipeline.checkpoint.lease import CheckpointLease


def config_of(checkpoint, **job):
    config = JobConfig()
    location = str(checkpoint)
    return evolve(config, job=evolve(config.job, checkpoint_location=location, **job))


def test_attempts_are_counted_on_by_the_next_process(tmp_path):
    times_ms = iter((1_000, 2_000))
    for _ in range(2):
        FailingFile(tmp_path, lambda: next(times_ms)).failed("some-code", "why", "Kafka", 4.0)

    assert read_failing(tmp_path) == Failing(
        since_ms=1_000,
        last_ms=2_000,
        attempts=2,
        code="some-code",
        said="why",
        cause="Kafka",
        next_ms=6_000,
    )


def test_a_committed_batch_ends_it_also_for_an_earlier_process(tmp_path):
    FailingFile(tmp_path).failed("some-code", "why")

    FailingFile(tmp_path).succeeded()

    assert read_failing(tmp_path) is None
    FailingFile(tmp_path).succeeded()


def test_attempts_that_fail_after_a_batch_are_counted_from_one(tmp_path):
    file = FailingFile(tmp_path)
    file.failed("some-code", "why")
    file.succeeded()

    file.failed("some-code", "why")

    failing = read_failing(tmp_path)
    assert failing is not None
    assert failing.attempts == 1


def test_a_file_that_cannot_be_read_or_written_disturbs_nobody(tmp_path):
    (tmp_path / FILE).write_text("{")
    assert read_failing(tmp_path) is None
    FailingFile(tmp_path).failed("some-code", "why")
    assert read_failing(tmp_path) is not None

    elsewhere = FailingFile(tmp_path / FILE / "no folder")
    elsewhere.failed("some-code", "why")
    elsewhere.succeeded()


def test_whether_a_job_runs_is_not_known_without_its_checkpoint(tmp_path):
    config = config_of(tmp_path)

    assert job_state(config, {}) == JobState(None, None)
    with FileLock(tmp_path / LOCK_FILE):
        assert job_state(config, {}).runs is True
    assert job_state(config, {}).runs is False


def test_a_job_with_a_lease_runs_until_it_is_released(tmp_path):
    config = config_of(tmp_path, shared_mount=str(tmp_path))
    assert job_state(config, {}).runs is None
    lease = CheckpointLease(tmp_path, config.job.lease_ms)
    lease.acquire()

    assert job_state(config, {}).runs is True
    lease.release()

    assert job_state(config, {}).runs is False


def test_whoever_looks_keeps_no_job_from_its_start(tmp_path):
    """Many looks while a job starts again and again: the lock is never refused."""
    config = config_of(tmp_path)
    stop = threading.Event()

    def look():
        while not stop.is_set():
            job_state(config, {})

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(200):
            lock = CheckpointLock(tmp_path)
            lock.acquire()
            lock.release()
    finally:
        stop.set()
        looking.join()
