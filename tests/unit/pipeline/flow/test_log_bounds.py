"""Up to where a job reads logs that go on on other terms."""

import pytest

from streaming.broker.sequence.log_fold import OtherTermsError, Terms
from streaming.pipeline.flow.log_bounds import LogBounds

HERE, THERE = Terms(7, "abc"), Terms(8, "abc")


def other(offset):
    return OtherTermsError(offset, offset, HERE, THERE)


def test_without_a_bound_everything_may_be_read():
    bounds = LogBounds()
    bounds.committed({"log": {"0": 5}})

    bounds.end()
    assert bounds.rows() > 1 << 60


def test_a_batch_reads_no_record_behind_the_nearest_bound_and_the_job_ends_there():
    bounds = LogBounds({"log": other(100), "next": other(40)}, {"log": {"0": 10}})
    assert bounds.rows() == 40

    bounds.committed({"log": {"0": 70}, "next": {"0": 12}})
    bounds.end()
    assert bounds.rows() == 28
    bounds.committed({"log": {"0": 100}, "next": {"0": 20}})

    assert bounds.rows() == 0
    with pytest.raises(OtherTermsError, match=r"from offset 100 on .* broker core 8"):
        bounds.end()


def test_an_unfinished_batch_ends_before_the_job_does():
    bounds = LogBounds({"log": other(100)}, {"log": {"0": 100}})
    assert bounds.reached() is not None

    bounds.end()
    bounds.committed({"log": {"0": 100}})

    with pytest.raises(OtherTermsError):
        bounds.end()


def test_a_batch_that_was_planned_too_far_changes_nothing_here():
    bounds = LogBounds({"log": other(100)}, {"log": {"0": 120}})

    assert (bounds.rows(), bounds.reached()) == (0, None)
