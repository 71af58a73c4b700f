from urllib.parse import quote

import pytest

from streaming.amqp import methods as m
from streaming.listening import host_and_port
from streaming.management.formats import NODE
from tests.delayed_broker import delayed_broker
from topology.values import Table


def test_connections(api, amqp):
    (found,) = api.get("connections")

    assert found["name"] == amqp.connection.name
    assert (found["user"], found["vhost"], found["channels"]) == ("guest", "/", 1)
    assert (found["auth_mechanism"], found["state"]) == ("PLAIN", "running")
    assert (found["ssl"], found["ssl_cipher"], found["peer_cert_subject"]) == (False, None, None)
    assert found["recv_oct"] > 0
    counts = found["recv_cnt"], found["send_cnt"]
    assert min(counts) > 0
    amqp.ask(m.QueueDeclare(queue="q"))
    (later,) = api.get("connections")
    assert (later["recv_cnt"], later["send_cnt"]) == (counts[0] + 1, counts[1] + 1)
    path = f"connections/{quote(found['name'], safe='')}"
    assert api.get(path)["ssl_cipher"] == ""
    assert api.get(f"{path}?columns=user")["vhost"] == "/", "RabbitMQ heeds no columns here"
    assert [one["number"] for one in api.get(f"{path}/channels")] == [1]
    assert api.get("connections/username/guest") == [
        {"name": found["name"], "vhost": "/", "user": "guest", "node": NODE}
    ]
    assert api.get("connections/username/other") == []
    assert len(api.get("vhosts/%2F/connections")) == 1


def test_a_connection_is_blocked_if_it_publishes_while_publishers_are(api, amqp, reading):
    amqp.publish("", "q", b"x")
    names = [amqp.connection.name, reading.connection.name]

    def states():
        found = {one["name"]: one["state"] for one in api.get("connections")}
        return [found[name] for name in names]

    before = states()
    for client in (amqp, reading):
        client.connection.block("low on memory")
    blocked = states()
    reading.publish("", "q", b"x")
    later = states()
    for client in (amqp, reading):
        client.connection.block(None)

    assert before == ["running", "running"]
    assert blocked == ["blocked", "blocking"]
    assert later == ["blocked", "blocked"]
    assert states() == ["running", "running"]


def test_addresses_of_ipv6_stand_in_brackets_in_names_and_without_them_elsewhere(api, amqp):
    amqp.connection.name = f"{host_and_port('::1', 50_000)} -> {host_and_port('fe80::2', 5672)}"

    (found,) = api.get("connections")

    assert found["name"] == "[::1]:50000 -> [fe80::2]:5672"
    assert (found["peer_host"], found["peer_port"]) == ("::1", 50_000)
    assert (found["host"], found["port"]) == ("fe80::2", 5672)


def test_channels_and_consumers(api, amqp):
    amqp.ask(m.BasicQos(0, 7, False))
    amqp.ask(m.ConfirmSelect())
    amqp.ask(m.QueueDeclare(queue="q"))
    amqp.ask(m.BasicConsume(queue="q", consumer_tag="t", arguments={"x-priority": 3, "foo": "bar"}))
    amqp.publish("", "q", b"x")

    (channel,) = api.get("channels")

    assert (channel["prefetch_count"], channel["confirm"]) == (7, True)
    assert (channel["consumer_count"], channel["messages_unacknowledged"]) == (1, 1)
    assert channel["transactional"] is False
    (consumer,) = api.get("consumers")
    assert (consumer["consumer_tag"], consumer["prefetch_count"]) == ("t", 7)
    assert consumer["arguments"] == {"x-priority": 3, "foo": "bar"}
    assert consumer["queue"] == {"name": "q", "vhost": "/"}
    assert consumer["channel_details"]["name"] == channel["name"]
    assert api.get("consumers/%2F") == [consumer]
    path = f"channels/{quote(channel['name'], safe='')}"
    assert api.get(path)["consumer_details"] == [consumer]
    assert api.get(f"{path}?columns=number") == {"number": 1}
    assert api.get("vhosts/%2F/channels") == [channel]
    assert api.get("queues/%2F/q")["consumer_details"] == [consumer]


