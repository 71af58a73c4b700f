import pytest
from starlette.testclient import TestClient

from streaming.amqp.clocks import ManualClock
from streaming.amqp.errors import AmqpError
from streaming.amqp.login import Client
from streaming.amqp.memory import MemoryBroker
from streaming.management.app import Management
from streaming.management.formats import NODE
from streaming.management.memory import MemoryFront
from tests.amqp_client import RawClient
from tests.management_api import Api


def test_the_node(api, broker):
    (node,) = api.get("nodes")

    assert (node["name"], node["running"], node["mem_alarm"]) == (NODE, True, False)
    assert api.get(f"nodes/{NODE}")["name"] == NODE
    assert api.get(f"nodes/{NODE}/memory")["memory"]["total"]["rss"] > 0
    assert api.refusal("GET", "nodes/other")[0] == 404
    assert api.refusal("GET", "nodes/other/memory")[0] == 404


def test_the_memory_of_the_node(api):
    path = f"nodes/{NODE}"

    shares = api.get(f"{path}/memory/relative")["memory"]
    assert (shares["total"], shares["code"]) == (100, 0)
    assert 99 <= shares["other_system"] <= 100
    assert api.get(f"{path}/memory/ets") == {"ets_tables_memory": {"total": 0}}
    assert api.get(f"{path}/memory/ets/management") == {"ets_tables_memory": {"total": 0}}
    assert api.get(f"{path}?memory=true")["memory"]["total"]["rss"] > 0
    assert api.get(f"{path}?binary=true")["binary"]["other"] == 0
    assert not {"memory", "binary"} & api.get(path).keys()
    for part in ("relative", "ets", "ets/management"):
        assert api.refusal("GET", f"nodes/other/memory/{part}")[0] == 404


def test_the_name_of_the_cluster_is_told_to_clients(api, broker):
    assert api.get("cluster-name") == {"name": NODE}

    assert api.put("cluster-name", {"name": "orders"}) == 204

    assert api.get("cluster-name") == {"name": "orders"}
    assert api.get("overview")["cluster_name"] == "orders"
    assert broker.server.server_properties["cluster_name"] == "orders"


def test_what_listens(api):
    overview = api.get("overview")

    assert [(one["protocol"], one["port"]) for one in overview["listeners"]] == [
        ("amqp", 5672),
        ("http", 15672),
    ]
    assert overview["contexts"][0]["port"] == "15672"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("alarms", {"status": "ok"}),
        ("local-alarms", {"status": "ok"}),
        ("virtual-hosts", {"status": "ok"}),
        ("is-in-service", {"status": "ok"}),
        ("ready-to-serve-clients", {"status": "ok"}),
        ("node-is-quorum-critical", {"status": "ok", "reason": "single node cluster"}),
        ("port-listener/5672", {"status": "ok", "port": 5672}),
        ("protocol-listener/amqp", {"status": "ok", "protocol": "amqp"}),
        ("protocol-listener/amqp091", {"status": "ok", "protocol": "amqp"}),
        ("certificate-expiration/1/weeks", {"status": "ok"}),
    ],
)
def test_health(api, path, expected):
    assert api.get(f"health/checks/{path}") == expected


def test_health_checks_that_fail(api, broker):
    broker.server.is_blocked = True

    alarms = api.ask("GET", "health/checks/alarms")

    assert (alarms.status_code, alarms.json()["status"]) == (503, "failed")
    assert api.get("nodes")[0]["mem_alarm"] is True
    port = api.ask("GET", "health/checks/port-listener/1")
    assert (port.status_code, port.json()["ports"]) == (503, [5672, 15672])
    protocol = api.ask("GET", "health/checks/protocol-listener/mqtt")
    assert (protocol.status_code, protocol.json()["missing"]) == (503, "mqtt")
    assert api.refusal("GET", "health/checks/port-listener/no")[0] == 400
    assert api.refusal("GET", "health/checks/certificate-expiration/1/eons")[0] == 400
    assert api.refusal("GET", "health/checks/certificate-expiration/x/days")[0] == 400
    assert api.get("aliveness-test/%2F") == {"status": "ok"}
    assert api.refusal("GET", "aliveness-test/no")[0] == 404


def test_what_clients_ask_before_they_begin(api):
    assert api.get("version") == "4.0.5"
    assert api.get("extensions") == [{"javascript": "dispatcher.js"}]
    states = {flag["name"]: flag["state"] for flag in api.get("feature-flags")}
    assert states.pop("khepri_db") == "disabled"
    assert set(states.values()) == {"enabled"}
    assert api.put("feature-flags/quorum_queue/enable") == 204
    assert api.refusal("PUT", "feature-flags/no/enable", {})[0] == 400
    assert api.put("feature-flags/khepri_db/enable") == 204
    assert {flag["state"] for flag in api.get("feature-flags")} == {"enabled"}
    agent = [one for one in api.get("deprecated-features") if one["provided_by"] != "rabbit"]
    assert [one["name"] for one in agent] == ["management_metrics_collection"]
    assert api.get("deprecated-features/used") == []
    api.put("queues/%2F/transient", {"durable": False})
    (used,) = api.get("deprecated-features/used")
    assert used["name"] == "transient_nonexcl_queues"
    assert api.ask("POST", "rebalance/queues").status_code == 204
    assert api.ask("DELETE", "reset").status_code == 204


