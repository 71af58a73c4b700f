"""What a leader and its standby tell Prometheus, on a real Kafka."""

import re

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from streaming.broker.sequence.digest import SEGMENT
from streaming.metrics.alerts import RULES
from tests.fixtures.prometheus import Prometheus
from tests.fixtures.waiting import wait_until

_ADDRESS = re.compile(r"^metrics at (http://\S+)/metrics$", re.MULTILINE)
RECORDS = SEGMENT + 500


def metrics_of(front):
    """A client of the metrics of a front, as soon as they are served."""

    def address():
        front.check()
        found = _ADDRESS.search(front.log.read_text() if front.log.exists() else "")
        return None if found is None else found[1]

    wait_until(address, front.log_end)
    return httpx2.Client(base_url=str(address()), trust_env=False, timeout=60)


def values_of(client):
    """Every series: its name, then its label values in order of the labels' names."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return {
        (one.name, *(value for _name, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(answer.text)
        for one in family.samples
    }


def test_leader_and_standby_say_who_leads_how_far_they_are_and_that_their_digests_are_equal(fronts):
    leader = fronts.start("--metrics", "0")
    channel = fronts.connect(leader).channel()
    channel.queue_declare("work", durable=True)
    for number in range(RECORDS):
        channel.basic_publish("", "work", b"%d" % number)
    channel.queue_declare("work", passive=True)  # all is applied
    standby = fronts.start("--standby", "--metrics", "0")
    with metrics_of(leader) as first, metrics_of(standby) as second:

        def position(client):
            return values_of(client).get(("dlx_front_log_next_offset", "/"))

        wait_until(lambda: position(second) == position(first), standby.log_end)
        leads, follows = values_of(first), values_of(second)
        ready = [client.get("/readyz").status_code for client in (first, second)]
        steps = ("unsent", "unacknowledged", "unfolded")
        assert (leads["dlx_front_leads", "/"], follows["dlx_front_leads", "/"]) == (1, 0)
        assert ready == [200, 503]
        assert leads["dlx_front_takeovers_total", "/"] == 1
        assert leads["dlx_front_log_next_offset", "/"] >= RECORDS
        assert [leads["dlx_front_log_backlog_records", step, "/"] for step in steps] == [0, 0, 0]
        assert leads["dlx_front_digests_written_total", "/"] == 1
        assert follows["dlx_front_digests_compared_total", "/"] == 1
        assert leads["rabbitmq_queue_messages_ready",] == RECORDS
        assert leads["rabbitmq_global_messages_received_total", "amqp091"] == RECORDS
        assert leads["rabbitmq_connections",] == 1
        assert follows["rabbitmq_queues",] == 0, "clients cannot open its vhosts"

        leader.stop()
        wait_until(lambda: second.get("/readyz").status_code == 200, standby.log_end)
        after = values_of(second)
        assert after["dlx_front_leads", "/"] == 1
        assert after["dlx_front_takeovers_total", "/"] == 1
        assert after["dlx_front_takeover_seconds", "/"] > 0
        assert after["rabbitmq_queue_messages_ready",] == RECORDS


def test_prometheus_tells_that_no_front_leads_once_the_standby_is_gone_too(fronts, tmp_path):
    leader = fronts.start("--metrics", "0")
    fronts.connect(leader)
    standby = fronts.start("--standby", "--metrics", "0")
    with metrics_of(leader) as first, metrics_of(standby) as second:
        targets = [
            {"targets": [each.base_url.netloc.decode()], "labels": {"job": "front"}}
            for each in (first, second)
        ]
        rules = RULES.read_text().replace("for: 1m", "for: 2s")
        prometheus = Prometheus(tmp_path, targets, rules=rules)
        try:
            wait_until(lambda: len(prometheus.query("dlx_front_leads")) == len(targets))
            assert "DlxNoFront" not in prometheus.firing()

            standby.stop()
            wait_until(lambda: prometheus.query("count_over_time((up == 0)[1m:1s]) >= 5"))
            assert "DlxNoFront" not in prometheus.firing(), "the leader is there"

            leader.stop()
            wait_until(lambda: "DlxNoFront" in prometheus.firing())
            told = prometheus.firing()["DlxNoFront"]
        finally:
            prometheus.stop()
    assert told == {
        "alertname": "DlxNoFront",
        "job": "front",
        "severity": "critical",
        "vhost": "/",
    }
