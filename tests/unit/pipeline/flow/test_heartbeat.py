"""A failing heartbeat is logged once for all topics."""

import logging

from streaming.pipeline.flow.heartbeat import HeartbeatFailures


def test_failing_heartbeats_are_logged_once_and_their_recovery_too(caplog):
    caplog.set_level(logging.INFO)
    failures = HeartbeatFailures()

    for topic in ("a.alive", "b.alive", "c.alive"):
        failures.set_result(topic, "timed out")
    failures.log_changes()
    failures.set_result("a.alive", "timed out")
    failures.log_changes()
    failures.set_result("b.alive", None)
    failures.log_changes()
    failures.log_changes()

    assert [record.getMessage() for record in caplog.records] == [
        "the heartbeat in a.alive and 2 more fails, so clients cannot tell whether the job runs: "
        "timed out",
        "the heartbeat in b.alive works again",
    ]
