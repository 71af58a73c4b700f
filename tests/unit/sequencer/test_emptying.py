"""A vhost that is deleted is emptied by commands in its log."""

import asyncio

import pytest

from streaming.amqp.entries import Ask, Publish, Then
from streaming.amqp.outgoing import Confirms
from streaming.amqp.stored import Stored
from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.protocol.log_records import LogKind, read_header
from streaming.sequencer import emptying
from streaming.sequencer.emptying import NotEmptyError, empty
from streaming.sequencer.log_vhost import LogVhost
from tests.management_on_log import PromptLog
from topology.declarations import Definitions, Policy, Queue
from topology.vhost import Vhost

CLIENT = Actor("guest", "c1")
BY = Actor(None, "management ann")


def full(port: PromptLog) -> LogVhost:
    """A vhost with something of each kind, and a message."""
    vhost = port.lead()
    document = {
        "queues": [{"name": name, "durable": True} for name in ("q", "r")],
        "exchanges": [{"name": "x", "type": "fanout", "durable": True}],
        "bindings": [{"source": "x", "destination": "q", "destination_type": "queue"}],
        "policies": [{"name": "p", "pattern": "^q", "definition": {"max-length": 5}}],
    }
    vhost.submit(Ask(BY, commands.ImportDefinitions(definitions=document)))
    for command in (
        commands.SetOperatorPolicy(policy=Policy("o", "^q", {"max-length": 9})),
        commands.SetPermissions(user="guest", configure=".*", write=".*", read=".*"),
        commands.SetTopicPermissions(user="guest", exchange="amq.topic", write="^a", read="^a"),
        commands.SetVhostLimit(limit="max-queues", value=9),
        commands.SetVhostLimit(limit="max-connections", value=9),
    ):
        vhost.submit(Ask(BY, command))
    vhost.submit(Ask(CLIENT, commands.OpenChannel(channel="c1", connection="n1")))
    vhost.submit(Publish(CLIENT, Publication("x", ""), Stored(b"\0\0", b"body"), 0, 0, Confirms()))
    return vhost


def test_everything_in_it_goes_and_the_log_says_by_whom():
    async def run() -> tuple[bool, Definitions, set[Actor]]:
        port = PromptLog("orders")
        vhost = full(port)
        done = asyncio.Event()
        vhost.submit(Then(done.set))
        await asyncio.wait_for(done.wait(), 30)
        before = vhost.shard.vhost.definitions()
        assert all(
            getattr(before, member)
            for member in ("queues", "policies", "operator_policies", "permissions", "limits")
        )
        assert vhost.ready_in("q") == 1
        first = len(port.records)
        is_empty = await empty(vhost, BY)
        headers = [read_header(record.header) for record in port.records[first:]]
        by = {Actor(one.user, one.channel) for one in headers if one.kind == LogKind.COMMAND}
        return is_empty, vhost.shard.vhost.definitions(), by

    is_empty, left, by = asyncio.run(run())

    assert is_empty
    assert left == Vhost().definitions()
    assert by == {BY}


def test_what_is_declared_meanwhile_goes_too_but_not_for_ever(monkeypatch):
    monkeypatch.setattr(emptying, "_ROUNDS", 3)

    async def run(times: int) -> bool:
        port = PromptLog("orders")
        vhost = port.lead()
        left = [times]

        def declare_again(_events: object) -> None:
            if left[0]:
                left[0] -= 1
                queue = Queue(f"again{left[0]}", durable=True)
                vhost.submit(Ask(BY, commands.DeclareQueue(queue=queue)))

        vhost.watchers.append(declare_again)
        vhost.submit(Ask(BY, commands.DeclareQueue(queue=Queue("q", durable=True))))
        return await empty(vhost, BY)

    assert asyncio.run(run(2))
    with pytest.raises(NotEmptyError, match="vhost orders: it is not empty"):
        asyncio.run(run(1_000))


def test_a_vhost_that_is_replaced_meanwhile_is_emptied_by_the_other_front():
    async def run() -> bool:
        port = PromptLog("orders")
        vhost = full(port)
        vhost.fail("another front leads it")
        return await empty(vhost, BY)

    assert asyncio.run(run()) is False