def test_attempts_to_log_in_are_counted(api, broker):
    api.get("whoami")
    api.refusal("GET", "whoami", user=("guest", "wrong"))

    (found,) = api.get(f"auth/attempts/{NODE}")

    assert (found["protocol"], found["auth_attempts"], found["auth_attempts_failed"]) == (
        "http",
        3,
        1,
    )
    RawClient(broker)
    with pytest.raises(AmqpError):
        broker.server.login("PLAIN", b"\0guest\0wrong", Client(is_loopback=True))
    (_, found) = api.get(f"auth/attempts/{NODE}")
    assert found == {
        "protocol": "amqp091",
        "auth_attempts": 2,
        "auth_attempts_failed": 1,
        "auth_attempts_succeeded": 1,
    }
    for path in ("", "/source"):
        assert api.ask("DELETE", f"auth/attempts/{NODE}{path}").status_code == 204
        assert [one["auth_attempts"] for one in api.get(f"auth/attempts/{NODE}")] == [1]
    assert api.get(f"auth/attempts/{NODE}/source") == []
    assert api.refusal("GET", "auth/attempts/other/source")[0] == 404


@pytest.mark.parametrize(("tag", "status"), [("monitoring", 204), ("policymaker", 401)])
def test_those_who_monitor_may_count_logins_again(api, tag, status):
    api.put("users/u", {"password": "p", "tags": tag})

    assert api.ask("DELETE", f"auth/attempts/{NODE}", user=("u", "p")).status_code == status


@pytest.mark.parametrize(("path", "password"), [("secret", "secret"), ("%FFx", b"\xffx")])
def test_a_password_is_hashed_for_a_definitions_file(api, path, password):
    hashed = api.get(f"auth/hash_password/{path}")["ok"]

    api.put("users/new", {"password_hash": hashed, "tags": "management"})

    assert api.get("whoami", user=("new", password))["name"] == "new"


def test_methods_and_answers_that_are_not_there(client):
    auth = ("guest", "guest")

    assert client.options("/api/overview").headers["allow"] == "HEAD, GET, OPTIONS"
    assert client.head("/api/overview", auth=auth).content == b""
    refused = client.delete("/api/overview", auth=auth)
    assert (refused.status_code, refused.headers["allow"]) == (405, "HEAD, GET, OPTIONS")
    assert client.get("/api/queues", auth=auth, headers={"accept": "text/html"}).status_code == 406
    assert (
        client.get("/api/queues", auth=auth, headers={"accept": "text/*, */*;q=0.1"}).json() == []
    )
    assert client.get("/api/shovels", auth=auth).status_code == 404


def test_global_parameters(api):
    assert api.put("global-parameters/mine", {"value": {"a": 1}}) == 201
    assert api.get("global-parameters/mine") == {"value": {"a": 1}, "name": "mine"}
    assert api.ask("DELETE", "global-parameters/mine").status_code == 204
    assert api.refusal("GET", "global-parameters/mine")[0] == 404


def test_parameters_are_policies_and_limits(api):
    operator = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 0}
    assert api.put("parameters/operator_policy/%2F/op", {"value": operator}) == 201
    assert api.put("parameters/vhost-limits/%2F/limits", {"value": {"max-queues": 3}}) == 201

    assert [one["name"] for one in api.get("operator-policies")] == ["op"]
    assert api.get("vhost-limits") == [{"value": {"max-queues": 3}, "vhost": "/"}]
    assert {one["component"] for one in api.get("parameters")} == {
        "operator_policy",
        "vhost-limits",
    }
    for path in ("operator_policy/%2F/op", "vhost-limits/%2F/limits"):
        assert api.ask("DELETE", f"parameters/{path}").status_code == 204
    assert api.get("parameters") == []
    assert api.refusal("PUT", "parameters/vhost-limits/%2F/limits", {"value": 5})[0] == 400
    over = {"value": {"max-queues": 1 << 40}}
    assert api.refusal("PUT", "parameters/vhost-limits/%2F/limits", over)[0] == 400
    assert api.refusal("DELETE", "parameters/policy/%2F/p")[0] == 404
    api.put("policies/%2F/p", {"pattern": "a", "definition": {"max-length": 1}})
    assert api.refusal("DELETE", "parameters/policy/%2F/p")[0] == 400


