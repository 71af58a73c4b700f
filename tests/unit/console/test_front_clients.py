"""Connections, channels and consumers: live from a front, else from the tables."""

import base64
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import uvicorn

from streaming.amqp import methods as m
from streaming.console.front_clients import (
    MAX_BYTES,
    PAGE_SIZE,
    FrontClients,
    FrontError,
    plain_rows,
)
from streaming.console.logins import Credentials, Guard, hash_password
from streaming.management.app import Management
from streaming.management.memory import MemoryFront
from tests.amqp_client import RawClient, memory_broker
from tests.fixtures.waiting import join, wait_until
from tests.unit.console.conftest import HOST
from tests.unit.console.test_messages import words


class Socket:
    """What a server knows of a connection whose bytes a test moves."""

    def send_output(self):
        """Leave what is sent to the client of the test."""


@pytest.fixture(scope="module")
def front():
    """The address of a front's management API, with one client that consumes."""
    broker = memory_broker()
    client = RawClient(broker)
    connections: Any = broker.server.connections
    connections[client.connection] = Socket()
    client.ask(m.BasicQos(0, 7, False))
    client.ask(m.QueueDeclare(queue="<b>q</b>"))
    client.ask(m.BasicConsume(queue="<b>q</b>", consumer_tag="<i>tag</i>"))
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    management = Management(MemoryFront(broker), lambda: [("http", "127.0.0.1", port)])
    server = uvicorn.Server(uvicorn.Config(management, lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    wait_until(lambda: server.started, lambda: "the front listens")
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    join(thread)


@pytest.fixture
def silent():
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("/connections", ["guest", "running"]),
        ("/channels", ["guest", "7", "no"]),
        ("/consumers", ["&lt;b&gt;q&lt;/b&gt;", "&lt;i&gt;tag&lt;/i&gt;", "7", "yes"]),
    ],
)
def test_what_the_front_has_is_shown_live(make_client, shop_root, front, page, shown):
    text = make_client(shop_root, front_clients=FrontClients(front)).get(page).text

    assert "Live from the front" in text
    assert all(one in words(text) for one in shown)
    assert "<b>q" not in text
    assert "clerk" not in text


@pytest.mark.parametrize("page", ["/connections", "/channels", "/consumers"])
def test_a_front_that_is_silent_is_said_and_the_tables_answer(make_client, shop_root, silent, page):
    text = words(make_client(shop_root, front_clients=FrontClients(silent)).get(page).text)

    assert "The front does not answer: Connection refused" in text
    assert "From the tables: as of 2020-09-13" in text


def test_the_past_is_from_the_tables(make_client, shop_root, front):
    text = words(
        make_client(shop_root, front_clients=FrontClients(front)).get("/channels?as_of=1").text
    )

    assert "Live from the front" not in text
    assert "clerk" in text


def test_without_a_front_the_pages_say_how_old_they_are(shop_console):
    text = words(shop_console.get("/channels").text)

    assert "From the tables: as of 2020-09-13 12:26:42, the last batch." in text
    assert "With console.front this page is live." in text
    assert "clerk anna" in text


def test_a_user_sees_the_clients_of_their_vhosts_alone(make_client, two_vhosts, front, tmp_path):
    file = tmp_path / "users.toml"
    password = hash_password("secret")
    file.write_text(f'[users.anna]\npassword = "{password}"\n[users.eve]\npassword = "{password}"')
    guard = Guard(frozenset({HOST}), credentials=Credentials(file))
    client = make_client(two_vhosts, guard, front_clients=FrontClients(front))

    mine = words(client.get("/consumers", auth=("anna", "secret")).text)
    nothing = words(client.get("/consumers", auth=("eve", "secret")).text)

    assert "&lt;i&gt;tag" in mine  # the front's vhost is `/`, too
    assert "tag" not in nothing.partition("Active")[2]


