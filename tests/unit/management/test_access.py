import asyncio
import base64
import hashlib

import pytest
from starlette.testclient import TestClient

from streaming.amqp import methods as m
from streaming.management.access import MAX_FAILURES, FailedLogins
from streaming.management.errors import ApiError
from tests.amqp_client import RawClient
from tests.management_api import Api

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def users(api):
    """A user for each tag, with permissions in the vhost `theirs` alone."""
    api.put("vhosts/theirs")
    api.put("queues/theirs/q", {"durable": True})
    api.put("queues/%2F/mine", {"durable": True})
    names = ("administrator", "monitoring", "policymaker", "management", "none")
    for name in names:
        api.put(f"users/{name}", {"password": "p", "tags": "" if name == "none" else name})
        if name != "administrator":
            api.put(f"permissions/theirs/{name}", ALL)
    return {name: (name, "p") for name in names}


def test_who_has_no_name_is_asked_for_one(client):
    response = client.get("/api/overview")

    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize("header", ["Basic !!", "Basic Z3Vlc3Q=", "Bearer", "guest:guest"])
def test_credentials_that_cannot_be_read_make_no_sense(client, header):
    assert client.get("/api/whoami", headers={"authorization": header}).status_code == 400


@pytest.mark.parametrize(("header", "status"), [("Bearer x", 401), ("", 400)])
def test_credentials_of_another_kind_let_nobody_in(client, header, status):
    answer = client.get("/api/whoami", headers={"authorization": header})

    assert answer.status_code == status


def test_a_user_without_tags_is_not_let_in(api, users):
    assert api.refusal("GET", "whoami", user=users["none"]) == (
        401,
        "not_authorised",
        "Not management user",
    )


def test_a_user_without_password_cannot_log_in(api):
    api.put("users/nobody", {"tags": "administrator"})
    api.put("users/empty", {"tags": "administrator", "password": ""})

    assert api.refusal("GET", "whoami", user=("nobody", ""))[0] == 401
    assert api.refusal("GET", "whoami", user=("empty", ""))[0] == 401


def test_guest_may_come_from_this_machine_only(management):
    away = Api(TestClient(management, client=("192.0.2.1", 1)))

    assert away.refusal("GET", "whoami") == (
        401,
        "not_authorised",
        "User can only log in via localhost",
    )


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("nodes", {"administrator", "monitoring"}),
        ("users", {"administrator"}),
        ("permissions", {"administrator"}),
        ("definitions", {"administrator"}),
        ("vhosts/theirs", {"administrator"}),
        ("queues/theirs", {"administrator", "monitoring", "policymaker", "management"}),
        ("queues/%2F", {"administrator"}),
        ("exchanges/%2F", {"administrator"}),
        ("bindings/%2F", {"administrator"}),
        ("consumers/%2F", {"administrator", "monitoring", "policymaker", "management"}),
        ("policies/theirs/p", {"administrator", "policymaker"}),
        ("operator-policies/theirs/p", {"administrator"}),
        ("vhost-limits/%2F", {"administrator", "monitoring"}),
        ("aliveness-test/%2F", set()),  # it needs permissions, whatever the tag
        ("connections/username/management", {"administrator", "monitoring", "management"}),
        ("queues/%2F/mine", {"administrator"}),
        ("queues/%2F/mine/bindings", {"administrator"}),
        ("policies/%2F", {"administrator"}),
        ("parameters", {"administrator", "policymaker"}),
        ("parameters/vhost-limits/%2F", {"administrator"}),
        ("parameters/vhost-limits/theirs", {"administrator", "policymaker"}),
        ("vhosts/%2F/connections", {"administrator"}),
        ("vhosts/theirs/channels", {"administrator", "monitoring", "policymaker", "management"}),
        ("overview", {"administrator", "monitoring", "policymaker", "management"}),
    ],
)
def test_tags_and_permissions_decide_what_may_be_read(api, users, path, allowed):
    policy = {"pattern": "a", "definition": {"max-length": 1}}
    api.put("policies/theirs/p", policy)
    api.put("operator-policies/theirs/p", policy)
    readers = {name for name in users if api.ask("GET", path, user=users[name]).status_code == 200}

    assert readers == allowed


