"""The pause between two batches."""

import threading
import time

import pytest

from streaming.pipeline.clock.trigger import Trigger


@pytest.mark.parametrize(
    ("least_s", "passed_s", "expected_s"),
    [(0.0, 0.03, 0.07), (0.0, 0.2, None), (1.2, 0.7, 0.5), (1.2, 1.3, None)],
)
def test_a_batch_begins_when_the_interval_and_what_was_asked_for_have_passed(
    monkeypatch, least_s, passed_s, expected_s
):
    now_s, waits = [50.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(threading.Event, "wait", lambda _self, left_s: waits.append(left_s))
    trigger = Trigger(100)

    trigger.batch_began()
    now_s[0] += passed_s
    trigger.wait(least_s)

    assert waits == ([] if expected_s is None else [pytest.approx(expected_s)])
