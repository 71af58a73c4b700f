import pytest
from starlette.testclient import TestClient

from streaming.amqp import methods as m
from streaming.amqp.clocks import WallClock
from streaming.amqp.memory import MemoryBroker
from streaming.amqp.web.app import web_app
from tests.amqp_client import RawClient, memory_broker
from topology.values import Table

HOSTS = ["testserver"]


@pytest.fixture
def broker():
    return memory_broker()


@pytest.fixture
def web(broker):
    return TestClient(web_app(broker, HOSTS))


@pytest.fixture
def client(broker):
    client = RawClient(broker)
    arguments: Table = {
        "x-message-ttl": 60_000,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    client.ask(m.QueueDeclare(queue="dead"))
    client.ask(m.QueueDeclare(queue="work", arguments=arguments))
    client.publish("", "work", b"<script>1</script>", message_id="m1", headers={"a": 1})
    return client


def test_the_page_shows_queues_messages_and_bindings(web, client):
    client.ask(m.QueueBind(queue="work", exchange="amq.topic", routing_key="order.#"))

    page = web.get("/", params={"queue": "work"}).text

    assert "order.#" in page
    assert "&lt;script&gt;1&lt;/script&gt;" in page
    assert "<script>" not in page
    assert "No message has died." in page


def test_properties_that_are_not_utf8_have_a_mark_of_replacement(web, client):
    client.publish("", "dead", b"1", correlation_id="caf\udce9", headers={"caf": b"\xe9"})

    page = web.get("/", params={"queue": "dead"})
    (message,) = web.get("/api/dlx/messages", params={"queue": "dead"}).json()

    assert page.status_code == 200
    assert message["properties"]["correlation_id"] == "caf\ufffd"


def test_a_test_in_any_language_moves_the_clock(web, client):
    before = web.get("/api/dlx/clock").json()

    after = web.post("/api/dlx/clock", json={"advance": "2 minutes"}).json()

    assert after["now_ms"] - before["now_ms"] == 120_000
    (dead,) = web.get("/api/dlx/messages", params={"queue": "dead"}).json()
    assert (dead["body"], dead["properties"]) == ("<script>1</script>", {"message_id": "m1"})
    assert dead["headers"]["x-death"][0]["reason"] == "expired"
    (death,) = web.get("/api/dlx/deaths").json()
    assert (death["queue"], death["targets"]) == ("work", ["dead"])
    assert web.get("/api/dlx/queues").json() == [
        {"vhost": "/", "name": "dead", "ready": 1, "unacked": 0, "consumers": 0},
        {"vhost": "/", "name": "work", "ready": 0, "unacked": 0, "consumers": 0},
    ]


def test_definitions_are_declared_and_forgotten(web, broker):
    document = {"vhosts": [{"name": "/"}], "queues": [{"name": "q", "vhost": "/"}]}

    assert web.post("/api/dlx/definitions", json=document).json() == {"skipped": []}
    declared = web.get("/api/dlx/queues").json()
    web.post("/api/dlx/reset", json={})

    assert [queue["name"] for queue in declared] == ["q"]
    assert web.get("/api/dlx/queues").json() == []


@pytest.mark.parametrize(
    ("path", "content", "status", "text"),
    [
        ("clock", '{"advance": "soon"}', 400, "advance: 'soon' is not a duration"),
        ("clock", '{"advance": -1}', 400, "a clock does not go back"),
        ("clock", '{"advance": []}', 400, "advance: "),
        ("clock", '{"advance": 1e999}', 400, "the clock ends with the year 9999"),
        ("clock", '{"advance": NaN}', 400, "nan is not a duration"),
        ("clock", '{"advance": 1e15}', 400, "the clock ends with the year 9999"),
        ("clock", '{"advance": 252e9}', 400, "the clock ends with the year 9999"),
        ("clock", '{"advance": "99999999999 days"}', 400, "the clock ends with the year 9999"),
        ("clock", '{"advance": true}', 400, "is not a duration"),
        ("clock", '{"advnce": 1}', 400, "unknown member 'advnce'; there are 'advance'"),
        ("clock", '{"patience": "long"}', 400, "patience: 'long' is not a number of seconds"),
        ("clock", '{"patience": -1}', 400, "patience: -1 is not a number of seconds from 0"),
        ("clock", '{"patience": NaN}', 400, "patience: nan is not a number of seconds from 0"),
        ("clock", "[]", 400, "not a JSON object"),
        ("clock", "{", 400, "not JSON"),
        ("definitions", '{"queues": 1}', 400, "queues: expected an array"),
        ("definitions", '{"users": [{"name": "a", "tags": 5}]}', 400, "users[0]: "),
        ("definitions", '{"users": [{"name": "a", "limits": 5}]}', 400, "users[0]: "),
        ("definitions", '{"users": [{"name": "a", "password_hash": 5}]}', 400, "users[0]: "),
        ("definitions", '{"users": [{"name": "a", "hashing_algorithm": [1]}]}', 400, "users[0]: "),
    ],
)
def test_requests_that_cannot_be_answered_say_why(web, path, content, status, text):
    answer = web.post(
        f"/api/dlx/{path}", content=content, headers={"content-type": "application/json"}
    )

    assert answer.status_code == status
    assert text in answer.json()["error"]


def test_a_page_of_another_site_can_change_nothing(web):
    assert web.post("/api/dlx/reset", content="{}").status_code == 415
    assert web.get("/", headers={"host": "evil.example"}).status_code == 400


def test_the_clock_of_the_machine_cannot_be_moved():
    web = TestClient(web_app(MemoryBroker(WallClock()), HOSTS))

    answer = web.post("/api/dlx/clock", json={"advance": 1})

    assert (answer.status_code, answer.json()) == (
        409,
        {"error": "the clock is the machine's: start with --clock manual"},
    )


@pytest.mark.parametrize("address", ["/?vhost=none", "/?queue=none", "/api/dlx/messages?queue=x"])
def test_what_is_not_there_is_said(web, address):
    answer = web.get(address)

    assert answer.status_code == 404
    assert answer.json()["error"].startswith("no ")
