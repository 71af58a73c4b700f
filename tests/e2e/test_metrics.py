"""A running job's metrics, scraped by a real Prometheus."""

import json
import re
from functools import partial
from http.client import HTTPConnection

import attrs
import pytest
from msgspec import structs

from streaming.client import Connection, QuarantinedError
from streaming.config.metrics import MetricsSettings
from streaming.embedded.kafka.ports import free_port
from streaming.metrics.alerts import SHIPPED
from streaming.metrics.service import Metrics
from streaming.pipeline.job import Job
from streaming.queries import DeadLetterFilter, RedriveWish, open_tables
from tests.fixtures.jobs import RunningJob, get_when_there
from tests.fixtures.prometheus import Prometheus, program
from tests.fixtures.waiting import WAIT_S, wait_until

IDENTITY = (
    "* on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node) "
    'rabbitmq_identity_info{rabbitmq_cluster="dlx", namespace="", rabbitmq_endpoint="aggregated"}'
)
GAUGES = (
    *("queue_messages_ready", "queue_messages_unacked", "global_publishers", "global_consumers"),
    *("connections", "channels", "queues", "resident_memory_limit_bytes"),
    *("process_resident_memory_bytes", "disk_space_available_bytes"),
)
GLOBAL_COUNTERS = (
    *("received", "received_confirm", "confirmed", "routed", "unroutable_dropped"),
    *("unroutable_returned", "delivered_consume_auto_ack", "delivered_consume_manual_ack"),
    *("delivered_get_auto_ack", "delivered_get_manual_ack", "get_empty", "redelivered"),
    "acknowledged",
)
COUNTERS = (
    *(f"global_messages_{name}_total" for name in GLOBAL_COUNTERS),
    *(f"queues_{change}_total" for change in ("declared", "created", "deleted")),
    *(
        f"{what}_{change}_total"
        for what in ("channels", "connections")
        for change in ("opened", "closed")
    ),
    "message_size_bytes_sum",
    'message_size_bytes_bucket{le="100"}',
    'message_size_bytes_bucket{le="+Inf"}',
)
OLDER = (
    *("channel_messages_published_total", "channel_messages_confirmed_total"),
    *("channel_messages_unroutable_dropped_total", "channel_messages_unroutable_returned_total"),
    *("channel_messages_delivered_total", "channel_messages_delivered_ack_total"),
    *("channel_messages_redelivered_total", "channel_messages_acked_total"),
    *("channel_get_total", "channel_get_ack_total", "channel_get_empty_total"),
    "queue_messages_published_total",
)
"""What RabbitMQ's Overview dashboard asked for before 3.8.10."""

OVERVIEW = [
    *(f"sum(rabbitmq_{name} {IDENTITY})" for name in (*GAUGES, "channel_consumers")),
    *(
        f"sum(rate(rabbitmq_{name}[60s]) {IDENTITY}) by(rabbitmq_node)"
        for name in (*COUNTERS, *OLDER)
    ),
    f"count({IDENTITY.rsplit(') ', maxsplit=1)[-1]})",
    "rabbitmq_erlang_uptime_seconds * on(instance, job) group_left(rabbitmq_version, "
    f"erlang_version) rabbitmq_build_info {IDENTITY}",
]
"""The queries of RabbitMQ's Overview dashboard (grafana.com, 10991)."""


