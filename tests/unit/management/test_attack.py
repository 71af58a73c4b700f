"""Requests that mean no good: refused, bounded, in words."""

import asyncio
import json
from urllib.parse import parse_qsl, quote

import pytest
from starlette.testclient import TestClient

from streaming.broker.commands import ImportDefinitions
from streaming.broker.events import Actor
from streaming.management import listing
from streaming.management.app import Management
from streaming.management.bodies import MAX_BODY_BYTES, MAX_OBJECT_BYTES
from streaming.management.memory import MemoryFront
from streaming.management.resources.every import RESOURCES
from tests.management_on_log import OnLog

AUTH = ("guest", "guest")


@pytest.fixture(params=["memory", "log"])
def management(request, broker):
    if request.param == "memory":
        return Management(MemoryFront(broker))
    return OnLog().management


@pytest.fixture
def client(management):
    return TestClient(management, client=("127.0.0.1", 50_000))


@pytest.mark.parametrize(
    ("method", "path", "most"),
    [
        ("PUT", "users/x", MAX_OBJECT_BYTES),
        ("PUT", "queues/%2F/q", MAX_OBJECT_BYTES),
        ("PUT", "global-parameters/g", MAX_OBJECT_BYTES),
        ("POST", "definitions", MAX_BODY_BYTES),
        ("POST", "exchanges/%2F/amq.topic/publish", MAX_BODY_BYTES),
    ],
)
def test_a_body_of_64_mib_is_refused(client, method, path, most):
    body = b'{"tags": "' + b"x" * (64 * 1024 * 1024) + b'"}'
    headers = {"content-type": "application/json"}

    response = client.request(method, f"/api/{path}", auth=AUTH, content=body, headers=headers)

    assert response.status_code == 400
    assert response.json()["reason"].endswith(f"maximum allowed is {most} bytes")


def test_an_object_has_no_million_arguments(client):
    arguments = {f"x-{number}": number for number in range(100_000)}

    response = client.put("/api/queues/%2F/q", auth=AUTH, json={"arguments": arguments})

    assert response.status_code == 400
    assert client.get("/api/queues/%2F/q", auth=AUTH).status_code == 404


@pytest.mark.parametrize("path", ["global-parameters/g", "definitions"])
def test_a_deeply_nested_global_parameter_is_refused(client, path):
    value = b"[" * 900 + b"]" * 900
    body = b'{"users": [{"name": "new", "tags": ""}], "global_parameters": [{"name": "g", "value": '
    whole = b'{"value": ' + value + b"}" if path.startswith("global") else body + value + b"}]}"
    method = "PUT" if path.startswith("global") else "POST"
    headers = {"content-type": "application/json"}

    response = client.request(method, f"/api/{path}", auth=AUTH, content=whole, headers=headers)

    assert (response.status_code, response.json()["reason"]) == (400, "nested_too_deeply")
    assert client.get("/api/users/new", auth=AUTH).status_code == 404


def test_clients_are_served_while_many_queues_are_imported(broker):
    """Each portion of the document is declared by itself, with a turn for others after it."""
    front = MemoryFront(broker)
    vhost = broker.server.vhosts["/"]
    queues = [{"name": f"q{number}", "vhost": "/", "durable": True} for number in range(5_000)]
    seen = set()

    async def watch():
        while len(vhost.shard.vhost.queues) < len(queues):
            seen.add(len(vhost.shard.vhost.queues))
            await asyncio.sleep(0)

    async def both():
        command = ImportDefinitions(definitions={"vhosts": [{"name": "/"}], "queues": queues})
        watching = asyncio.create_task(watch())
        await front.do(vhost, Actor(None, "management"), command)
        await watching

    asyncio.run(both())

    assert len(seen) > 3


def test_a_body_without_an_end_is_refused_while_it_comes(client):
    sent = 0

    def body():
        nonlocal sent
        while sent < 10 * MAX_BODY_BYTES:
            sent += 1 << 20
            yield b" " * (1 << 20)

    response = client.put("/api/users/x", auth=AUTH, content=body())

    assert response.status_code == 400
    assert "Exceeded HTTP request body size limit" in response.json()["reason"]


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"nul", b"[]", b"1e999"],
)
def test_bodies_that_are_no_object_are_refused(client, body):
    response = client.put("/api/queues/%2F/q", auth=AUTH, content=body)

    assert (response.status_code, response.json()["reason"]) == (400, "not_json")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x": None}, "null_not_allowed"),
        ({"x": 1 << 70}, "number_too_large"),
        (5, ["not_an_object", "arguments"]),
    ],
)
def test_values_that_amqp_has_not_are_refused(client, arguments, reason):
    response = client.put("/api/queues/%2F/q", auth=AUTH, json={"arguments": arguments})

    assert (response.status_code, response.json()["reason"]) == (400, reason)