@pytest.mark.parametrize(
    ("method", "path", "body", "allowed"),
    [
        ("PUT", "vhosts/new", {}, {"administrator"}),
        ("PUT", "users/new", {"tags": "administrator", "password": "x"}, {"administrator"}),
        ("PUT", "permissions/%2F/management", ALL, {"administrator"}),
        (
            "PUT",
            "policies/theirs/p",
            {"pattern": "a", "definition": {"max-length": 1}},
            {"administrator", "policymaker"},
        ),
        (
            "PUT",
            "policies/%2F/p",
            {"pattern": "a", "definition": {"max-length": 1}},
            {"administrator"},
        ),
        (
            "PUT",
            "operator-policies/theirs/p",
            {"pattern": "a", "definition": {"max-length": 1}},
            {"administrator"},
        ),
        ("PUT", "vhost-limits/theirs/max-queues", {"value": 9}, {"administrator"}),
        (
            "PUT",
            "parameters/vhost-limits/theirs/limits",
            {"value": {"max-queues": 9}},
            {"administrator", "policymaker"},
        ),
        ("PUT", "parameters/vhost-limits/%2F/limits", {"value": {}}, {"administrator"}),
        (
            "PUT",
            "parameters/operator_policy/theirs/p",
            {"value": {"pattern": "a", "definition": {"max-length": 1}, "priority": 1}},
            {"administrator"},
        ),
        ("DELETE", "connections/username/management", None, {"administrator", "management"}),
        ("PUT", "cluster-name", {"name": "c"}, {"administrator"}),
        ("POST", "definitions", {}, {"administrator"}),
        ("POST", "definitions/theirs", {}, {"administrator"}),
        ("DELETE", "queues/%2F/mine/contents", None, set()),
        ("PUT", "queues/%2F/other", {}, set()),
        ("PUT", "exchanges/%2F/other", {}, set()),
        ("POST", "bindings/%2F/e/amq.topic/q/mine", {}, set()),
        (
            "POST",
            "queues/%2F/mine/get",
            {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
            set(),
        ),
        (
            "POST",
            "exchanges/%2F/amq.topic/publish",
            {"properties": {}, "routing_key": "k", "payload": "", "payload_encoding": "string"},
            set(),
        ),
    ],
)
def test_tags_and_permissions_decide_what_may_be_changed(api, users, method, path, body, allowed):
    changers = {
        name
        for name in users
        if api.ask(method, path, body, user=users[name]).status_code in {200, 201, 204}
    }

    assert changers == allowed


def test_lists_have_only_what_the_user_may_see(api, users):
    api.put("exchanges/theirs/x", {"type": "fanout"})
    manager = users["management"]

    assert [one["name"] for one in api.get("vhosts", user=manager)] == ["theirs"]
    assert [one["name"] for one in api.get("queues", user=manager)] == ["q"]
    assert {one["vhost"] for one in api.get("exchanges", user=manager)} == {"theirs"}
    assert {one["vhost"] for one in api.get("bindings", user=manager)} == {"theirs"}
    assert api.get("overview", user=manager)["object_totals"]["queues"] == 1
    assert "listeners" not in api.get("overview", user=manager)
    assert {one["name"] for one in api.get("queues", user=users["administrator"])} == {"q", "mine"}


def test_those_who_monitor_see_consumers_and_limits_of_every_vhost(api, users, broker):
    api.put("vhost-limits/%2F/max-queues", {"value": 9})
    RawClient(broker).ask(m.BasicConsume(queue="mine"))

    for path in ("consumers", "consumers/%2F"):
        assert len(api.get(path, user=users["monitoring"])) == 1
        assert api.get(path, user=users["management"]) == []
    assert len(api.get("vhost-limits", user=users["monitoring"])) == 1
    assert api.get("vhost-limits", user=users["management"]) == []


def test_permissions_are_those_of_the_broker(api):
    api.put("users/writer", {"password": "w", "tags": "management"})
    api.put("permissions/%2F/writer", {"configure": "^own", "write": "^own", "read": "^own"})
    writer = ("writer", "w")

    assert api.put("queues/%2F/own", {}, user=writer) == 201
    refused = (401, "not_authorised", "Access refused.")
    assert api.refusal("PUT", "queues/%2F/other", {}, user=writer) == refused
    assert api.refusal("POST", "bindings/%2F/e/amq.topic/q/own", {}, user=writer) == refused


def test_an_administrator_without_permissions_in_a_vhost_publishes_and_gets_nothing_there(
    api, broker
):
    api.put("vhosts/v")
    api.put("users/ann", {"password": "ann", "tags": "administrator"})
    api.put("queues/v/q")
    message = {"properties": {}, "routing_key": "q", "payload": "1", "payload_encoding": "string"}
    getting = {"count": 0, "ackmode": "ack_requeue_true", "encoding": "auto"}
    refused = (401, "not_authorised", "Access refused.")
    ann = ("ann", "ann")

    assert api.refusal("POST", "exchanges/v/amq.default/publish", message, ann) == refused
    assert api.refusal("POST", "queues/v/q/get", getting, ann) == refused
    assert api.refusal("POST", "queues/v/nothing/get", getting, ann)[0] == 404

    vhost = broker.server.vhosts["v"].shard.vhost
    vhost.administrators = ("ann",)  # as a configuration names them
    assert api.ask("POST", "queues/v/q/get", getting, ann).status_code == 200
    assert api.ask("POST", "exchanges/v/amq.default/publish", message, ann).status_code == 200
    vhost.administrators = ()

    api.put("permissions/v/ann", {"configure": "", "write": "", "read": ""})
    assert api.refusal("POST", "exchanges/v/amq.default/publish", message, ann) == (
        400,
        "bad_request",
        "403 ACCESS_REFUSED - write access to exchange 'amq.default' in vhost 'v' refused for user "
        "'ann'",
    )
    assert api.ask("POST", "queues/v/q/get", getting, ann).json() == []


def test_failed_logins_are_limited_by_name_and_place(management, api):
    for _ in range(MAX_FAILURES):
        assert api.refusal("GET", "whoami", user=("guest", "wrong"))[0] == 401

    status, error, reason = api.refusal("GET", "whoami")
    assert (status, error) == (429, "too_many_attempts")
    assert "try again in" in reason
    api_elsewhere = Api(TestClient(management, client=("127.0.0.2", 1)))
    assert api_elsewhere.get("whoami")["name"] == "guest"


def test_failures_are_forgotten_after_a_minute_and_by_a_success():
    now_s = 0.0
    failed = FailedLogins(lambda: now_s)
    for _ in range(MAX_FAILURES):
        failed.failed("a", "here")
    with pytest.raises(ApiError):
        failed.check("a", "here")
    failed.check("a", "there")

    now_s = 60.0
    failed.check("a", "here")
    for _ in range(MAX_FAILURES):
        failed.failed("a", "here")
    failed.succeeded("a", "here")
    failed.check("a", "here")


def test_the_users_of_a_front_are_those_of_its_amqp_server(api, broker):
    api.put("users/new", {"password": "first", "tags": "management"})
    api.put("users/new", {"password": "second", "tags": "management"})

    assert broker.server.users.by_name["new"].has_password(b"second")
    assert api.get("whoami", user=("new", "second"))["tags"] == ["management"]
    assert api.refusal("GET", "whoami", user=("new", "first"))[0] == 401


def test_a_hash_of_sha512_lets_in(api):
    # salt 00000000 and the password "p"
    salted = bytes(4) + hashlib.sha512(bytes(4) + b"p").digest()
    body = {
        "password_hash": base64.b64encode(salted).decode(),
        "hashing_algorithm": "rabbit_password_hashing_sha512",
        "tags": ["monitoring"],
    }

    api.put("users/hashed", body)

    assert api.get("whoami", user=("hashed", "p"))["name"] == "hashed"
    assert api.refusal("PUT", "users/hashed", body | {"hashing_algorithm": "rot13"}) == (
        400,
        "bad_request",
        "unknown hashing algorithm 'rot13'",
    )


def test_a_deleted_user_has_no_permissions_any_more(api, broker):
    api.put("users/gone", {"password": "p", "tags": "management"})
    api.put("permissions/%2F/gone", ALL)
    api.put("topic-permissions/%2F/gone", {"exchange": "amq.topic", "write": "a", "read": "b"})

    assert api.ask("DELETE", "users/gone").status_code == 204

    assert api.refusal("GET", "whoami", user=("gone", "p"))[0] == 401
    vhost = broker.server.vhosts["/"].shard.vhost
    assert not vhost.permissions.knows("gone")
    assert not vhost.topic_permissions.knows("gone", "amq.topic")


def test_logins_by_form(client):
    form = {"username": "guest", "password": "guest"}

    assert client.post("/api/login", data=form).json() == "ok"
    assert client.post("/api/login", data=form | {"password": "x"}).status_code == 401


def test_a_request_from_a_page_of_another_site_is_refused(client):
    headers = {"origin": "http://evil.example"}

    response = client.put("/api/vhosts/x", auth=("guest", "guest"), json={}, headers=headers)

    assert response.status_code == 403
    same = {"origin": "http://testserver"}
    assert client.put("/api/vhosts/x", auth=("guest", "guest"), headers=same).status_code == 201


@pytest.mark.parametrize("path", ["vhost-limits", "user-limits/guest", "auth/hash_password/x"])
def test_some_resources_have_no_head_as_in_rabbitmq(api, path):
    assert api.ask("HEAD", path).status_code == 405
    assert api.ask("OPTIONS", path).headers["allow"] == "GET, OPTIONS"


def test_a_request_names_its_user_once(client):
    header = ("authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")

    assert client.get("/api/whoami", headers=[header]).status_code == 200
    assert client.get("/api/whoami", headers=[header, header]).status_code == 400
    assert client.get("/api/whoami", headers={"authorization": ""}).status_code == 400


@pytest.mark.parametrize("server", ["http://localhost", "HTTP://proxy.example:15672"])
def test_a_proxy_may_send_the_whole_address(api, management, server):
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"{server}/api/whoami",
        "raw_path": f"{server}/api/whoami".encode(),
        "query_string": b"",
        "headers": [(b"authorization", b"Basic Z3Vlc3Q6Z3Vlc3Q=")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 15672),
        "scheme": "http",
    }
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(management(scope, None, send))

    assert sent[0]["status"] == 200