def test_a_consumer_whose_client_is_not_connected_here_has_the_arguments_that_the_broker_knows(
    api, amqp, broker
):
    amqp.ask(m.QueueDeclare(queue="q"))
    amqp.ask(m.BasicConsume(queue="q", arguments={"x-priority": 3, "foo": "bar"}))
    (consumer,) = api.get("consumers")

    broker.server.vhosts["/"].forget(consumer["channel_details"]["name"])

    assert api.get("consumers")[0]["arguments"] == {"x-priority": 3}


WAITING = ("messages_uncommitted", "acks_uncommitted", "messages_unacknowledged")


def test_a_channel_with_transactions_counts_what_is_not_committed(api, amqp):
    amqp.ask(m.QueueDeclare(queue="q"))
    for _ in range(6):
        amqp.publish("", "q", b"x")
    amqp.ask(m.TxSelect())
    for _ in range(6):
        amqp.ask(m.BasicGet(queue="q"))
    amqp.publish("", "q", b"x")
    amqp.publish("", "nowhere", b"x")
    amqp.send(1, m.BasicAck(1))
    amqp.send(1, m.BasicAck(3, multiple=True))
    amqp.send(1, m.BasicReject(4, requeue=True))
    amqp.send(1, m.BasicNack(5, requeue=False))

    (waiting,) = api.get("channels")
    amqp.ask(m.TxRollback())
    (without,) = api.get("channels")

    assert waiting["transactional"] is True
    assert [waiting[name] for name in WAITING] == [2, 3, 1], "as RabbitMQ 4.0.5 does"
    assert [without[name] for name in WAITING] == [0, 0, 6]


def test_a_delivery_of_a_deleted_queue_is_not_unacknowledged_in_a_transaction(api, amqp):
    for queue in ("q", "other"):
        amqp.ask(m.QueueDeclare(queue=queue))
        amqp.publish("", queue, b"x")
    amqp.ask(m.TxSelect())
    amqp.ask(m.BasicGet(queue="q"))
    amqp.ask(m.BasicGet(queue="other"))
    amqp.send(1, m.BasicAck(1))

    amqp.ask(m.QueueDelete(queue="q"))

    (channel,) = api.get("channels")
    assert [channel[name] for name in WAITING] == [0, 1, 1]


@pytest.mark.parametrize("broker", [delayed_broker()])
def test_a_channel_counts_publishes_that_wait_for_their_confirm(api, amqp):
    limits: Table = {"x-max-length": 1, "x-overflow": "reject-publish"}
    amqp.ask(m.ConfirmSelect())
    amqp.ask(m.QueueDeclare(queue="q", arguments=limits))
    amqp.publish("", "q", b"confirmed")
    amqp.publish("", "q", b"refused")
    amqp.received()

    amqp.publish("", "q", b"x")
    amqp.publish("", "nowhere", b"x")
    (waiting,) = api.get("channels")
    amqp.received()
    (confirmed,) = api.get("channels")

    assert waiting["messages_unconfirmed"] == 2
    assert confirmed["messages_unconfirmed"] == 0


def test_a_single_active_consumer_is_named(api, amqp):
    arguments: Table = {"x-single-active-consumer": True}
    amqp.ask(m.QueueDeclare(queue="q", arguments=arguments))
    amqp.ask(m.BasicConsume(queue="q", consumer_tag="first"))
    amqp.ask(m.BasicConsume(queue="q", consumer_tag="second"))

    queue = api.get("queues/%2F/q")

    assert queue["single_active_consumer_tag"] == "first"
    assert {one["consumer_tag"]: one["active"] for one in queue["consumer_details"]} == {
        "first": True,
        "second": False,
    }


def test_an_exclusive_queue_and_consumer_name_their_owners(api, amqp):
    amqp.ask(m.QueueDeclare(queue="own", exclusive=True))
    amqp.ask(m.BasicConsume(queue="own", consumer_tag="only", exclusive=True))

    queue = api.get("queues/%2F/own")

    assert queue["owner_pid_details"]["name"] == amqp.connection.name
    assert queue["exclusive_consumer_tag"] == "only"
    status, error, _reason = api.refusal("DELETE", "queues/%2F/own/contents")
    assert (status, error) == (400, "bad_request")


