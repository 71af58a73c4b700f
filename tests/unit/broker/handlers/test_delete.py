"""Deleting queues and exchanges, and the objects deleted with them."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from tests.builders import Broker
from topology.declarations import Binding
from topology.refusals import Refusal


def test_deleting_a_missing_object_is_no_error():
    broker = Broker()

    assert broker.answer(commands.DeleteQueue(queue="none")) == {"deleted_ready": 0}
    assert broker.answer(commands.DeleteExchange(exchange="none")) == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "operation not permitted on the default exchange"),
        ("amq.topic", "deletion of system exchange 'amq.topic' in vhost '/' not allowed"),
    ],
)
def test_predeclared_exchanges_cannot_be_deleted(name, text):
    refusal = Broker().refusal(commands.DeleteExchange(exchange=name))

    assert refusal == Refusal(403, f"ACCESS_REFUSED - {text}")


def test_a_deletion_can_require_an_unused_or_empty_object():
    broker = Broker()
    broker.queue("used")
    broker.queue("full")
    broker.exchange("x")
    broker.bind("x", "full")
    broker.consume("used", "c")
    broker.publish("", "full", "m1")

    used = broker.refusal(commands.DeleteQueue(queue="used", if_unused=True))
    full = broker.refusal(commands.DeleteQueue(queue="full", if_empty=True))
    bound = broker.refusal(commands.DeleteExchange(exchange="x", if_unused=True))

    in_use = "PRECONDITION_FAILED - {} in vhost '/' in use"
    assert used == Refusal(406, in_use.format("queue 'used'"))
    assert full == Refusal(406, "PRECONDITION_FAILED - queue 'full' in vhost '/' not empty")
    assert bound == Refusal(406, in_use.format("exchange 'x'"))
    assert broker.answer(commands.DeleteQueue(queue="full", if_unused=True)) == {"deleted_ready": 1}
    assert broker.answer(commands.DeleteQueue(queue="used", if_empty=True)) == {"deleted_ready": 0}
    assert broker.refusal(commands.DeleteExchange(exchange="x", if_unused=True)) is None


def test_deleting_an_exchange_takes_its_bindings_and_the_auto_delete_exchanges_behind_them():
    """R-ROUTE-11."""
    broker = Broker()
    broker.exchange("last")
    broker.exchange("middle", auto_delete=True)
    broker.exchange("first", auto_delete=True)
    broker.bind("first", "middle", destination_type="exchange")
    broker.bind("middle", "last", destination_type="exchange")

    broker.do(commands.DeleteExchange(exchange="last"))

    names = [detail["name"] for _, detail in broker.of_kind(Kind.TOPOLOGY)[-3:]]
    assert names == ["last", "middle", "first"]
    assert set(broker.shard.vhost.router.exchanges) == {
        "",
        "amq.direct",
        "amq.fanout",
        "amq.headers",
        "amq.match",
        "amq.topic",
    }


def test_an_auto_delete_exchange_is_deleted_with_its_last_binding():
    broker = Broker()
    broker.exchange("x", auto_delete=True)
    broker.queue("a")
    broker.queue("b")
    broker.bind("x", "a")
    broker.bind("x", "b")

    broker.do(commands.DeleteQueue(queue="a"))
    still_there = "x" in broker.shard.vhost.router.exchanges
    broker.do(commands.Unbind(binding=Binding("x", "b")))

    assert still_there
    assert "x" not in broker.shard.vhost.router.exchanges
