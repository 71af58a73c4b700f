"""Warnings of quarantined records and of publishes that no queue takes."""

import logging
import time

import pytest

from streaming.pipeline.observe import batch_warnings
from streaming.pipeline.observe.batch_warnings import FaultWarnings, fault_line
from streaming.pipeline.reports import (
    MAX_FAULT_CAUSES,
    OTHER_CAUSES,
    FaultCount,
    FaultCounter,
)


def quarantined(count, cause="unmapped", topic="orders"):
    return FaultCount("quarantined", topic, cause, count, f"offset {count}")


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.WARNING)
    return caplog


@pytest.mark.parametrize(
    ("fault", "parts"),
    [
        (
            quarantined(1560),
            ["1,560 records", "topic orders", "(unmapped)", "dlx quarantine list", "quarantine"],
        ),
        (quarantined(1), ["1 record of topic"]),
        (
            FaultCount("unroutable", "shop", "orders", 2, "message 1/0/2"),
            ["2 publishes to exchange 'orders' in vhost 'shop'", "message 1/0/2", "unroutable"],
        ),
        (FaultCount("unroutable", "/", "", 1, "m"), ["1 publish to the default exchange"]),
        (FaultCount("returned", "/", OTHER_CAUSES, 3, "m"), ["to other exchanges", "returned"]),
        (
            FaultCount("publish_errors", "/", "NOT_FOUND - no exchange 'x'", 3, "m"),
            ["3 publishes", "NOT_FOUND - no exchange 'x'", "publish_error"],
        ),
    ],
)
def test_a_line_names_the_number_the_place_the_cause_and_where_to_look(fault, parts):
    line = fault_line(fault)

    assert [part for part in parts if part not in line] == []


def test_an_example_is_one_short_line():
    line = fault_line(FaultCount("quarantined", "t", "c", 1, "a\nb" + "x" * 1_000))

    assert "a b" in line
    assert len(line) < 600


def test_a_fault_is_logged_when_it_begins_and_then_once_per_interval(log, monkeypatch):
    now_s = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    warnings = FaultWarnings()

    warnings.log([quarantined(3)])
    warnings.log([quarantined(4), quarantined(5)])
    warnings.log([quarantined(1, topic="other")])
    assert [line.split(" were")[0].split(" was")[0] for line in log.messages] == [
        "3 records of topic orders",
        "1 record of topic other",
    ]
    now_s += batch_warnings.REPEAT_S
    warnings.log([])
    assert [line.split(" were")[0] for line in log.messages[2:]] == [
        "9 more records of topic orders"
    ]
    now_s += batch_warnings.REPEAT_S
    warnings.log([])
    warnings.log([quarantined(2)])
    assert [line.split(" were")[0] for line in log.messages[3:]] == ["2 records of topic orders"]


def test_what_was_not_logged_is_logged_at_the_end(log):
    warnings = FaultWarnings()
    warnings.log([quarantined(3)])
    warnings.log([quarantined(4)])
    warnings.log_rest()
    warnings.log_rest()

    assert [line.split(" were")[0] for line in log.messages] == [
        "3 records of topic orders",
        "4 more records of topic orders",
    ]


def test_many_causes_of_a_batch_are_summarised(log):
    many = [quarantined(2, str(number)) for number in range(batch_warnings.MAX_LINES + 3)]

    FaultWarnings().log(many)

    assert len(log.messages) == batch_warnings.MAX_LINES + 1
    assert log.messages[-1].startswith("6 more faults with 3 other causes")


def test_a_task_counts_a_limited_number_of_causes():
    counter = FaultCounter()
    for number in range(MAX_FAULT_CAUSES + 5):
        counter.add("publish_errors", "/", f"no exchange {number}", "example".format)

    counts = counter.counts()

    assert len(counts) == MAX_FAULT_CAUSES + 1
    assert (counts[-1].cause, counts[-1].count) == (OTHER_CAUSES, 5)
    assert sum(fault.count for fault in counts) == MAX_FAULT_CAUSES + 5