def test_keys_of_an_older_rabbitmq_are_imported_and_refused_over_http(api):
    policy = {"pattern": "q", "definition": {"ha-mode": "all", "max-length": 9}}

    document = {"policies": [{"name": "p", "vhost": "/", "apply-to": "all", **policy}]}
    assert api.ask("POST", "definitions", document).status_code == 204
    assert api.get("policies/%2F/p")["definition"] == policy["definition"]
    assert api.refusal("PUT", "policies/%2F/p", policy)[0] == 400


def test_compat_3_10_knows_the_keys_of_mirrored_queues():
    old = MemoryBroker(ManualClock(), compat="3.10")
    api = Api(TestClient(Management(MemoryFront(old)), client=("127.0.0.1", 50_000)))

    definition = {"ha-mode": "all", "max-priority": 5}
    assert api.put("policies/%2F/p", {"pattern": "q", "definition": definition}) == 201


def test_a_policy_shows_on_its_queue(api):
    api.put("queues/%2F/q", {"durable": True})
    api.put("policies/%2F/p", {"pattern": "q", "definition": {"max-length": 9}})
    api.put("operator-policies/%2F/o", {"pattern": "q", "definition": {"max-length": 5}})

    queue = api.get("queues/%2F/q")

    assert (queue["policy"], queue["operator_policy"]) == ("p", "o")
    assert queue["effective_policy_definition"] == {"max-length": 5}


def test_a_vhost_that_is_deleted_leaves_nothing(api, broker):
    api.put("vhosts/v", {"description": "d"})
    api.put("queues/v/q")
    assert api.ask("DELETE", "vhosts/v").status_code == 204

    assert api.refusal("GET", "queues/v")[0] == 404
    assert api.put("vhosts/v") == 201
    assert api.get("vhosts/v")["description"] == ""
    assert api.get("queues/v") == []
    assert api.get("permissions/v/guest")["configure"] == ".*"


def test_vhosts_whose_names_or_descriptions_cannot_be(api):
    assert api.refusal("PUT", "vhosts/" + "x" * 256, {})[0] == 400
    assert api.refusal("PUT", "vhosts/v", {"tags": 5})[0] == 400
    assert api.put("vhosts/v", {"default_queue_type": "undefined"}) == 201
    assert api.ask("POST", f"vhosts/v/start/{NODE}").status_code == 204
    assert api.refusal("POST", "vhosts/v/start/other")[0] == 400
    assert api.refusal("POST", f"vhosts/nosuch/start/{NODE}")[0] == 400


def test_users_that_cannot_be(api):
    for body, reason in (
        ({"tags": 5}, "tags must be a text or an array"),
        ({"tags": "", "password": 5}, ["not_a_string", 5]),
        ({"tags": "", "limits": {"max-connections": "x"}}, None),
        ({"tags": "", "limits": 5}, None),
    ):
        status, _error, found = api.refusal("PUT", "users/x", body)
        assert status == 400
        assert reason in {None, found} if not isinstance(reason, list) else found == reason
    assert api.refusal("PUT", "users/" + "x" * 256, {"tags": ""})[0] == 400


def test_limits_of_a_user_stay_when_the_user_is_changed(api):
    api.put("users/u", {"password": "p", "tags": ""})
    api.put("user-limits/u/max-connections", {"value": 3})
    api.put("users/u", {"password": "q", "tags": "management"})

    assert api.get("users/u")["limits"] == {"max-connections": 3}
    assert api.get("user-limits") == [{"user": "u", "value": {"max-connections": 3}}]


def test_names_in_what_is_not_valid_are_escaped_as_rabbitmq_does(api):
    policy = {"pattern": ".*", "definition": {"a&<b>": 1}, "priority": 0}

    assert api.refusal("PUT", "policies/%2F/p", policy) == (
        400,
        "bad_request",
        'Validation failed\n\n[{&lt;&lt;"a&amp;&lt;b&gt;"&gt;&gt;,1}] '
        "are not recognised policy settings\n",
    )
    assert api.refusal("PUT", "operator-policies/%2F/p", policy)[2] == (
        'Validation failed\n\n[{<<"a&<b>">>,1}] are not recognised policy settings\n'
    )
    assert api.refusal("PUT", "parameters/%3Cz%3E/%2F/x", {"value": {}})[2] == (
        "Validation failed\n\ncomponent &lt;z&gt; not found\n"
    )


def test_the_mechanisms_of_a_node_are_in_words_of_rabbitmq(api):
    (node,) = api.get("nodes")

    assert {one["name"]: one["description"] for one in node["auth_mechanisms"]} == {
        "AMQPLAIN": "QPid AMQPLAIN mechanism",
        "ANONYMOUS": "SASL ANONYMOUS authentication mechanism",
        "PLAIN": "SASL PLAIN authentication mechanism",
    }
