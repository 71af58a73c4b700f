"""Batches are short under live traffic and large in a backlog, whatever the configuration."""

from unittest.mock import MagicMock

import msgspec
import pytest

from streaming.config import JobConfig
from streaming.config.amqp import AmqpSettings
from streaming.config.job import JobSettings
from streaming.config.metrics import MetricsSettings
from streaming.config.vhosts import VhostSettings
from streaming.ledger.batch_detail import BatchDetail, GateState
from streaming.pipeline.flow.control import FlowControl
from streaming.pipeline.flow.memory import MemoryMarks
from streaming.pipeline.flow.pace import (
    LEAST_ROWS,
    MUCH_RECORDS,
    CommandPace,
    Pace,
    interval_s,
    is_worth_waiting,
)
from streaming.pipeline.reports import ShardStats

MOST = 200_000
FIXED_S = 0.25
NO_MARKS = MemoryMarks(high_bytes=None, low_bytes=None, notes=())


def batches_of(pace, backlog, rate, row_s, seconds):
    """The size and duration of each batch while publishes come at a rate, for some seconds."""
    waiting, passed_s, found = float(backlog), 0.0, []
    while passed_s < seconds and waiting >= 1:
        rows = int(min(waiting, pace.rows))
        batch_s = FIXED_S + rows * row_s
        pace.batch_done(rows, batch_s)
        waiting += rate * batch_s - rows
        passed_s += batch_s
        found.append((rows, batch_s))
    return found


@pytest.mark.parametrize("rate", [100, 1_000, 5_000])
def test_live_traffic_makes_short_batches_and_leaves_nothing_behind(rate):
    pace = Pace(MOST)

    found = batches_of(pace, rate, rate, 50e-6, 60)

    assert max(batch_s for _rows, batch_s in found[5:]) <= 0.5
    assert sum(rows for rows, _batch_s in found) >= 0.98 * 60 * rate


def test_a_pause_under_live_traffic_is_made_up_for_in_batches_that_stay_short():
    pace = Pace(MOST)
    batches_of(pace, 5_000, 5_000, 50e-6, 10)

    found = batches_of(pace, 4 * 5_000, 5_000, 50e-6, 10)

    assert found[0][1] <= FIXED_S + LEAST_ROWS * 50e-6 + 0.01
    assert found[-1][1] <= 0.5


def test_a_backlog_at_the_start_is_worked_off_in_batches_of_full_size():
    found = batches_of(Pace(MOST), 1_000_000, 1_000, 25e-6, 26)

    assert [rows for rows, _batch_s in found[:5]] == [MOST] * 5


def test_a_backlog_after_live_traffic_grows_the_batches_to_full_size():
    pace = Pace(MOST)
    batches_of(pace, 1_000, 1_000, 25e-6, 10)

    found = batches_of(pace, 1_000_000, 1_000, 25e-6, 60)

    assert not pace.has_backlog
    assert [rows for rows, _batch_s in found[:4]] == [10_000, 40_000, 160_000, MOST]
    assert found[-1][0] < LEAST_ROWS


def test_traffic_that_a_batch_of_half_a_second_can_carry_is_never_split():
    pace = Pace(MOST)
    pace.batch_done(40_000, 0.5)

    assert pace.rows == 80_000
    found = batches_of(pace, 40_000, 80_000, 5e-6, 20)
    assert sum(rows for rows, _batch_s in found) >= 0.98 * 20 * 80_000


def test_a_batch_of_few_publishes_does_not_make_the_next_one_small():
    pace = Pace(MOST)
    pace.batch_done(40_000, 1.0)
    pace.batch_done(2_000, 0.4)

    assert pace.rows == 36_000
    assert not pace.has_backlog


@pytest.mark.parametrize("most", [1, 20, 1_000])
def test_batches_are_never_larger_than_configured(most):
    pace = Pace(most)

    assert max(rows for rows, _ in batches_of(pace, 10_000, 0, 1e-4, 100)) == most
    assert pace.rows == most


def test_a_batch_without_publishes_says_nothing_about_the_traffic():
    pace = Pace(MOST)
    pace.batch_done(30_000, 0.5)
    before = pace.rows

    pace.batch_done(0, 4.0)

    assert pace.rows == before


def test_what_memory_limits_does_not_count_as_little_traffic():
    stats = ShardStats(BatchDetail())
    flow = FlowControl(JobConfig(), MemoryMarks(1_000_000, 800_000, ()), BatchDetail(), stats)
    assert flow.state.max_rows < MOST  # a kibibyte each is assumed

    flow.batch_done(flow.state.max_rows, 1.0)

    assert flow.next_rows == flow.state.max_rows


