"""A failing heartbeat is logged once for all topics; it says how far logs are committed."""

import json
import logging
import threading
from typing import Any

from streaming.broker.sequence.log_fold import Terms
from streaming.config import JobConfig
from streaming.config.model import job_address
from streaming.config.vhosts import VhostSettings
from streaming.pipeline.flow.heartbeat import Heartbeat, HeartbeatFailures
from streaming.protocol.addressing import JobMark


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


class Notices:
    """The part of every heartbeat that others have."""

    def record(self, kind, **more):
        return json.dumps({"type": kind, **more}).encode(), []


class Sent:
    """What was sent."""

    def __init__(self):
        self.values = []
        self.came = threading.Condition()

    def send(self, _topic, value, **_options):
        with self.came:
            self.values.append(json.loads(value))
            self.came.notify_all()


def beating_of(sent, interval_s):
    """Heartbeats of an ordinary vhost and of two sequenced ones."""
    vhosts = {"/": VhostSettings(), "shop": VhostSettings(sequenced=True)}
    vhosts["new"] = VhostSettings(sequenced=True)
    config = JobConfig(vhosts=vhosts)
    addresses = [job_address(config, name, "guest") for name in vhosts]
    mark = JobMark("id", "tables", "checkpoint", "host")
    notices: Any = Notices()
    ends = {"dlx.log.shop": {"0": 12}}
    terms = dict.fromkeys(config.log_topics(), Terms(7, "abc"))
    logs_of = (config.log_topics(), ends, terms)
    return Heartbeat(notices, addresses, mark, sent, *logs_of, interval_s=interval_s)


def test_a_front_hears_of_a_committed_batch_at_once():
    sent: Any = Sent()
    beating = beating_of(sent, interval_s=600)

    def offsets(vhost):
        logs = [one["log"] for one in sent.values if one["address"]["vhost"] == vhost]
        return [each and each["next_offset"] for each in logs]

    with sent.came:
        assert sent.came.wait_for(lambda: len(sent.values) == 3, 30)
    beating.batch_done(3, {"dlx.log.shop": {"0": 17}})
    with sent.came:
        assert sent.came.wait_for(lambda: offsets("shop") == [12, 17], 30), sent.values
    beating.stop()

    assert offsets("/") == [None], "its clients need not know"


def test_a_heartbeat_says_how_far_the_log_of_its_vhost_is_committed():
    sent: Any = Sent()
    beating = beating_of(sent, interval_s=0.01)

    def said(offset):
        return {"next_offset": offset, "core_version": 7, "rules": "abc"}

    def logs(vhost):
        return [one["log"] for one in sent.values if one["address"]["vhost"] == vhost]

    with sent.came:
        sent.came.wait_for(lambda: logs("shop"), 30)
    beating.batch_done(3, {"dlx.log.shop": {"0": 17}, "dlx.publishes": {"0": 5}})
    with sent.came:
        assert sent.came.wait_for(lambda: said(17) in logs("shop"), 30)
    beating.stop()

    assert logs("shop")[0] == said(12), "as the checkpoint has it"
    assert logs("new")[0] == said(0)
    assert set(map(str, logs("/"))) == {"None"}