def test_deeply_nested_arguments_are_refused(client):
    value: object = 1
    for _ in range(200):
        value = [value]

    response = client.put("/api/queues/%2F/q", auth=AUTH, json={"arguments": {"x": value}})

    assert (response.status_code, response.json()["reason"]) == (400, "nested_too_deeply")


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(.*a){50}$", "a" * 1_000, "((a{0,100}){0,100}){0,100}"]
)
def test_regular_expressions_that_explode_elsewhere_take_their_time_or_are_refused(client, pattern):
    name = "a" * 200 + "b"
    client.put(f"/api/queues/%2F/{name}", auth=AUTH)
    parameters = {"page": "1", "name": pattern, "use_regex": "true"}

    response = client.get("/api/queues", auth=AUTH, params=parameters)

    assert response.status_code in {200, 400}


def test_a_regular_expression_may_not_be_very_long(client):
    parameters = {"page": "1", "name": "a" * 1_001, "use_regex": "true"}

    response = client.get("/api/queues", auth=AUTH, params=parameters)

    assert (response.status_code, response.json()["reason"]) == (
        400,
        "a regular expression may have 1000 characters",
    )


@pytest.mark.parametrize(
    "query",
    [
        "page=1&page_size=100000",
        "page=99999999999999999999",
        "page=-1",
        "page=1.5",
        "page=0x1",
        "page=1&page_size=0",
        "page=2",
        f"columns={','.join(['a'] * 300)}",
    ],
)
def test_pages_are_bounded(client, query):
    response = client.get(f"/api/exchanges?{query}", auth=AUTH)

    assert response.status_code == 400
    assert response.json()["reason"]


def test_histories_are_bounded(client):
    client.put("/api/queues/%2F/q", auth=AUTH)
    longest = "lengths_age=2500&lengths_incr=5&msg_rates_age=-1&msg_rates_incr=x"

    queue = client.get(f"/api/queues/%2F/q?{longest}", auth=AUTH).json()

    assert len(queue["messages_details"]["samples"]) == 501
    for age, step in (("99999999999999", "1"), ("0", "5"), ("60", "-1"), ("2501", "5")):
        reason = f"Invalid range parameters: age {age}, incr {step}"
        for prefix in ("lengths", "msg_rates", "data_rates", "node_stats"):
            asked = {f"{prefix}_age": age, f"{prefix}_incr": step}
            one = client.get("/api/queues/%2F/q", auth=AUTH, params=asked)
            several = client.get("/api/queues", auth=AUTH, params=asked)
            assert (one.status_code, one.json()["reason"]) == (400, reason)
            assert several.json() == {"error": "invalid_range_parameters", "reason": reason}


@pytest.mark.parametrize(
    "path", ["queues", "queues/%2F", "queues?page=1&page_size=20", "exchanges"]
)
def test_the_samples_of_all_items_are_bounded(client, monkeypatch, path):
    monkeypatch.setattr(listing, "MAX_SAMPLES", 10_000)
    for number in range(20):
        client.put(f"/api/queues/%2F/q{number}", auth=AUTH)
        client.put(f"/api/exchanges/%2F/e{number}", auth=AUTH, json={"type": "fanout"})
        message = {"properties": {}, "routing_key": "", "payload": "", "payload_encoding": "string"}
        client.post(f"/api/exchanges/%2F/e{number}/publish", auth=AUTH, json=message)
    ages = {"lengths_age": 500, "lengths_incr": 1, "msg_rates_age": 500, "msg_rates_incr": 1}

    refused = client.get(
        f"/api/{path}", auth=AUTH, params=dict(parse_qsl(path.partition("?")[2])) | ages
    )
    usual = client.get(f"/api/{path.partition('?')[0]}?lengths_age=60&lengths_incr=5", auth=AUTH)

    assert refused.status_code == 400
    assert refused.json()["reason"].startswith("an answer may have 10000 samples")
    assert usual.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/queues/%2e%2e/users",
        "/api/../etc/passwd",
        "/api//users",
        "/api/users/x/y/z",
        "/api/queues/%00/%ff",
        "/api/nodes/%2e%2e%2f%2e%2e%2fetc",
        "/apiqueues",
    ],
)
def test_paths_that_lead_nowhere(client, path):
    response = client.get(path, auth=AUTH)

    assert response.status_code == 404