def test_the_user_of_the_front_is_named_in_a_file(front, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("guest:nonsense\n")
    right = tmp_path / "right"
    right.write_text("guest:guest\n")

    assert len(FrontClients(front, right).rows("channels").rows) == 1
    with pytest.raises(FrontError, match="401"):
        FrontClients(front, wrong).rows("channels")
    with pytest.raises(FrontError, match="No such file"):
        FrontClients(front, tmp_path / "missing").rows("channels")


class Answering(BaseHTTPRequestHandler):
    """A server that answers what a test says, and remembers what it was asked."""

    content = b""
    asked: list[str] = []  # noqa: RUF012 - a test has one server

    def do_GET(self):
        """Answer."""
        self.asked.append(f"{self.path} {self.headers['authorization']}")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_args):
        """Say nothing."""


@pytest.fixture
def odd():
    """Serves any content as a front."""
    server = HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Answering.asked.clear()

    def serve(content):
        Answering.content = content
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    server.shutdown()
    join(thread)
    server.server_close()


@pytest.mark.parametrize(
    "content",
    [b"", b"no json", b"[]", b'{"items": 7}', b"null", b"[" * 100_000, b" " * (MAX_BYTES + 1)],
)
def test_an_answer_that_is_no_list_is_a_fault(odd, content):
    with pytest.raises(FrontError, match=r"answer|JSON|recursion|truncated|malformed"):
        FrontClients(odd(content)).rows("channels")


@pytest.mark.parametrize("kind", ["connections", "channels", "consumers"])
def test_rows_without_what_is_expected_are_shown_with_what_they_have(
    make_client, shop_root, odd, kind
):
    url = odd(
        b'{"items": [7, {}, {"vhost": 3}, {"vhost": "/", "user": {"a": 1}, "client_properties": 1,'
        b'"connected_at": "x", "channels": "<b>"}, {"queue": {"vhost": "/", "name": "q"}}]}'
    )

    answer = make_client(shop_root, front_clients=FrontClients(url)).get(f"/{kind}")

    assert answer.status_code == 200
    assert "<b>" not in answer.text
    assert next(plain_rows("connections", [{"connected_at": 1e300}]))["since_s"] is None


def test_viewers_share_an_answer_and_a_long_list_is_bounded(odd):
    item = b'{"vhost": "/", "name": "c"}'
    url = odd(b'{"items": [' + b", ".join([item] * PAGE_SIZE) + b'], "filtered_count": 90000}')
    front = FrontClients(url)

    found = [front.rows("channels") for _ in range(5)]

    assert found[0] is found[4]
    assert (len(found[0].rows), found[0].total) == (4 * PAGE_SIZE, 90_000)
    login = base64.b64encode(b"guest:guest").decode()
    assert Answering.asked == [
        f"/api/channels?page={page}&page_size=500 Basic {login}" for page in (1, 2, 3, 4)
    ]


def test_a_front_that_was_silent_is_not_asked_at_once_again(odd, monkeypatch):
    front = FrontClients(odd(b"nonsense"))
    begun = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: begun)
    for _ in range(3):
        with pytest.raises(FrontError, match=r"answer|JSON|recursion|truncated|malformed"):
            front.rows("channels")
    asked = len(Answering.asked)
    monkeypatch.setattr(time, "monotonic", lambda: begun + 60)
    Answering.content = b'{"items": []}'

    assert asked == 1
    assert front.rows("channels").rows == []


def test_the_exchanges_are_listed_by_type(shop_console):
    everything = words(shop_console.get("/exchanges").text)
    topics = words(shop_console.get("/exchanges?type=topic").text)

    assert "orders / topic 2" in everything
    assert "dlx / fanout 1" in everything
    assert "dlx / fanout" not in topics


def test_the_pages_beside_the_queues_are_linked(shop_console):
    text = shop_console.get("/queues?as_of=0").text

    for path in ("/exchanges", "/connections", "/channels", "/consumers"):
        assert f'href="{path}?as_of=0"' in text
