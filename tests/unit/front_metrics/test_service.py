"""What the metrics of a front say of what clients did, over HTTP."""

import asyncio
import math
import re
import time
from http.client import HTTPConnection

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streaming.amqp import methods as m
from streaming.exposition.collector import RESERVED
from streaming.front_metrics import figures
from streaming.front_metrics.families import FRONT
from streaming.front_metrics.service import FrontMetrics
from streaming.listening import ListenError
from streaming.management.counting import Counting
from streaming.metrics.collector import JOB
from streaming.sequencer.job_lag import Lag
from streaming.sequencer.log_state import LogState
from streaming.sequencer.log_vhost import Backlog
from tests.amqp_client import RawClient, memory_broker
from topology.values import Table


def get(port, path, **headers):
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def series(text):
    """Every series: its name, then its label values in order of the labels' names."""
    return {
        (one.name, *(value for _name, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def scrape(broker, play, path="/metrics", **options):
    """Let clients play, and return what the metrics say then."""

    async def run():
        metrics = FrontMetrics(broker.server, "shop", **options)
        port = metrics.serve("--metrics", "127.0.0.1", 0)
        try:
            play(broker)
            return await asyncio.to_thread(get, port, path)
        finally:
            metrics.stop()

    status, body = asyncio.run(run())
    assert status == 200, body
    return series(body)


def a_shop(broker):
    """Publish six messages: two are acked, one is rejected and dies, one is got, two wait."""
    client = RawClient(broker)
    # RawClient has no socket, so the server does not know it by itself.
    broker.server.connections[client.connection] = None
    client.ask(m.QueueDeclare(queue="failed"))
    arguments = Table({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"})
    client.ask(m.QueueDeclare(queue="work", arguments=arguments))
    client.ask(m.ConfirmSelect())
    for number in range(6):
        client.publish("", "work", b"%d" % number)
    client.publish("", "nowhere", b"lost")
    client.publish("", "nowhere", b"back", mandatory=True)
    client.ask(m.BasicQos(0, 3, False))
    client.send(1, m.BasicConsume(queue="work", consumer_tag="c"))
    client.send(1, m.BasicAck(2, True))
    client.send(1, m.BasicReject(3, False))
    client.send(1, m.BasicCancel("c"))
    client.send(1, m.BasicNack(6, True, True))
    client.ask(m.BasicGet(queue="work", no_ack=True))
    client.ask(m.BasicGet(queue="failed", no_ack=False))
    client.ask(m.BasicGet(queue="failed", no_ack=False))
    client.received()
    return client


def test_what_clients_did_is_told_in_rabbitmqs_names():
    values = scrape(memory_broker(), a_shop)

    assert values["rabbitmq_connections",] == 1
    assert values["rabbitmq_channels",] == 1
    assert values["rabbitmq_queues",] == 2
    assert values["rabbitmq_consumers",] == 0
    assert values["rabbitmq_connections_opened_total",] == 1
    assert values["rabbitmq_connections_closed_total",] == 0
    assert values["rabbitmq_channels_opened_total",] == 1
    assert values["rabbitmq_queues_created_total",] == 2
    assert values["rabbitmq_queue_messages_ready",] == 2
    assert values["rabbitmq_queue_messages_unacked",] == 1
    assert values["rabbitmq_channel_messages_unacked",] == 1
    assert values["rabbitmq_connection_channels",] == 1
    assert values["rabbitmq_exchange_messages_published_total",] == 8
    assert values["rabbitmq_unreachable_cluster_peers_count",] == 0
    assert 0 < values["process_start_time_seconds",] <= time.time()
    of = "rabbitmq_global_messages_{}_total".format
    assert {
        name: values[of(name), "amqp091"]
        for name in (
            *("received", "received_confirm", "confirmed", "routed", "unroutable_dropped"),
            *("unroutable_returned", "acknowledged", "dead_lettered_rejected"),
            *("delivered_get_auto_ack", "delivered_get_manual_ack", "get_empty"),
            *("delivered_consume_manual_ack", "redelivered"),
        )
    } == {
        "received": 8,
        "received_confirm": 8,
        "confirmed": 8,
        "routed": 6,
        "unroutable_dropped": 1,
        "unroutable_returned": 1,
        "acknowledged": 2,
        "dead_lettered_rejected": 1,
        "delivered_get_auto_ack": 1,
        "delivered_get_manual_ack": 1,
        "get_empty": 1,
        "delivered_consume_manual_ack": 6,
        "redelivered": 1,
    }
    assert values["rabbitmq_identity_info", "shop", "shop", "aggregated", *host(values)] == 1


def host(values):
    [key] = [key for key in values if key[0] == "rabbitmq_identity_info"]
    return key[4:]


def test_each_queue_has_its_series_and_a_detailed_view_what_is_asked():
    each = scrape(memory_broker(), a_shop, "/metrics/per-object")
    detailed = scrape(
        memory_broker(), a_shop, "/metrics/detailed?family=queue_coarse_metrics&vhost=%2F"
    )
    other = scrape(
        memory_broker(), a_shop, "/metrics/detailed?family=queue_coarse_metrics&vhost=other"
    )

    assert each["rabbitmq_queue_messages_ready", "work", "/"] == 2
    assert each["rabbitmq_queue_messages_unacked", "failed", "/"] == 1
    assert each["rabbitmq_queue_messages_published_total", "work", "/"] == 6
    assert each["rabbitmq_queue_messages_published_total", "failed", "/"] == 0
    assert each["rabbitmq_queue_messages_acked_total", "work", "/"] == 2
    assert each["rabbitmq_queue_messages_delivered_ack_total", "work", "/"] == 6
    assert each["rabbitmq_queue_messages_delivered_ack_total", "failed", "/"] == 0
    assert each["rabbitmq_queue_get_total", "work", "/"] == 1
    assert each["rabbitmq_queue_get_ack_total", "failed", "/"] == 1
    assert each["rabbitmq_queue_get_empty_total", "failed", "/"] == 1
    assert detailed["rabbitmq_detailed_queue_messages", "work", "/"] == 2
    assert not [key for key in detailed if key[0] == "rabbitmq_queues"]
    assert not [key for key in other if "work" in key]


def test_each_exchange_has_what_was_published_to_it_as_many_as_fit():
    def play(broker):
        client = a_shop(broker)
        for number in range(200):
            client.send(1, m.ExchangeDeclare(exchange=f"x{number}", type="fanout"))
        client.publish("x7", "", b"x")
        client.received()

    name = "rabbitmq_exchange_messages_published_total"
    each = scrape(memory_broker(), play, "/metrics/per-object")
    few = scrape(memory_broker(), play, "/metrics/per-object", max_series=2_000)
    asked = scrape(memory_broker(), play, "/metrics/detailed?family=exchange_metrics&vhost=other")

    assert (each[name, "", "/"], each[name, "x7", "/"], each[name, "x8", "/"]) == (8, 1, 0)
    shown = sum(key[0] == name for key in few)
    assert shown + few["dlx_metrics_series_left_out", name] == sum(key[0] == name for key in each)
    assert not [key for key in asked if key[0].startswith("rabbitmq_detailed_exchange")]


def test_bindings_of_exchanges_are_told_to_who_asks_for_them():
    def play(broker):
        client = a_shop(broker)
        client.ask(m.QueueBind(queue="work", exchange="amq.topic", routing_key="a"))
        client.ask(m.QueueBind(queue="work", exchange="amq.topic", routing_key="b"))

    asked = "/metrics/detailed?family=exchange_bindings&family=exchange_names"
    found = scrape(memory_broker(), play, asked)
    other = scrape(memory_broker(), play, f"{asked}&vhost=other")
    each = scrape(memory_broker(), play, "/metrics/per-object")

    bindings, name = "rabbitmq_cluster_exchange_bindings", "rabbitmq_cluster_exchange_name"
    assert found[bindings, "amq.topic", "topic", "/"] == 2
    assert found[bindings, "amq.fanout", "fanout", "/"] == 0
    assert found[name, "amq.topic", "topic", "/"] == 1
    assert not [key for key in found if key[1:2] == ("",)]  # not the default exchange
    assert not [key for key in {*other, *each} if key[0] in {bindings, name}]


def test_limits_of_channels_and_the_age_of_a_queue_are_told():
    def play(broker):
        client = a_shop(broker)
        client.ask(m.BasicQos(0, 7, True))
        client.ask(m.QueueDeclare(queue="dated"))
        client.publish("", "dated", b"x", timestamp=1000)

    name = "rabbitmq_queue_head_message_timestamp"
    total = scrape(memory_broker(), play)
    each = scrape(memory_broker(), play, "/metrics/per-object")

    for found in (total, each):
        assert found["rabbitmq_consumer_prefetch",] == 3
        assert found["rabbitmq_channel_prefetch",] == 7
    assert each[name, "dated", "/"] == 1000
    assert math.isnan(each[name, "work", "/"])
    assert not [key for key in total if key[0] == name]


def test_a_queue_whose_consumers_are_busy_has_no_capacity():
    def play(broker):
        client = RawClient(broker)
        for queue in ("busy", "idle"):
            client.ask(m.QueueDeclare(queue=queue))
            client.ask(m.BasicQos(0, 1, False))
            client.ask(m.BasicConsume(queue=queue))
        client.publish("", "busy", b"1")
        client.received()

    each = scrape(memory_broker(), play, "/metrics/per-object")

    for name in ("rabbitmq_queue_consumer_capacity", "rabbitmq_queue_consumer_utilisation"):
        assert (each[name, "busy", "/"], each[name, "idle", "/"]) == (0, 1)


def test_logins_of_clients_are_counted():
    def play(broker):
        broker.server.logins, broker.server.refused_logins = 5, 2

    values = scrape(memory_broker(), play)

    of = "rabbitmq_auth_attempts{}_total".format
    assert [values[of(each), "amqp091"] for each in ("", "_succeeded", "_failed")] == [5, 3, 2]


def test_many_queues_are_whole_or_counted_as_left_out():
    def play(broker):
        client = RawClient(broker)
        for number in range(300):
            client.send(1, m.QueueDeclare(queue=f"q{number}"))

    each = scrape(memory_broker(), play, "/metrics/per-object", max_series=2_000)
    everything = scrape(memory_broker(), play, max_series=2_000)

    shown = sum(key[0] == "rabbitmq_queue_messages_ready" for key in each)
    assert 0 < shown < 300
    assert len(each) <= 2_000
    assert each["dlx_metrics_queues_left_out",] == 300 - shown
    assert everything["rabbitmq_queues",] == 300
    assert everything["dlx_metrics_queues_left_out",] == 0


def test_a_vhost_that_is_deleted_or_new_is_followed():
    def play(broker):
        broker.add_vhost("gone")
        broker.grant(broker.server.vhosts["gone"], "guest")
        RawClient(broker, vhost="gone").publish("", "nowhere", b"x")
        broker.delete_vhost("gone")
        broker.add_vhost("new")
        broker.grant(broker.server.vhosts["new"], "guest")
        RawClient(broker, vhost="new").publish("", "nowhere", b"x")

    values = scrape(memory_broker(), play)

    assert values["rabbitmq_global_messages_received_total", "amqp091"] == 1
    assert [key[1] for key in values if key[0] == "rabbitmq_cluster_vhost_status"] == ["/", "new"]


def test_the_state_of_logs_is_told_by_vhost():
    logs = {
        "shop": LogState(
            topic="log",
            leads=True,
            epoch=7,
            next_offset=1_000,
            backlog=Backlog(1, 2, 3),
            takeovers=2,
            takeover_s=0.5,
            losses=1,
            digests_written=4,
            digests_compared=5,
            body_bytes=6,
            max_body_bytes=60,
            fetches=8,
            snapshot_at=900,
            snapshot_s=1_700_000_000.0,
            job_lag=Lag(70, 1.5),
        ),
        "stock": LogState(topic="other"),
    }

    values = scrape(memory_broker(), lambda _broker: None, logs=lambda: logs)

    own = {key: value for key, value in values.items() if key[0].startswith("dlx_front_")}
    assert {key: value for key, value in own.items() if "shop" in key} == {
        ("dlx_front_leads", "shop"): 1,
        ("dlx_front_takeovers_total", "shop"): 2,
        ("dlx_front_takeover_seconds", "shop"): 0.5,
        ("dlx_front_losses_total", "shop"): 1,
        ("dlx_front_epoch_offset", "shop"): 7,
        ("dlx_front_log_next_offset", "shop"): 1_000,
        ("dlx_front_log_backlog_records", "unsent", "shop"): 1,
        ("dlx_front_log_backlog_records", "unacknowledged", "shop"): 2,
        ("dlx_front_log_backlog_records", "unfolded", "shop"): 3,
        ("dlx_front_log_oldest_seconds", "shop"): 0,
        ("dlx_front_job_lag_bytes", "shop"): 70,
        ("dlx_front_job_lag_seconds", "shop"): 1.5,
        ("dlx_front_digests_written_total", "shop"): 4,
        ("dlx_front_digests_compared_total", "shop"): 5,
        ("dlx_front_body_cache_bytes", "shop"): 6,
        ("dlx_front_body_cache_limit_bytes", "shop"): 60,
        ("dlx_front_body_reads_total", "shop"): 8,
        ("dlx_front_snapshot_timestamp_seconds", "shop"): 1_700_000_000,
        ("dlx_front_snapshot_age_records", "shop"): 100,
    }
    assert values["dlx_front_leads", "stock"] == 0
    assert ("dlx_front_epoch_offset", "stock") not in values
    assert ("dlx_front_snapshot_timestamp_seconds", "stock") not in values


def test_publishers_that_wait_are_told_with_the_reason():
    def play(broker):
        broker.server.pressure = lambda: "Kafka is slow"
        broker.server.check_flow()

    values = scrape(memory_broker(), play)

    assert values["dlx_front_blocked", "Kafka is slow"] == 1
    assert values["dlx_front_blocked", "low on memory"] == 0
    assert values["dlx_front_blocked", "the job is behind"] == 0
    assert values["rabbitmq_alarms_memory_used_watermark",] == 0


def test_health_says_whether_clients_can_come():
    async def run():
        reasons = ["another front leads", ""]
        metrics = FrontMetrics(memory_broker().server, "shop", not_ready=lambda: reasons.pop(0))
        port = metrics.serve("--metrics", "127.0.0.1", 0)
        try:
            return [
                await asyncio.to_thread(get, port, path)
                for path in ("/healthz", "/readyz", "/readyz", "/metrics/detailed?family=queues")
            ]
        finally:
            metrics.stop()

    alive, before, after, wrong = asyncio.run(run())

    assert alive == (200, "ok\n")
    assert before == (503, "another front leads\n")
    assert after == (200, "ok\n")
    assert wrong[0] == 400
    assert "queue_coarse_metrics" in wrong[1]


def test_an_address_in_use_is_refused():
    async def run():
        first = FrontMetrics(memory_broker().server, "one")
        port = first.serve("--metrics", "127.0.0.1", 0)
        try:
            with pytest.raises(
                ListenError, match=re.escape(f"--metrics: cannot listen on 127.0.0.1:{port}")
            ):
                FrontMetrics(memory_broker().server, "two").serve("--metrics", "127.0.0.1", port)
        finally:
            first.stop()

    asyncio.run(run())


def test_families_of_both_programs_mean_the_same_and_fit():
    job = {family.name: family for family in JOB.families}

    names = [family.name for family in FRONT.families]
    assert len(names) == len(set(names))
    for family in FRONT.families:
        assert family.help.endswith(".")
        assert family.name.endswith("_total") == (family.form == "counter")
        if family.name in job:
            same = job[family.name]
            assert (family.labels, family.form) == (same.labels, same.form)
    whole = [one for one in FRONT.families if one.share is None and not one.by_queue]
    counted = len(FRONT.families) - len(whole)
    assert len(whole) + 2 + counted <= RESERVED  # one has two series
    assert sum(one.share or 0 for one in FRONT.families) < 1


def test_clients_are_served_between_two_connections_exchanges_and_queues(monkeypatch):
    monkeypatch.setattr(figures, "TURN_S", -1.0)
    broker = memory_broker()
    a_shop(broker)
    counting, vhost = Counting(), broker.server.vhosts["/"]
    counting.watch(vhost)
    found = figures.FrontFigures("shop", 0.0, broker.server)

    pauses = len(list(found.add(vhost, counting, figures.Deaths(), by_queue=True)))

    assert pauses == len(found.connections) + len(found.published_to) + len(found.queues)
    assert all((found.connections, found.published_to, found.queues))