def test_a_path_may_not_be_very_long(client):
    response = client.get("/api/queues/%2F/" + "a" * 10_000, auth=AUTH)

    assert (response.status_code, response.json()["error"]) == (414, "uri_too_long")


@pytest.mark.parametrize("name", ["a/b", "<script>", "ü", " ", "%", "a?b#c", "\x01"])
def test_names_may_have_any_character(client, name):
    path = f"/api/queues/%2F/{quote(name, safe='')}"
    assert client.put(path, auth=AUTH).status_code == 201

    assert client.get(path, auth=AUTH).json()["name"] == name
    assert client.delete(path, auth=AUTH).status_code == 204


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "vhosts/%ff", {}),
        ("PUT", "users/%ff", {"password": "x", "tags": ""}),
        ("PUT", "queues/%2F/%ff", {}),
        ("PUT", "exchanges/%2F/%ff", {"type": "fanout"}),
        ("PUT", "policies/%2F/%ff", {"pattern": "", "definition": {"max-length": 1}}),
        ("PUT", "operator-policies/%2F/%ff", {"pattern": "", "definition": {"max-length": 1}}),
        ("PUT", "global-parameters/%ff", {"value": 1}),
        ("POST", "exchanges/%2F/%ff/publish", {}),
    ],
)
def test_a_name_that_is_not_utf_8_is_refused(client, method, path, body):
    before = client.get("/api/definitions", auth=AUTH).json()

    response = client.request(method, f"/api/{path}", json=body, auth=AUTH)

    assert (response.status_code, response.json()["reason"]) == (
        400,
        "a name in the path is not UTF-8",
    )
    assert client.get(f"/api/{path}", auth=AUTH).status_code in {404, 405}
    assert client.post("/api/definitions", json={}, auth=AUTH).status_code == 204
    assert client.get("/api/definitions", auth=AUTH).json() == before


def test_a_get_ends_before_its_answer_is_too_large(client, monkeypatch):
    monkeypatch.setattr("streaming.management.resources.messages.MAX_GOT_BYTES", 100)
    client.put("/api/queues/%2F/q", auth=AUTH)
    message = {"properties": {}, "routing_key": "q", "payload": "x" * 60}
    for _ in range(5):
        body = message | {"payload_encoding": "string"}
        client.post("/api/exchanges/%2F/amq.default/publish", auth=AUTH, json=body)

    asked = {"count": 1_000_000, "ackmode": "ack_requeue_true", "encoding": "auto"}
    got = client.post("/api/queues/%2F/q/get", auth=AUTH, json=asked).json()

    assert len(got) == 2


@pytest.mark.parametrize(
    "properties",
    [
        {"priority": "300"},
        {"priority": True},
        {"timestamp": 1.5},
        {"message_id": "x" * 256},
        {"message_id": 5},
        {"headers": [1]},
        {"headers": {"a": None}},
    ],
)
def test_properties_that_amqp_has_not_are_refused(client, properties):
    body = {"properties": properties, "routing_key": "q", "payload": ""}

    response = client.post(
        "/api/exchanges/%2F/amq.default/publish",
        auth=AUTH,
        content=json.dumps(body | {"payload_encoding": "string"}),
    )

    assert response.status_code == 400


def test_a_message_that_is_too_large_is_refused(client):
    client.put("/api/queues/%2F/q", auth=AUTH)
    body = {"properties": {}, "routing_key": "q", "payload": "x" * (16 * 1024 * 1024 + 1)}

    response = client.post(
        "/api/exchanges/%2F/amq.default/publish",
        auth=AUTH,
        json=body | {"payload_encoding": "string"},
    )

    assert response.status_code == 400
    assert "larger than configured max size" in response.json()["reason"]


