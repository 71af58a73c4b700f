"""A publish in a transaction is routed when it is published (R-TX-2, R-TX-3)."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.message import (
    CONFIRM,
    MANDATORY,
    Message,
    Publication,
    publication_of,
)
from streaming.broker.outbound import ConfirmOut, ReturnOut
from tests.builders import Broker
from topology.refusals import Refusal

VERSIONS = pytest.mark.parametrize("compat", ["4.0", "3.10"])


def route(broker: Broker, exchange: str, key: str, headers: dict[str, Any] | None = None) -> Any:
    publication = publication_of(exchange, key, {}, headers)
    return broker.shard.state.publishing.route(publication, None, headers)


def commit(broker: Broker, exchange: str, key: str, routed: Any, flags: int = 0) -> list[str]:
    """Publish what was routed before; return what its publisher hears."""
    publication = Publication(exchange, key, routed=routed)
    message = Message(0, 0, 900, 0, 0, 1)
    before = len(broker.shard.outbound)
    refusal = broker.shard.publish(broker.shard.now_ms, message, publication, flags | CONFIRM)
    assert refusal is None
    heard = []
    for out in broker.shard.outbound[before:]:
        if isinstance(out, ConfirmOut):
            heard.append("ack" if out.ack else "nack")
        elif isinstance(out, ReturnOut):
            heard.append(out.text)
    return heard


@pytest.fixture
def broker(compat):
    broker = Broker(compat=compat)
    broker.exchange("x", "fanout")
    for name in ("a", "b"):
        broker.queue(name)
        broker.bind("x", name)
    return broker


@VERSIONS
def test_bindings_that_change_before_the_commit_do_not_count(broker):
    routed = route(broker, "x", "k")
    broker.do(commands.DeleteExchange(exchange="x"))
    broker.queue("later")

    assert commit(broker, "x", "k", routed) == ["ack"]
    assert [broker.depth(name) for name in ("a", "b", "later")] == [1, 1, 0]


@pytest.mark.parametrize(("compat", "heard", "depth"), [("4.0", "nack", 0), ("3.10", "ack", 1)])
def test_a_queue_that_goes_and_comes_is_another_one_in_4_0(broker, heard, depth):
    routed = route(broker, "x", "k")
    broker.do(commands.DeleteQueue(queue="a"))
    broker.queue("a")

    assert commit(broker, "x", "k", routed, MANDATORY) == [heard]
    assert [broker.depth(name) for name in ("a", "b")] == [depth, 1]


@pytest.mark.parametrize(
    ("compat", "heard"), [("4.0", ["nack"]), ("3.10", ["NO_ROUTE", "ack"])], ids=str
)
def test_a_message_whose_queues_have_gone_is_unroutable_in_3_10_only(broker, heard):
    routed = route(broker, "x", "k")
    for name in ("a", "b"):
        broker.do(commands.DeleteQueue(queue=name))

    assert commit(broker, "x", "k", routed, MANDATORY) == heard
    assert commit(broker, "x", "k", routed) == heard[-1:]
    assert broker.shard.events.kinds.count(Kind.UNROUTABLE) == (2 if "nack" in heard else 1)


@pytest.mark.parametrize(("compat", "depth"), [("4.0", 0), ("3.10", 1)])
def test_a_quorum_queue_is_whoever_has_its_name(broker, depth):
    broker.quorum("q")
    routed = route(broker, "", "q")
    broker.do(commands.DeleteQueue(queue="q"))
    assert commit(broker, "", "q", routed) == ["ack"]

    broker.quorum("q")
    assert commit(broker, "", "q", routed) == ["ack"]
    assert broker.depth("q") == 1

    broker.do(commands.DeleteQueue(queue="q"))
    broker.queue("q")
    assert commit(broker, "", "q", routed) == ["ack"]
    assert broker.depth("q") == depth


@pytest.mark.parametrize(("compat", "heard"), [("4.0", ["NO_ROUTE", "ack"]), ("3.10", ["ack"])])
def test_a_queue_that_is_declared_before_the_commit_counts_for_3_10(broker, heard):
    routed = route(broker, "", "late", {"CC": ["a"]})
    missing = route(broker, "", "late")
    broker.queue("late")

    assert commit(broker, "", "late", missing, MANDATORY) == heard
    assert broker.depth("late") == (1 if heard == ["ack"] else 0)
    assert [name for name, _number in routed] == ["a"] + ["late"] * (heard == ["ack"])


@VERSIONS
def test_a_headers_exchange_sees_the_headers_of_the_publish(broker):
    broker.exchange("h", "headers")
    broker.bind("h", "a", arguments={"n": 1})

    assert [name for name, _ in route(broker, "h", "", {"n": 1})] == ["a"]
    assert route(broker, "h", "", {"n": 2}) == ()
    assert route(broker, "h", "") == ()


@VERSIONS
def test_what_is_refused_is_refused_when_it_is_published(broker):
    refused = route(broker, "missing", "k")

    assert isinstance(refused, Refusal)
    assert refused.code == 404


@VERSIONS
def test_the_content_of_a_letter_is_routed_by_the_commit(broker):
    assert route(broker, "", "amq.dlx.version." + "a" * 64) is None


@VERSIONS
@pytest.mark.parametrize(("kind", "heard"), [("queue", "nack"), ("quorum", "ack")])
def test_only_a_classic_queue_lets_a_commit_fail_when_it_is_full(broker, kind, heard):
    getattr(broker, kind)("full", max_length=1, overflow="reject-publish")
    for _ in range(2):
        broker.publish("", "full", "m")

    assert commit(broker, "", "full", route(broker, "", "full")) == [heard]
    assert broker.shard.events.kinds.count(Kind.REFUSED) >= 1