def test_the_next_batch_obeys_both_the_gate_and_the_pace():
    flow = FlowControl(JobConfig(), NO_MARKS, BatchDetail(), ShardStats(BatchDetail()))

    flow.batch_done(3_000, 0.5)

    assert (flow.state.max_rows, flow.next_rows) == (MOST, LEAST_ROWS)


def test_a_backlog_of_commands_is_read_in_growing_batches_that_fit_into_memory():
    pace = CommandPace(MOST, 20_000_000)
    read = []
    for size_bytes in (100, 100, 100, 1_000, 4_000_000, 100, 100):
        read.append(pace.rows)
        pace.batch_done(pace.rows, pace.rows * size_bytes)

    assert read == [LEAST_ROWS, 4 * LEAST_ROWS, 16 * LEAST_ROWS, MOST, 20_000, 5, 20]


def test_publishes_wait_while_a_backlog_of_commands_is_read():
    flow = FlowControl(JobConfig(), NO_MARKS, BatchDetail(), ShardStats(BatchDetail()))
    spark = MagicMock(version="4.2.0")
    assert flow.first_rows(spark, importing=False, commands=LEAST_ROWS) == MOST
    assert flow.first_rows(spark, importing=False, commands=LEAST_ROWS + 1) == 0

    limits = []
    for commands in (LEAST_ROWS, 4 * LEAST_ROWS, 100):
        flow.batch_done(0, 0.5, (commands, 100 * commands))
        limits.append(flow.next_rows)

    assert limits == [0, 0, MOST]


def test_publishes_never_wait_for_commands_if_only_records_advance_the_time():
    flow = FlowControl(
        JobConfig(job=JobSettings(clock="event")),
        NO_MARKS,
        BatchDetail(),
        ShardStats(BatchDetail()),
    )

    assert flow.first_rows(MagicMock(version="4.2.0"), importing=False, commands=MOST) == MOST
    flow.batch_done(0, 0.5, (MOST, MOST))
    assert flow.next_rows == MOST


def test_a_batch_without_commands_says_nothing_about_them():
    pace = CommandPace(50, 1_000)

    pace.batch_done(0, 0)

    assert pace.rows == 50


@pytest.mark.parametrize(("clock", "most"), [("wall", LEAST_ROWS), ("event", MOST)])
def test_the_first_batch_reads_few_commands_unless_only_records_advance_the_time(clock, most):
    flow = FlowControl(
        JobConfig(job=JobSettings(clock=clock)), NO_MARKS, BatchDetail(), ShardStats(BatchDetail())
    )

    assert flow.first_commands(MagicMock(version="4.2.0")) == most
    assert flow.first_commands(MagicMock(version="4.3.0")) == MOST


@pytest.mark.parametrize(
    ("publishes", "seconds", "most_s", "expected_s"),
    [
        (LEAST_ROWS - 1, 0.9, 30.0, 0.0),
        (LEAST_ROWS, 0.4, 30.0, 0.0),
        (LEAST_ROWS, 0.6, 30.0, 1.2),
        (LEAST_ROWS, 1.2, 30.0, 1.5),
        (LEAST_ROWS, 0.6, 1.0, 1.0),
        (LEAST_ROWS, 4.0, 30.0, 1.5),
    ],
)
def test_beside_fronts_batches_of_busy_traffic_take_half_the_time(
    publishes, seconds, most_s, expected_s
):
    assert interval_s(publishes, seconds, most_s) == pytest.approx(expected_s)


def test_a_job_of_fronts_alone_reads_all_that_their_logs_have():
    logs = {"/": VhostSettings(sequenced=True), "eu": VhostSettings(sequenced=True)}
    mixed = {**logs, "of-kafka": VhostSettings()}
    limits = []
    for vhosts in (logs, mixed):
        config = JobConfig(vhosts=vhosts)
        flow = FlowControl(config, NO_MARKS, BatchDetail(), ShardStats(BatchDetail()))
        flow.batch_done(3_000, 2.0)
        limits.append(flow.next_rows)
        assert not flow.has_backlog

    assert limits == [MOST, LEAST_ROWS]