def test_an_unforeseen_error_is_answered_without_its_text(client, management, monkeypatch, caplog):
    monkeypatch.setattr(management.api.counting, "churned", lambda: 1 / 0)

    response = client.get("/api/overview", auth=AUTH)

    assert (response.status_code, response.json()["reason"]) == (500, "see the log")
    assert "ZeroDivisionError" in caplog.text


def test_a_user_of_another_vhost_sees_and_changes_nothing_here(client):
    client.put("/api/users/eve", auth=AUTH, json={"password": "eve", "tags": "policymaker"})
    client.put("/api/queues/%2F/secret", auth=AUTH)
    eve = ("eve", "eve")
    get_all = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    policy = {"pattern": "", "definition": {"max-length": 1}}
    message = {
        "properties": {},
        "routing_key": "secret",
        "payload": "",
        "payload_encoding": "string",
    }
    asked = [
        ("GET", "queues/%2F", None),
        ("GET", "queues/%2F/secret", None),
        ("DELETE", "queues/%2F/secret", None),
        ("POST", "queues/%2F/secret/get", get_all),
        ("DELETE", "queues/%2F/secret/contents", None),
        ("POST", "exchanges/%2F/amq.default/publish", message),
        ("POST", "bindings/%2F/e/amq.fanout/q/secret", {}),
        ("PUT", "policies/%2F/p", policy),
        ("GET", "bindings/%2F", None),
        ("GET", "definitions/%2F", None),
        ("GET", "definitions", None),
        ("POST", "definitions", {"queues": [{"name": "q", "vhost": "/"}]}),
        ("PUT", "users/eve", {"password": "eve", "tags": "administrator"}),
        ("PUT", "permissions/%2F/eve", {"configure": "", "write": "", "read": ""}),
        ("GET", "vhosts/%2F", None),
    ]

    for method, path, body in asked:
        response = client.request(method, f"/api/{path}", auth=eve, json=body)
        assert response.status_code == 401, (method, path, response.text)

    lists = ("queues", "bindings", "exchanges", "connections", "consumers", "policies")
    for path in (*lists, "consumers/%2F"):
        assert client.get(f"/api/{path}", auth=eve).json() == []
    assert client.get("/api/queues/%2F/secret", auth=AUTH).status_code == 200


def _every_request(**names):
    for resource in RESOURCES:
        path = "/".join(
            names.get(part[1:-1], "x") if part.startswith("{") else part
            for part in resource.path.split("/")
        )
        for method in resource.handlers:
            yield resource, method, f"/api/{path}"


def test_no_address_of_a_vhost_is_open_to_a_user_of_another_one(client):
    client.put("/api/users/stranger", auth=AUTH, json={"password": "p", "tags": "policymaker"})
    client.put("/api/vhosts/theirs", auth=AUTH, json={})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    client.put("/api/permissions/theirs/stranger", auth=AUTH, json=everything)
    client.put("/api/queues/%2F/q", auth=AUTH, json={"durable": True})

    answers = {
        f"{method} {path}": client.request(method, path, auth=("stranger", "p")).status_code
        for resource, method, path in _every_request(vhost="%2F", queue="q", exchange="amq.direct")
        if "{vhost}" in resource.path and not resource.path.startswith("consumers/")
    }

    assert len(answers) > 50
    assert [one for one, status in answers.items() if status != 401] == []


def test_no_address_is_open_to_a_user_without_a_tag_or_to_nobody(client):
    client.put("/api/users/plain", auth=AUTH, json={"password": "p", "tags": ""})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    client.put("/api/permissions/%2F/plain", auth=AUTH, json=everything)

    for user in (("plain", "p"), None):
        answers = {
            f"{method} {path}": client.request(method, path, auth=user).status_code
            for resource, method, path in _every_request(vhost="%2F", user="plain")
            if not resource.is_open
        }

        assert [one for one, status in answers.items() if status != 401] == []


def test_a_body_with_two_ends_is_refused(client):
    answer = client.put(
        "/api/queues/%2F/q",
        headers={"content-length": "2", "transfer-encoding": "chunked"},
        content=b"{}",
        auth=AUTH,
    )

    assert (answer.status_code, answer.headers["connection"]) == (400, "close")
    assert client.get("/api/queues/%2F/q", auth=AUTH).status_code == 404
