"""Warnings of the broker reach the job's log, each at most once per interval."""

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.broker.events import Kind
from streaming.pipeline.fold import MAX_WARNINGS, warnings_of
from streaming.pipeline.observe import batch_warnings
from streaming.pipeline.observe.batch_warnings import BrokerWarnings, warning_line
from tests.builders import Broker

MISSING = {"exchange": "orders", "missing_alternate_exchange": "unrouted"}
LINE = "vhost '/': alternate exchange 'unrouted' of exchange 'orders' does not exist"


def report(*warnings, vhost="/"):
    return SimpleNamespace(vhost=vhost, warnings=list(warnings))


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.WARNING)
    return caplog


def test_a_missing_alternate_exchange_is_in_the_report_of_its_shard():
    broker = Broker()
    broker.exchange("orders", arguments={"alternate-exchange": "unrouted"})
    broker.publish("orders", "key", "body")

    events = broker.finish().events

    assert warnings_of(events) == [MISSING]


def test_a_shard_reports_a_limited_number_of_warnings():
    rows = range(MAX_WARNINGS + 1)
    events: Any = SimpleNamespace(
        details={row: {"exchange": str(row)} for row in rows}, kinds=[Kind.WARNING for _ in rows]
    )

    assert len(warnings_of(events)) == MAX_WARNINGS


@pytest.mark.parametrize(
    ("detail", "line"),
    [
        (MISSING, LINE),
        (
            {"queue": "work", "missing_alternate_exchange": "unrouted"},
            "vhost '/': alternate exchange 'unrouted' of queue 'work' does not exist",
        ),
        (MISSING | {"flag": "immediate"}, LINE + ' {"flag": "immediate"}'),
        ({"what": "another warning"}, 'vhost \'/\': {"what": "another warning"}'),
    ],
)
def test_a_warning_is_a_line(detail, line):
    assert warning_line("/", detail) == line


def test_a_warning_is_logged_once_for_all_lanes_and_again_after_the_interval(log, monkeypatch):
    now_s = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    warnings = BrokerWarnings()

    warnings.log([report(MISSING), report(MISSING), report(MISSING, vhost="shop")])
    warnings.log([report(MISSING)])
    assert log.messages == [LINE, LINE.replace("'/'", "'shop'")]
    now_s += batch_warnings.REPEAT_S
    warnings.log([report(MISSING)])

    assert log.messages[2:] == [LINE]


def test_many_warnings_of_a_batch_are_summarised(log):
    many = [MISSING | {"exchange": str(number)} for number in range(batch_warnings.MAX_LINES + 3)]

    BrokerWarnings().log([report(*many)])

    assert len(log.messages) == batch_warnings.MAX_LINES + 1
    assert log.messages[-1].startswith("3 more warnings")