@pytest.mark.parametrize(("mean_bytes", "most"), [(200, MOST), (1 << 20, 1_024)])
def test_what_a_full_batch_of_a_log_leaves_behind_is_a_backlog(mean_bytes, most):
    stats = ShardStats(BatchDetail(mean_bytes=mean_bytes))
    config = JobConfig(vhosts={"/": VhostSettings(sequenced=True)})
    flow = FlowControl(config, NO_MARKS, BatchDetail(), stats)
    assert flow.next_rows == most
    found = []
    for records in (most // 2, most, most // 2):
        flow.batch_done(records // 2, 5.0, records=records)
        found.append(flow.has_backlog)

    assert found == [False, True, False]
    assert flow.next_rows == most


MARKS = MemoryMarks(high_bytes=1_000_000, low_bytes=800_000, notes=())


@pytest.mark.parametrize("was_open", [True, False])
def test_messages_of_fronts_alone_close_no_gate_however_many_they_are(was_open):
    """What settles them is in the same log, which nobody would read any more."""
    config = JobConfig(vhosts={"/": VhostSettings(sequenced=True)})
    detail = BatchDetail(resident={1: (9, 5_000_000)}, mean_bytes=1_000)
    if not was_open:
        detail = msgspec.structs.replace(detail, gate=GateState(5_000_000, 0, "above", open=False))

    flow = FlowControl(config, MARKS, detail, ShardStats(detail), frozenset({1}))

    assert flow.state == GateState(0, MOST, "below", open=True)
    assert flow.next_rows == MOST


def test_beside_fronts_only_messages_of_other_vhosts_close_the_gate():
    config = JobConfig(vhosts={"/": VhostSettings(sequenced=True), "kafka": VhostSettings()})
    states = []
    for of_log, of_kafka in ((5_000_000, 0), (5_000_000, 900_000), (0, 1_000_001)):
        detail = BatchDetail(resident={1: (9, of_log), 2: (9, of_kafka)}, mean_bytes=1_000)
        flow = FlowControl(config, MARKS, detail, ShardStats(detail), frozenset({1}))
        states.append((flow.state.resident_bytes, flow.state.max_rows))

    assert states == [(0, 1_000), (900_000, 100), (1_000_001, 0)]


def test_publishes_that_a_closed_gate_keeps_out_are_no_backlog():
    pace = Pace(MOST)
    pace.batch_done(MOST, 1.0)
    assert pace.has_backlog

    pace.batch_done(0, 1.0, 0)

    assert not pace.has_backlog


@pytest.mark.parametrize(("is_sequenced", "expected_s"), [(True, 1.2), (False, 0.0)])
def test_only_a_job_beside_fronts_pauses_between_busy_batches(is_sequenced, expected_s):
    config = JobConfig(vhosts={"/": VhostSettings(sequenced=is_sequenced)})
    flow = FlowControl(config, NO_MARKS, BatchDetail(), ShardStats(BatchDetail()))

    flow.batch_done(LEAST_ROWS, 0.6)
    assert flow.interval_s == pytest.approx(expected_s)

    flow.batch_done(0, 0.6)
    assert flow.interval_s == 0


@pytest.mark.parametrize(
    ("settings", "expected_s"),
    [
        ({}, 20.0),
        ({"amqp": AmqpSettings(max_lag_ms=0)}, 20.0),
        ({"amqp": AmqpSettings(max_lag_ms=2_400)}, 0.8),
        ({"metrics": MetricsSettings(stalled_after_ms=10_000)}, 3.333),
        ({"job": JobSettings(spare_cores=0)}, 0.0),  # fronts are on another machine
        ({"vhosts": {"/": VhostSettings()}}, 0.0),
        ({"vhosts": {"/": VhostSettings(sequenced=True), "eu": VhostSettings()}}, 0.0),
    ],
)
def test_beside_fronts_a_batch_waits_for_an_idle_core(settings, expected_s):
    config = JobConfig(**{"vhosts": {"/": VhostSettings(sequenced=True)}, **settings})
    flow = FlowControl(config, NO_MARKS, BatchDetail(), ShardStats(BatchDetail()))
    found = []
    for publishes, records, seconds, commands in (
        (0, 100, 1.2, 0),  # a burst may have begun meanwhile
        (LEAST_ROWS, LEAST_ROWS, 1.2, 0),
        (LEAST_ROWS, MOST, 1.2, 0),  # more is left behind
        (LEAST_ROWS, LEAST_ROWS, 0.8, 0),
        (0, 100, 1.2, LEAST_ROWS),  # commands come first
    ):
        flow.batch_done(publishes, seconds, (commands, commands), records=records)
        found.append(flow.longest_s)

    assert found == pytest.approx([expected_s, expected_s, 0.0, 0.0, 0.0], rel=1e-3)


@pytest.mark.parametrize(
    ("records", "mean_bytes", "most_bytes", "expected"),
    [
        (MUCH_RECORDS, 100, 0, True),
        (MUCH_RECORDS - 1, 100, 0, False),
        (MUCH_RECORDS, 100, 3 * 100 * MUCH_RECORDS, True),
        (MUCH_RECORDS + 1, 100, 3 * 100 * MUCH_RECORDS, False),
        (MUCH_RECORDS, 0, 3 * 100 * MUCH_RECORDS, False),  # their size is not known
        (MUCH_RECORDS, 0, 3 * 2_000 * MUCH_RECORDS, True),
    ],
)
def test_a_batch_waits_if_it_is_large_but_not_for_more_than_publishers_allow(
    records, mean_bytes, most_bytes, expected
):
    assert is_worth_waiting(records, mean_bytes, most_bytes) == expected
