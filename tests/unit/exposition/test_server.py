"""The HTTP server of the metrics, over real sockets."""

import socket
import threading
from http.client import HTTPConnection, HTTPException

import pytest

from streaming.exposition import bounded_server
from streaming.exposition.bounded_server import MOST
from streaming.exposition.server import PATHS
from streaming.listening import ListenError
from streaming.metrics.figures import JobFigures
from streaming.metrics.health import Health
from streaming.metrics.server import job_server
from streaming.pipeline.traffic import BatchTraffic
from tests.fixtures.waiting import wait_until
from tests.unit.metrics.job import Batches, queue, report


@pytest.fixture
def server():
    batches = Batches()
    batches.run(report(BatchTraffic(queues=[queue("work", ready=3)])))
    server = job_server("127.0.0.1", 0, batches.figures, Health(300.0), 20_000)
    server.start()
    yield server
    server.stop()


def get(server, path, method="GET", **headers):
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers["Content-Type"], body


def test_the_paths_answer(server):
    status, kind, body = get(server, "/metrics")
    assert (status, "rabbitmq_queue_messages_ready 3.0" in body) == (200, True)
    assert kind.startswith("text/plain")

    assert (
        'rabbitmq_queue_messages_ready{queue="work",vhost="/"} 3.0'
        in get(server, "/metrics/per-object")[2]
    )
    assert (
        'rabbitmq_detailed_queue_messages{queue="work",vhost="/"} 3.0'
        in get(server, "/metrics/detailed?family=queue_coarse_metrics&vhost=%2F")[2]
    )
    assert get(server, "/healthz")[::2] == (200, "ok\n")
    assert get(server, "/readyz")[0] == 503


def test_prometheus_may_ask_for_openmetrics(server):
    status, kind, body = get(server, "/metrics", Accept="application/openmetrics-text")

    assert status == 200
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith("# EOF\n")


def test_a_head_request_has_no_body(server):
    assert get(server, "/healthz", "HEAD")[::2] == (200, "")


def test_a_wrong_path_names_the_right_ones(server):
    status, _, body = get(server, "/metric")

    assert status == 404
    assert all(path in body for path in PATHS)


def test_a_wrong_family_is_the_callers_mistake(server):
    status, _, body = get(server, "/metrics/detailed?family=queues")

    assert status == 400
    assert "queue_coarse_metrics" in body


def test_an_answer_that_fails_is_an_http_error_and_the_next_one_works(caplog):
    figures = JobFigures("orders")
    server = job_server("127.0.0.1", 0, figures, Health(300.0), 20_000)
    server.start()
    figures.disk_path = "/nonexistent"
    assert get(server, "/metrics")[0] == 500
    figures.disk_path = ""
    assert get(server, "/metrics")[0] == 200
    server.stop()
    assert "/metrics" in caplog.text


def test_clients_that_send_nothing_take_few_threads_and_keep_nobody_out(server):
    before = threading.active_count()
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(250)]
    for one in silent[:100]:
        one.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")

    for _ in range(5):
        assert get(server, "/metrics")[0] == 200
    assert threading.active_count() - before <= 2 * MOST  # those that are closed still end
    for one in silent:
        one.close()


def test_clients_that_read_nothing_give_way_to_others(monkeypatch):
    monkeypatch.setattr(bounded_server, "SLOW_S", 0.2)
    batches = Batches()
    batches.run(
        report(BatchTraffic(queues=[queue(f"queue-{n}" * 20, ready=3) for n in range(1_500)]))
    )
    server = job_server("127.0.0.1", 0, batches.figures, Health(300.0), 20_000)
    server.start()
    slow = []
    for _ in range(MOST):
        one = socket.create_connection(("127.0.0.1", server.port))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        one.sendall(b"GET /metrics/per-object HTTP/1.1\r\nHost: localhost\r\n\r\n")
        slow.append(one)

    def answered():
        try:
            return get(server, "/healthz")[0] == 200
        except (OSError, HTTPException):
            return False

    wait_until(answered, lambda: "no place became free")
    for one in slow:
        one.close()
    server.stop()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("evil.example:9419", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.", 200),
        ("[::1]:9419", 200),
        ("[::1", 421),
        ("10.2.3.4:9419", 200),
        ("dlx:9419", 200),
        ("host.docker.internal:9419", 200),
        ("job.shop.svc", 200),
        ("metrics.example.com", 200),
        ("METRICS.example.com:1", 200),
        ("", 421),
    ],
)
def test_a_name_that_a_web_page_can_have_is_refused(host, status):
    figures, hosts = JobFigures("orders"), ("metrics.example.com",)
    server = job_server("127.0.0.1", 0, figures, Health(300.0), 20_000, hosts)
    server.start()
    try:
        for path in ("/metrics", "/healthz"):
            assert get(server, path, Host=host)[0] == status
    finally:
        server.stop()


def test_a_probe_that_names_no_host_is_answered(server):
    with socket.create_connection(("127.0.0.1", server.port)) as probe:
        probe.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in probe.recv(100)


def test_an_address_in_use_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError) as refused:
            job_server("127.0.0.1", port, JobFigures("orders"), Health(300.0), 1_000)

    assert f"127.0.0.1:{port}" in str(refused.value)
    assert "metrics.listen" in str(refused.value)