class MeasuredJob(RunningJob):
    """A running job that answers Prometheus."""

    def start(self, spark, definitions=None):
        self.listen = f"127.0.0.1:{free_port()}"
        self.config = attrs.evolve(
            self.config,
            metrics=MetricsSettings(listen=self.listen, interval_ms=1_000),
        )
        metrics = self.metrics = Metrics(self.config, self.listen)
        job = self.job = Job(self.config, lambda done: metrics.batch_done(done, job))
        job.start(spark, definitions)
        metrics.started(job)
        job.wake()

    def stop(self):
        super().stop()
        self.metrics.stop()

    def get(self, path):
        connection = HTTPConnection(self.listen, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body


@pytest.fixture(scope="module")
def measured(embedded_kafka, spark, tmp_path_factory):
    program("prometheus")
    job = MeasuredJob(tmp_path_factory.mktemp("job"), embedded_kafka.bootstrap_servers)
    job.start(spark)
    yield job
    job.stop()


@pytest.fixture(scope="module")
def prometheus(measured, tmp_path_factory):
    server = Prometheus(tmp_path_factory.mktemp("prometheus"), measured.listen)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def traffic(measured, prometheus):
    """Publishes, deliveries, acknowledgements and deaths, while Prometheus scrapes."""
    wait_until(lambda: measured.get("/readyz")[0] == 200)
    wait_until(lambda: prometheus.query("dlx_totals_complete == 1"))
    with measured.connect() as connection, connection.channel() as channel:
        channel.declare_queue(
            "work",
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
        )
        channel.declare_queue("dead")
        publisher = connection.publisher()
        for number in range(4):
            publisher.publish("", "work", b"order %d" % number).result(WAIT_S)
        get_when_there(channel, "work").ack()
        for deaths in (1, 2):  # a rate needs a sample before the last death
            get_when_there(channel, "work").reject(requeue=False)
            channel.sync()
            seen = f'dlx_dead_letters_total{{queue="work"}} >= {deaths}'
            wait_until(partial(prometheus.query, seen))
        yield


def test_rabbitmqs_overview_dashboard_fills(prometheus, traffic):
    wait_until(lambda: all(prometheus.query(query) for query in OVERVIEW))

    assert [query for query in OVERVIEW if not prometheus.query(query)] == []


def shipped_queries(file):
    dashboard = json.loads((SHIPPED / file).read_text())
    return [
        re.sub(r"\$__(rate_interval|range)", "1m", target["expr"])
        .replace("$job", "dlx")
        .replace("$instance", ".+")
        .replace("offset 5m", "")
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]


def is_of_repairs(query):
    return re.search("quarantined_total|redrive_letters", query)


@pytest.mark.parametrize("file", ["dlx-job.json", "dlx-dead-letters.json"])
def test_every_query_of_the_shipped_dashboards_returns_data(prometheus, traffic, file):
    queries = [query for query in shipped_queries(file) if not is_of_repairs(query)]

    wait_until(lambda: all(prometheus.query(query) for query in queries))

    assert queries
    assert [query for query in queries if not prometheus.query(query)] == []


def test_the_depth_and_the_dead_letters_are_those_of_the_queues(prometheus, traffic, measured):
    wait_until(lambda: prometheus.query('dlx_unhandled_dead_letters{queue="dead"} == 2'))

    status, body = measured.get("/metrics/per-object")

    assert status == 200
    assert 'rabbitmq_queue_messages_ready{queue="dead",vhost="/"} 2.0' in body
    assert 'rabbitmq_queue_messages_ready{queue="work",vhost="/"} 1.0' in body
    assert 'rabbitmq_queue_messages_acked_total{queue="work",vhost="/"} 1.0' in body
    assert "dlx_unexplained 0.0" in body
    # The clients renew their leases meanwhile.
    wait_until(lambda: prometheus.query("sum(dlx_consumer_lag_records) == 0"))


def test_real_deaths_fire_their_alert_and_no_other(prometheus, traffic, measured):
    with measured.connect() as connection, connection.channel() as channel:
        get_when_there(channel, "work").reject(requeue=False)
        channel.sync()
        wait_until(lambda: "DlxMessagesDie" in prometheus.firing())

    firing = prometheus.firing()

    assert set(firing) == {"DlxMessagesDie"}
    assert firing["DlxMessagesDie"]["queue"] == "work"
    assert firing["DlxMessagesDie"]["reason"] == "rejected"


def test_health_is_good_while_the_job_works_and_idles(traffic, measured):
    assert measured.get("/healthz") == (200, "ok\n")
    assert measured.get("/readyz") == (200, "ok\n")


def test_queries_of_quarantine_and_redrives_return_data_once_there_are_any(
    prometheus, traffic, measured
):
    queries = list(filter(is_of_repairs, shipped_queries("dlx-dead-letters.json")))
    most = measured.config.flow.max_body_bytes
    unaware = structs.replace(measured.address(), max_body_bytes=2 * most)
    with Connection(unaware, timeout_s=WAIT_S) as connection, connection.channel() as channel:
        too_large = connection.publisher().publish("", "work", b"x" * (most + 1))
        with pytest.raises(QuarantinedError):
            too_large.result(WAIT_S)
        with open_tables(str(measured.root / "tables")) as tables:
            plan = tables.plan_redrive(RedriveWish(wanted=DeadLetterFilter(queue="work"))).sealed
        channel.approve_redrive(plan, "the cause is mended")

    wait_until(lambda: all(prometheus.query(query) for query in queries))

    assert len(queries) == 2
    assert [query for query in queries if not prometheus.query(query)] == []