def test_a_connection_is_closed_with_a_reason(api, amqp):
    path = f"connections/{quote(amqp.connection.name, safe='')}"
    amqp.received()

    response = api.ask("DELETE", path, headers={"X-Reason": "maintenance"})

    assert response.status_code == 204
    (closing,) = amqp.received()
    assert isinstance(closing.method, m.ConnectionClose)
    assert (closing.method.reply_code, closing.method.reply_text) == (
        320,
        "CONNECTION_FORCED - maintenance",
    )
    assert api.get("connections") == []
    assert api.refusal("DELETE", path)[0] == 404


@pytest.mark.parametrize("path", ["connections/username/guest", "users/guest", "vhosts/%2F"])
def test_what_ends_connections_with_it(api, amqp, path):
    amqp.received()

    assert api.ask("DELETE", path).status_code == 204

    (closing,) = amqp.received()
    assert isinstance(closing.method, m.ConnectionClose)


def test_users_see_and_close_their_own_connections_only(api, amqp):
    api.put("users/other", {"password": "o", "tags": "management"})
    api.put("users/watching", {"password": "w", "tags": "monitoring"})
    path = f"connections/{quote(amqp.connection.name, safe='')}"
    channel = f"channels/{quote(amqp.connection.name + ' (1)', safe='')}"

    assert api.get("connections", user=("other", "o")) == []
    assert api.get("channels", user=("other", "o")) == []
    assert api.get("consumers", user=("other", "o")) == []
    refused = (401, "not_authorised", "User not authorised to access object")
    assert api.refusal("GET", path, user=("other", "o")) == refused
    assert api.refusal("GET", channel, user=("other", "o")) == refused
    assert api.refusal("DELETE", path, user=("watching", "w")) == refused
    assert api.get(path, user=("watching", "w"))["user"] == "guest"
    assert api.refusal("GET", "channels/nothing")[0] == 404


def test_an_overview_counts_connections_of_others_for_those_who_monitor_alone(api, amqp):
    api.put("users/other", {"password": "o", "tags": "management"})
    api.put("permissions/%2F/other", {"configure": ".*", "write": ".*", "read": ".*"})

    everyone = api.get("overview")["object_totals"]
    own = api.get("overview", user=("other", "o"))["object_totals"]

    assert (everyone["connections"], everyone["channels"]) == (1, 1)
    assert (own["connections"], own["channels"]) == (0, 0)
    assert "consumers" not in own


def test_without_statistics_little_is_said_of_a_connection(api, amqp):
    name = amqp.connection.name

    (listed,) = api.get("connections?disable_stats=true")

    assert listed == {"name": name, "vhost": "/", "user": "guest", "node": NODE}
    path = f"connections/{quote(name, safe='')}?disable_stats=true"
    assert api.get(path) == {"name": name}


def test_a_consumer_has_the_timeout_of_its_queue(api, amqp):
    shown = {"usual": 1_800_000, "own": 5_000, "smaller": 4_000, "never": "5000"}
    given: dict[str, int | str] = {"own": 5_000, "smaller": 5_000, "never": "5000"}
    api.put("policies/%2F/p", {"pattern": "^smaller$", "definition": {"consumer-timeout": 4_000}})
    for queue in shown:
        arguments: Table = {"x-consumer-timeout": given[queue]} if queue in given else {}
        amqp.ask(m.QueueDeclare(queue=queue, arguments=arguments))
        of_consumer: Table = {"x-consumer-timeout": 1}
        amqp.ask(m.BasicConsume(queue=queue, arguments=of_consumer))

    found = {one["queue"]["name"]: one["consumer_timeout"] for one in api.get("consumers")}

    assert found == shown, "as RabbitMQ 4.0.5 shows them"
    assert api.get("queues/%2F/own")["consumer_details"][0]["consumer_timeout"] == 5_000


@pytest.mark.parametrize("value", [-1, "5"])
def test_a_consumer_timeout_of_a_policy_is_checked(api, value):
    body = {"pattern": "", "definition": {"consumer-timeout": value}}

    status, _, reason = api.refusal("PUT", "policies/%2F/p", body)

    shown = "-1" if value == -1 else '&lt;&lt;"5"&gt;&gt;'
    assert (status, reason) == (
        400,
        f"Validation failed\n\n{shown} is not a valid consumer timeout\n",
    )
    body["definition"] = {"consumer-timeout": 5}
    assert api.refusal("PUT", "operator-policies/%2F/p", body)[2] == (
        'Validation failed\n\n[{<<"consumer-timeout">>,5}] are not recognised policy settings\n'
    )
