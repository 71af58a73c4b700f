"""A client that comes back from the same port hears nothing of what its last connection did."""

import pytest

from streaming.amqp import methods as m
from tests.amqp_client import RawClient

NAME = "127.0.0.1:50000 -> 127.0.0.1:5672"


def publishes(client: RawClient) -> None:
    client.send(1, m.ConfirmSelect(nowait=True))
    for number in range(3):
        client.publish("", "q", b"%d" % number, mandatory=True)
    client.publish("", "nowhere", b"it comes back", mandatory=True)


def declares(client: RawClient) -> None:
    for number in range(3):
        client.send(1, m.ExchangeDeclare(exchange=f"e{number}"))


def consumes(client: RawClient) -> None:
    client.send(1, m.BasicConsume(queue="q", no_ack=True))


def is_refused(client: RawClient) -> None:
    client.send(1, m.QueueBind(queue="missing", exchange="amq.fanout"))


def leaves(client: RawClient) -> None:
    client.send(0, m.ConnectionClose())


@pytest.mark.parametrize("does", [publishes, declares, consumes, is_refused, leaves])
@pytest.mark.parametrize("is_known_lost", [True, False])
def test_nothing_of_the_connection_before_is_told(broker, does, is_known_lost):
    before = RawClient(broker, name=NAME)
    before.ask(m.QueueDeclare(queue="q"))
    for number in range(5):
        before.publish("", "q", b"order %d" % number)
    before.received()

    does(before)
    if is_known_lost:
        before.connection.lost()
    client = RawClient(broker, name=NAME, opened=False)
    client.log_in()
    if not is_known_lost:  # the server hears of the new one first
        before.connection.lost()
    client.send(1, m.ChannelOpen())

    assert [each.method for each in client.received()][-1] == m.ChannelOpenOk()
    assert client.received() == []
    assert client.ask(m.ExchangeDeclare(exchange="mine")) == m.ExchangeDeclareOk()
    client.connection.lost()
    client.received()
    third = RawClient(broker, name=NAME)
    assert third.connection.name == NAME
