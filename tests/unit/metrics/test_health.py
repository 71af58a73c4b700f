"""Health by the stream's progress, on a clock that the test moves."""

import pytest

from streaming.metrics.health import ANSWER_TIMEOUT_S, Health
from tests.fixtures.clocks import HandClock


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def health(clock):
    return Health(300.0, clock)


def test_a_job_that_starts_is_alive_and_not_ready(health):
    assert not health.alive().fault
    assert health.ready().fault


def test_it_is_ready_once_its_first_batch_is_committed(health):
    health.started(needs_batch=True)
    assert "first batch" in health.ready().fault

    health.batch_ended()

    assert not health.ready().fault


def test_without_records_a_job_by_event_time_is_ready_at_once(health):
    health.started(needs_batch=False)

    assert not health.ready().fault


def test_an_idle_job_stays_healthy(health, clock):
    health.started(needs_batch=True)
    health.batch_ended()
    for _ in range(100):
        clock.now_s += 10
        health.answered(is_running=False)
        health.waiting(records=False)

    assert not health.alive().fault
    assert not health.ready().fault


def test_a_batch_that_runs_too_long_is_stuck(health, clock):
    health.started(needs_batch=True)
    health.batch_ended()
    for _ in range(31):
        health.answered(is_running=True)
        clock.now_s += 10

    assert "a batch has been running" in health.alive().fault
    assert health.ready().fault


def test_batches_one_after_the_other_are_progress(health, clock):
    health.started(needs_batch=True)
    for _ in range(100):
        health.answered(is_running=True)
        clock.now_s += 10
        health.batch_ended()

    assert not health.alive().fault


def test_records_that_no_batch_reads_are_a_fault(health, clock):
    health.started(needs_batch=True)
    health.batch_ended()
    for _ in range(31):
        health.answered(is_running=False)
        health.waiting(records=True)
        clock.now_s += 10

    assert "records wait" in health.alive().fault

    health.batch_ended()

    assert not health.alive().fault


def test_a_jvm_that_does_not_answer_is_a_fault(health, clock):
    health.started(needs_batch=True)
    clock.now_s += ANSWER_TIMEOUT_S + 1

    assert "Spark" in health.alive().fault


def test_a_job_that_stops_is_not_ready(health):
    health.started(needs_batch=False)
    health.stopping()

    assert "stops" in health.ready().fault
    assert not health.alive().fault
