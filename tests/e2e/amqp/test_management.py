"""RabbitMQ's management API of a real process, beside real clients of AMQP."""

import re
import shlex
import signal
import subprocess
import threading
from pathlib import Path
from urllib.parse import quote

import httpx2
import pika
import pytest
from pika.exceptions import (
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.fixtures.dlx_process import DlxProcess
from tests.fixtures.waiting import join

_ADDRESSES = re.compile(
    r"listening on (amqp://\S+).*pages at (http://\S+)/\n.*management at (http://\S+)/\n", re.DOTALL
)


class _Running:
    def __init__(self, process, amqp, web, api):
        self.process = process
        self.amqp = amqp
        self.web = web
        self.api = httpx2.Client(base_url=api, auth=("guest", "guest"), trust_env=False)

    def connect(self, vhost="%2F", user="guest"):
        """A connection of pika."""
        address = self.amqp.replace("amqp://", f"amqp://{user}:{user}@")
        return pika.BlockingConnection(pika.URLParameters(f"{address}/{vhost}"))

    def put(self, path, body=None):
        """Put an object."""
        response = self.api.put(path, json=body or {})
        assert response.status_code in {201, 204}, response.text


@pytest.fixture
def running(tmp_path):
    process = DlxProcess(
        "amqp",
        "--memory",
        "--port",
        "0",
        "--web",
        "0",
        "--management",
        "0",
        out=tmp_path / "out.txt",
    )
    process.until(lambda: _ADDRESSES.search(process.output()))
    found = _ADDRESSES.search(process.output())
    assert found is not None
    running = _Running(process, *found.groups())
    yield running
    running.api.close()
    process.kill()


def test_what_the_api_makes_clients_use_and_the_other_way_round(running):
    running.put("vhosts/orders", {"default_queue_type": "quorum"})
    running.put("users/shop", {"password": "shop", "tags": ""})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    running.put("permissions/orders/shop", everything)
    running.put("queues/orders/new", {"durable": True})
    running.put("exchanges/orders/in", {"type": "topic", "durable": True})
    running.api.post("bindings/orders/e/in/q/new", json={"routing_key": "order.#"})

    with running.connect("orders", "shop") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("in", "order.1", b"by AMQP", mandatory=True)
        message = {"routing_key": "order.2", "payload": "by HTTP", "payload_encoding": "string"}
        published = running.api.post(
            "exchanges/orders/in/publish", json=message | {"properties": {}}
        )
        assert published.json() == {"routed": True}

        queue = running.api.get("queues/orders/new").json()
        assert (queue["type"], queue["messages_ready"]) == ("quorum", 2)
        (found,) = running.api.get("connections").json()
        assert (found["user"], found["vhost"]) == ("shop", "orders")
        bodies = [channel.basic_get("new", auto_ack=True)[2] for _ in range(2)]
        assert bodies == [b"by AMQP", b"by HTTP"]

        channel.basic_publish("in", "order.3", b"\xff\x00")
        asked = {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"}
        (got,) = running.api.post("queues/orders/new/get", json=asked).json()
        assert (got["payload"], got["payload_encoding"]) == ("/wA=", "base64")
    assert running.api.get("connections").json() == []


def test_a_waiting_consumer_gets_what_is_published_by_http(running):
    running.put("queues/%2F/q", {"durable": True})
    bodies = []
    arrived = threading.Event()

    def consume():
        with running.connect() as connection:
            channel = connection.channel()
            for _method, _properties, body in channel.consume("q", auto_ack=True):
                bodies.append(body)
                break
            arrived.set()

    consumer = threading.Thread(target=consume)
    consumer.start()
    running.process.until(lambda: running.api.get("consumers").json())
    message = {"routing_key": "q", "payload": "hello", "payload_encoding": "string"}
    running.api.post("exchanges/%2F/amq.default/publish", json=message | {"properties": {}})

    assert arrived.wait(timeout=30)
    join(consumer)
    assert bodies == [b"hello"]


def test_what_is_deleted_ends_connections(running):
    running.put("vhosts/brief")
    connection = running.connect("brief")
    name = running.api.get("connections").json()[0]["name"]
    response = running.api.delete(
        f"connections/{quote(name, safe='')}", headers={"X-Reason": "maintenance"}
    )
    assert response.status_code == 204
    with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - maintenance"):
        connection.process_data_events(time_limit=30)

    connection = running.connect("brief")
    assert running.api.delete("vhosts/brief").status_code == 204
    with pytest.raises(ConnectionClosedByBroker):
        connection.process_data_events(time_limit=30)
    with pytest.raises(ProbableAccessDeniedError, match="vhost brief not found"):
        running.connect("brief")


def test_users_of_the_api_are_those_of_amqp(running):
    running.put("users/new", {"password": "new", "tags": "management"})
    running.put("permissions/%2F/new", {"configure": ".*", "write": ".*", "read": ".*"})
    running.connect(user="new").close()

    running.api.delete("users/new")

    with pytest.raises(ProbableAuthenticationError):
        running.connect(user="new")


def test_the_page_and_the_clock_are_there_on_their_own_port_and_the_clock_on_both(running):
    with httpx2.Client(trust_env=False) as client:
        told = client.get(f"{running.web}/api/dlx/clock")
        page = client.get(running.web)
    assert page.status_code == 200
    assert told.status_code == running.api.get("dlx/clock").status_code == 200
    assert told.json().keys() == running.api.get("dlx/clock").json().keys()


def test_the_requests_of_the_documentation(running):
    lines = Path("docs/management.md").read_text("utf-8").splitlines()
    requests = [line for line in lines if line.startswith("curl ") and "/api/dlx/" not in line]
    address = str(running.api.base_url).removesuffix("/api/")
    for line in requests:
        words = shlex.split(line.replace("http://localhost:15672", address))
        subprocess.run([*words, "--fail", "--silent", "--noproxy", "*"], check=True)

    assert len(requests) == 2
    assert running.api.get("queues/%2F/orders").json()["durable"] is True


def test_it_ends_in_peace_while_clients_are_connected(running):
    connection = running.connect()
    assert running.api.get("overview").status_code == 200

    running.process.signal(signal.SIGTERM)
    assert running.process.wait() == 0

    assert running.process.output().endswith("stopped\n")
    with pytest.raises(ConnectionClosedByBroker):
        connection.process_data_events(time_limit=30)


def test_rates_follow_from_samples_that_are_taken_by_themselves(running):
    running.put("queues/%2F/q", {"durable": True})
    with running.connect() as connection:
        channel = connection.channel()

        def rate():
            channel.basic_publish("", "q", b"x")
            connection.process_data_events()
            stats = running.api.get("overview").json()["message_stats"]
            return stats["publish_details"]["rate"] > 0 if stats else False

        running.process.until(rate)
