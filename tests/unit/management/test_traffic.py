"""Counts and rates of exchanges, channels and connections.

The numbers are those that RabbitMQ 4.0.5 showed after the same traffic.
"""

from urllib.parse import quote

import pytest

from streaming.amqp import methods as m
from streaming.amqp.clocks import ManualClock
from streaming.management.counting import SAMPLE_MS
from tests.amqp_client import RawClient, memory_broker
from tests.delayed_broker import delayed_broker
from topology.values import Table

ROUNDS = 30


@pytest.fixture
def amqp(amqp, management):
    client = amqp
    client.ask(m.ChannelOpen(), 2)
    client.ask(m.ConfirmSelect())
    for name in ("x", "none"):
        client.ask(m.ExchangeDeclare(exchange=name, type="fanout"))
    for name in ("q", "r"):
        client.ask(m.QueueDeclare(queue=name))
        client.ask(m.QueueBind(queue=name, exchange="x"))
    return client


@pytest.fixture
def sample(management, broker):
    """Lets five seconds pass, and takes a sample."""

    def take():
        clock = broker.clock
        assert isinstance(clock, ManualClock)
        clock.move_to(clock.now_ms() + SAMPLE_MS)
        counting = management.api.counting
        for _ in counting.sample(clock.now_ms(), broker.server.vhosts):
            pass
        for _ in counting.sample_clients(clock.now_ms(), list(broker.server.connections)):
            pass

    return take


def publish_everywhere(amqp):
    for _ in range(ROUNDS):
        amqp.publish("x", "", b"1")
        amqp.publish("", "q", b"2")
        amqp.publish("none", "", b"3", 2)
        amqp.publish("none", "", b"4", mandatory=True)


def counts(item):
    return {
        name: value
        for name, value in item["message_stats"].items()
        if not name.endswith("_details")
    }


def test_what_is_published_to_exchanges_and_comes_out(api, amqp):
    publish_everywhere(amqp)

    shown = {one["name"]: counts(one) for one in api.get("exchanges/%2F") if "message_stats" in one}

    assert shown == {
        "x": {"publish_in": 30, "publish_out": 60},
        "none": {"publish_in": 60},
        "": {"publish_in": 30, "publish_out": 30},
    }
    assert counts(api.get("exchanges/%2F/amq.default")) == shown[""]


def test_dead_letters_come_out_of_no_exchange(api, amqp):
    arguments: Table = {"x-max-length": 1, "x-dead-letter-exchange": "x"}
    amqp.ask(m.QueueDeclare(queue="short", arguments=arguments))
    for _ in range(3):
        amqp.publish("", "short", b"1")

    assert counts(api.get("exchanges/%2F/amq.default")) == {"publish_in": 3, "publish_out": 3}
    assert "message_stats" not in api.get("exchanges/%2F/x")


def test_what_channels_do(api, amqp):
    publish_everywhere(amqp)
    for tag in range(1, 6):
        amqp.ask(m.BasicGet(queue="q"), 2)
        amqp.send(2, m.BasicAck(tag))
    amqp.ask(m.BasicGet(queue="q", no_ack=True), 2)
    amqp.ask(m.BasicGet(queue="r"), 2)
    amqp.send(2, m.BasicNack(7, False, True))
    amqp.ask(m.BasicQos(0, 10, False), 2)
    amqp.ask(m.BasicConsume(queue="r", consumer_tag="c"), 2)
    for tag in (17, 27, 37):
        amqp.send(2, m.BasicAck(tag, True))

    first, second = (counts(one) for one in api.get("channels"))

    assert first == {"confirm": 90, "drop_unroutable": 0, "publish": 90, "return_unroutable": 30}
    assert second == {
        "ack": 35,
        "confirm": 0,
        "deliver": 30,
        "deliver_get": 37,
        "deliver_no_ack": 0,
        "drop_unroutable": 30,
        "get": 6,
        "get_empty": 0,
        "get_no_ack": 1,
        "publish": 30,
        "redeliver": 1,
        "return_unroutable": 0,
    }


def test_deliveries_without_ack_and_a_channel_that_begins_again(api, amqp):
    amqp.ask(m.BasicConsume(queue="q", consumer_tag="c", no_ack=True), 2)
    amqp.publish("", "q", b"1")
    assert counts(api.get("channels")[1])["deliver_no_ack"] == 1

    amqp.ask(m.ChannelClose(200, "", 0, 0), 2)
    amqp.ask(m.ChannelOpen(), 2)

    assert "message_stats" not in api.get("channels")[1]


