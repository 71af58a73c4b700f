"""Connections: what belongs to one, and what ends with it (R-CONN)."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.commands import Command
from streaming.broker.events import Actor, Kind
from streaming.broker.outbound import PublishErrorOut
from tests.builders import Broker, a_queue
from topology.declarations import Binding, Exchange, Queue

CUT = pytest.mark.parametrize("cut", [False, True])
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'x' in vhost '/'. It could be"
    " originally declared on another connection or the exclusive property value does not match that"
    " of the original declaration."
)
TO_X = Binding("amq.topic", "x", routing_key="k")


def a_broker(*, cut: bool = False) -> Broker:
    """Connection A has two channels, connection B has one; A declared the exclusive queue x."""
    broker = Broker(cut=cut)
    for channel, connection in (("a1", "A"), ("a2", "A"), ("b1", "B")):
        broker.do(commands.OpenChannel(channel=channel, connection=connection))
    broker.queue("plain")
    broker.do(commands.DeclareQueue(queue=Queue("x", exclusive=True), channel="a1"))
    return broker


def close(broker: Broker, connection: str) -> None:
    broker.do(commands.CloseConnection(connection=connection))


def what(broker: Broker) -> list[str]:
    """What happened to channels, consumers and queues."""
    said = []
    for event in broker.everything():
        detail = event.detail or {}
        if event.kind is Kind.CHANNEL:
            name = detail.get("consumer") or detail.get("name") or event.channel
            said.append(f"{detail['what']} {name}")
        elif event.kind is Kind.TOPOLOGY:
            said.append(f"{detail['what']} {detail['name']}")
        elif event.kind is Kind.REQUEUED:
            said.append(f"requeued in {event.queue}")
    return said


@CUT
@pytest.mark.parametrize(
    "command",
    [
        commands.DeclareQueue(queue=Queue("x", exclusive=True), channel="b1"),
        commands.DeclareQueue(queue=Queue("x"), channel="b1"),
        commands.DeclareQueue(queue=Queue("x"), passive=True, channel="b1"),
        commands.Bind(binding=TO_X, channel="b1"),
        commands.Unbind(binding=Binding("amq.topic", "x", routing_key="there"), channel="b1"),
        commands.Consume(queue="x", label="c", channel="b1"),
        commands.Get(queue="x", channel="b1"),
        commands.Purge(queue="x", channel="b1"),
        commands.DeleteQueue(queue="x", channel="b1"),
        commands.DeleteQueue(queue="x", if_unused=True, channel="b1"),
        commands.Depth(queue="x", channel="b1"),
        commands.Purge(queue="x", channel="of no connection"),
        commands.DeclareQueue(queue=Queue("x"), channel="a1"),
        commands.DeclareQueue(queue=Queue("x"), channel="a2"),
    ],
)
def test_r_conn_2_the_exclusive_queue_of_another_connection_is_refused(cut, command: Command):
    broker = a_broker(cut=cut)
    there = Binding("amq.topic", "x", routing_key="there")
    broker.do(commands.Bind(binding=there, channel="a2"))

    refusal = broker.refusal(command)

    assert refusal is not None
    assert (refusal.code, refusal.text) == (405, LOCKED)


@CUT
def test_r_conn_2_a_plain_queue_is_refused_to_who_declares_it_exclusive(cut):
    broker = a_broker(cut=cut)
    command = commands.DeclareQueue(queue=Queue("plain", exclusive=True), channel="a1")

    refusal = broker.refusal(command)

    assert refusal is not None
    assert refusal.code == 405


@CUT
@pytest.mark.parametrize(
    "command",
    [
        commands.DeclareQueue(queue=Queue("x", exclusive=True), channel="a2"),
        commands.DeclareQueue(queue=Queue("x", exclusive=True, durable=True), channel="a2"),
        commands.DeclareQueue(queue=Queue("x"), passive=True, channel="a2"),
        commands.Bind(binding=TO_X, channel="a2"),
        commands.Unbind(binding=TO_X, channel="b1"),
        commands.Consume(queue="x", label="c", channel="a2"),
        commands.DeleteQueue(queue="x", channel="a2"),
    ],
)
def test_r_conn_2_every_channel_of_the_connection_may_use_its_exclusive_queue(cut, command):
    broker = a_broker(cut=cut)

    assert broker.refusal(command) is None


@CUT
def test_r_conn_2_an_exclusive_queue_outlives_its_channel_but_not_its_connection(cut):
    broker = a_broker(cut=cut)

    broker.close_channel("a1")
    broker.close_channel("a2")
    broker.publish("", "x", "m1", channel="b1")
    assert broker.depth("x") == 1
    broker.do(commands.OpenChannel(channel="a3", connection="A"))
    assert broker.refusal(commands.Depth(queue="x", channel="a3")) is None
    close(broker, "A")

    assert broker.depth("x") is None


@CUT
def test_r_conn_2_an_exclusive_queue_is_never_durable(cut):
    broker = Broker(cut=cut)
    queue = a_queue("x", exclusive=True, durable=True)

    assert broker.refusal(commands.DeclareQueue(queue=queue, channel="c")) is None

    assert not broker.shard.vhost.queues["x"].durable


@CUT
def test_r_conn_1_a_connection_closes_its_channels_before_its_queues_go(cut):
    broker = a_broker(cut=cut)
    for name in ("x", "plain", "x", "plain"):
        broker.publish("", name, name)
    broker.do(commands.Consume(queue="plain", label="p1", channel="a1"))
    broker.do(commands.Consume(queue="plain", label="p2", channel="a2"))
    broker.do(commands.Get(queue="x", label="g", channel="a2"))
    before = len(what(broker))

    close(broker, "A")

    assert what(broker)[before:] == [
        "connection_closed A",
        "consumer_cancelled p1",
        "consumer_cancelled p2",
        "channel_closed a1",
        "requeued in plain",
        "requeued in plain",
        "channel_closed a2",
        "requeued in x",
        "queue_deleted x",
    ]
    assert broker.depth("plain") == 2
    closed = [detail for _, detail in broker.of_kind(Kind.CHANNEL) if "cause" in detail]
    assert {detail["cause"] for detail in closed} == {"close_connection"}
    *_, deleted = [detail for _, detail in broker.of_kind(Kind.TOPOLOGY)]
    assert deleted["cause"] == "exclusive"


@CUT
def test_a_connection_that_has_neither_channels_nor_queues_is_forgotten(cut):
    broker = a_broker(cut=cut)
    broker.close_channel("b1")

    close(broker, "B")
    close(broker, "none")

    assert [detail["what"] for _, detail in broker.of_kind(Kind.CHANNEL)][-1] == "channel_closed"
    [left] = broker.shard.state.channels.owners.connections()
    assert (left.user, left.name) == (None, "A")
    close(broker, "A")
    broker.finish()
    assert "owners" not in broker.store.values


@CUT
def test_a_connection_that_lost_its_last_channel_ends_with_its_last_queue(cut):
    broker = a_broker(cut=cut)
    broker.do(commands.DeclareQueue(queue=Queue("y", exclusive=True), channel="a1"))
    for channel in ("a1", "a2", "b1"):
        broker.close_channel(channel)
    assert len(broker.shard.state.channels.owners.connections()) == 1

    broker.do(commands.OpenChannel(channel="a3", connection="A"))
    broker.do(commands.DeleteQueue(queue="x", channel="a3"))
    broker.do(commands.DeleteQueue(queue="y", channel="a3"))
    broker.close_channel("a3")

    assert broker.shard.state.channels.owners.connections() == []


@CUT
def test_a_user_closes_connections_of_their_own_only(cut):
    broker = a_broker(cut=cut)

    broker.do(commands.CloseConnection(connection="A"), user="ann")

    assert broker.depth("x") == 0


@CUT
def test_a_channel_keeps_its_connection(cut):
    broker = a_broker(cut=cut)
    same = commands.OpenChannel(channel="a1", connection="A", lease_ms=1_000)
    unnamed = commands.OpenChannel(channel="a1")

    assert broker.refusal(same) is None
    assert broker.refusal(unnamed) is None
    for connection in ("B", "C"):
        broker.do(commands.OpenChannel(channel="a1", connection="A"))
        refusal = broker.refusal(commands.OpenChannel(channel="a1", connection=connection))
        assert refusal is not None
        assert (refusal.code, refusal.text) == (504, "CHANNEL_ERROR - second 'channel.open' seen")


@CUT
def test_an_opened_channel_says_its_connection(cut):
    broker = a_broker(cut=cut)

    opened: dict[str, Any] = broker.of_kind(Kind.CHANNEL)[0][1]

    assert opened == {"what": "channel_opened", "lease_ms": None, "connection": "A"}


@CUT
def test_r_conn_3_an_error_of_the_connection_closes_all_of_it(cut):
    broker = a_broker(cut=cut)
    consume = commands.Consume(queue="plain", label="c", channel="a2")
    broker.do(consume)

    refusal = broker.refusal(consume)

    assert refusal is not None
    assert refusal.code == 530
    assert broker.depth("x") is None
    closed = [detail for _, detail in broker.of_kind(Kind.CHANNEL) if "cause" in detail]
    assert {(detail["name"], detail["cause"]) for detail in closed} == {
        ("A", "connection_error"),
        ("a1", "connection_error"),
        ("a2", "connection_error"),
    }


@CUT
def test_r_conn_3_an_error_of_the_channel_closes_only_it(cut):
    broker = a_broker(cut=cut)

    [error] = broker.publish("none", "", "m1", channel="a2")

    assert isinstance(error, PublishErrorOut)
    assert error.actor == Actor(None, "a2")
    assert broker.depth("x") == 0
    closed = [detail for _, detail in broker.of_kind(Kind.CHANNEL) if "cause" in detail]
    assert [(detail["name"], detail["cause"]) for detail in closed] == [("a2", "channel_error")]


@CUT
def test_a_lost_batch_closes_every_connection(cut):
    broker = a_broker(cut=cut)
    broker.finish()
    broker.config = type(broker.config)(outbound_from=1 << 40)

    broker.shard = broker.reopened()

    assert broker.depth("x") is None
    assert broker.shard.state.channels.owners.connections() == []


@CUT
def test_a_bound_exchange_is_unbound_from_another_connection(cut):
    broker = a_broker(cut=cut)
    broker.exchange("y")
    binding = Binding("amq.topic", "y", "exchange", "k")
    broker.do(commands.Bind(binding=binding, channel="a1"))

    assert broker.refusal(commands.Unbind(binding=binding, channel="b1")) is None

    assert binding not in broker.shard.vhost.router.bindings


def test_asking_for_the_default_exchange_is_refused():
    broker = Broker()
    ask = commands.DeclareExchange(exchange=Exchange("", "direct"), passive=True)

    refusal = broker.refusal(ask)

    assert refusal is not None
    assert refusal.text == "ACCESS_REFUSED - operation not permitted on the default exchange"


def test_a_channel_that_closes_after_events_were_taken_is_closed_in_the_state_too():
    broker = Broker()
    broker.do(commands.OpenChannel(channel="c0"))
    broker.finish()
    broker.close_channel("c0")
    broker.shard.take_outbound()
    broker.shard.take_events()

    broker.shard.finish()

    assert set(broker.store.values) == {"header", "channels"}


@pytest.mark.parametrize(
    ("binding", "code"),
    [
        (Binding("h", "x", arguments={"x-match": "some"}), 406),
        (Binding("h", "x"), 405),
        (Binding("h", "none", arguments={"x-match": "some"}), 404),
    ],
)
def test_a_wrong_binding_of_anothers_exclusive_queue_is_refused_for_what_is_wrong(binding, code):
    broker = Broker()
    broker.exchange("h", "headers")
    broker.do(commands.DeclareQueue(queue=Queue("x", exclusive=True), channel="a1"))

    refusal = broker.refusal(commands.Bind(binding=binding, channel="b1"))

    assert refusal is not None
    assert refusal.code == code