def test_rates_are_those_of_the_last_five_seconds(api, amqp, sample):
    publish_everywhere(amqp)
    sample()
    publish_everywhere(amqp)
    sample()

    exchange = api.get("exchanges/%2F/x")["message_stats"]
    assert exchange["publish_out_details"] == {"rate": 12.0}
    name = api.get("channels")[0]["name"]
    shown = api.get(f"channels/{quote(name, safe='')}?msg_rates_age=5&msg_rates_incr=5")
    details = shown["message_stats"]["publish_details"]
    assert (details["rate"], [each["sample"] for each in details["samples"]]) == (18.0, [180, 90])
    (connection,) = api.get("connections")
    assert connection["recv_oct_details"]["rate"] > 0
    sample()
    assert api.get("exchanges/%2F/x")["message_stats"]["publish_out_details"] == {"rate": 0.0}
    assert api.get("connections")[0]["recv_oct_details"] == {"rate": 0.0}


def test_what_is_gone_keeps_no_samples(api, amqp, sample, management, broker):
    publish_everywhere(amqp)
    sample()
    counting = management.api.counting
    connection = amqp.connection
    assert counting.exchange("/", "x")[1] is not None

    amqp.ask(m.ExchangeDelete(exchange="x"))
    del broker.server.connections[connection]
    sample()

    assert counting.exchange("/", "x") == ({"publish_in": 0, "publish_out": 0}, None)
    assert counting.connection(connection)[1] is None


def test_an_exchange_or_queue_that_is_declared_again_counts_from_zero(api, amqp, sample):
    publish_everywhere(amqp)
    amqp.ask(m.BasicGet(queue="q"))
    sample()
    publish_everywhere(amqp)
    sample()

    amqp.ask(m.ExchangeDelete(exchange="x"))
    amqp.ask(m.ExchangeDeclare(exchange="x", type="fanout"))
    amqp.ask(m.QueueDelete(queue="q"))
    amqp.ask(m.QueueDeclare(queue="q"))

    assert "message_stats" not in api.get("exchanges/%2F/x")
    assert "message_stats" not in api.get("queues/%2F/q")
    amqp.publish("x", "", b"x")
    amqp.publish("", "q", b"x")
    sample()
    exchange, queue = api.get("exchanges/%2F/x"), api.get("queues/%2F/q")
    assert counts(exchange) == {"publish_in": 1}
    assert exchange["message_stats"]["publish_in_details"] == {"rate": 0.0}
    assert queue["message_stats"]["publish"] == 1
    assert queue["message_stats"]["publish_details"] == {"rate": 0.0}


@pytest.mark.parametrize("broker", [memory_broker(), delayed_broker()])
def test_a_publish_that_is_refused_counts_nowhere(api, amqp, broker):
    amqp.ask(m.ExchangeDeclare(exchange="internal", type="fanout", internal=True))
    for channel, exchange in enumerate(["nowhere", "internal"], 3):
        amqp.ask(m.ChannelOpen(), channel)
        amqp.ask(m.ConfirmSelect(), channel)
        for _ in range(3):
            amqp.publish(exchange, "", b"x", channel)
        assert isinstance(amqp.received()[-1].method, m.ChannelClose)

    assert "publish" not in api.get("overview")["message_stats"]
    assert "message_stats" not in api.get("exchanges/%2F/internal")
    assert not broker.server.vhosts["/"].published_to


def test_what_is_gone_is_forgotten_by_a_broker_whose_counts_nobody_asks_for():
    broker = memory_broker()
    client = RawClient(broker)
    vhost = broker.server.vhosts["/"]
    client.ask(m.ExchangeDeclare(exchange="x", type="fanout", auto_delete=True))
    client.ask(m.QueueDeclare(queue="q"))
    client.ask(m.QueueBind(queue="q", exchange="x"))
    client.publish("x", "", b"x")
    client.ask(m.BasicGet(queue="q"))

    client.ask(m.QueueDelete(queue="q"))

    assert (dict(vhost.published_to), dict(vhost.gets)) == ({}, {})
