"""Limits of vhosts and users (R-LIMIT)."""

from typing import Any

import msgspec
import pytest

from streaming.broker import commands
from streaming.broker.commands import LimitName
from streaming.broker.events import Kind
from tests.builders import Broker
from topology.declarations import Definitions, Queue, VhostLimits
from topology.limits import (
    UserLimits,
    read_user_limits,
    refuse_connection,
    refuse_user_channel,
    refuse_user_connection,
)
from topology.refusals import Refusal
from topology.vhost import Vhost

CUT = pytest.mark.parametrize("cut", [False, True])


def limit(broker: Broker, name: LimitName, value: int) -> None:
    broker.do(commands.SetVhostLimit(limit=name, value=value))


def declare(broker: Broker, name: str, user: str | None = None, **fields: Any) -> Refusal | None:
    return broker.refusal(
        commands.DeclareQueue(queue=Queue(name, **fields), channel="c"), user=user
    )


@CUT
def test_r_limit_1_a_vhost_takes_no_more_queues_than_it_may_have(cut):
    broker = Broker(cut=cut)
    limit(broker, "max-queues", 1)

    assert declare(broker, "a") is None
    assert declare(broker, "a") is None
    text = "PRECONDITION_FAILED - cannot declare queue 'b': queue limit in vhost '/' (1) is reached"
    assert declare(broker, "b") == Refusal(406, text)
    refusal = declare(broker, "", exclusive=True)
    assert refusal is not None
    assert refusal.text.startswith("PRECONDITION_FAILED - cannot declare queue 'amq.gen-")
    broker.do(commands.DeleteQueue(queue="a"))
    assert declare(broker, "b") is None


@CUT
@pytest.mark.parametrize(("value", "allowed"), [(0, False), (-1, True)])
def test_r_limit_1_a_limit_of_0_allows_nothing_and_one_below_is_none(cut, value, allowed):
    broker = Broker(cut=cut)

    limit(broker, "max-queues", value)

    assert (declare(broker, "a") is None) == allowed


@CUT
def test_a_cleared_limit_limits_no_more(cut):
    broker = Broker(cut=cut)
    limit(broker, "max-queues", 0)
    limit(broker, "max-connections", 5)

    broker.do(commands.ClearVhostLimit(limit="max-queues"))
    broker.do(commands.ClearVhostLimit(limit="max-queues"))

    assert declare(broker, "a") is None
    assert broker.shard.vhost.limits == VhostLimits(max_connections=5)
    said = [detail for _, detail in broker.of_kind(Kind.TOPOLOGY) if detail["name"] == "limits"]
    assert [one["declaration"] for one in said] == [
        {"max-queues": 0},
        {"max-connections": 5, "max-queues": 0},
        {"max-connections": 5},
    ]


def test_who_may_not_declare_is_told_so_and_not_of_the_limit():
    broker = Broker(enforce_permissions=True)
    limit(broker, "max-queues", 0)

    refusal = declare(broker, "a", user="ann")

    assert refusal is not None
    assert refusal.code == 403


def test_only_administrators_change_limits():
    broker = Broker(enforce_permissions=True)
    commands_of = (
        commands.SetVhostLimit(limit="max-queues", value=1),
        commands.ClearVhostLimit(limit="max-queues"),
    )

    for command in commands_of:
        refusal = broker.refusal(command, user="ann")
        assert refusal is not None
        assert refusal.code == 403


def test_limits_are_imported_and_exported_as_rabbitmq_does():
    broker = Broker()
    parameter = {
        "vhost": "/",
        "component": "vhost-limits",
        "name": "limits",
        "value": {"max-queues": 1},
    }
    definitions = {"parameters": [parameter]}

    assert broker.answer(commands.ImportDefinitions(definitions=definitions)) == {
        "imported": 1,
        "skipped": [],
    }

    assert broker.shard.vhost.limits == VhostLimits(max_queues=1)
    page: Any = broker.answer(commands.ExportDefinitions())
    assert ["parameters", parameter] in map(list, page["objects"])


@CUT
def test_r_limit_1_an_import_may_not_add_more_queues_than_there_is_room_for(cut):
    def imported(*names: str) -> Refusal | None:
        queues = [{"name": name, "durable": True, "arguments": {}} for name in names]
        return broker.refusal(commands.ImportDefinitions(definitions={"queues": queues}))

    broker = Broker(cut=cut)
    limit(broker, "max-queues", 2)
    declare(broker, "a", durable=True)

    assert imported("a", "b", "c") == Refusal(
        406,
        'PRECONDITION_FAILED - Adding 2 queue(s) to virtual host "/" would exceed the limit of 2'
        " queue(s).\n\nThis virtual host currently has 1 queue(s) defined.\n\nImport aborted!",
    )
    assert list(broker.shard.vhost.queues) == ["a"]
    assert imported("a", "b") is None
    limit(broker, "max-queues", 1)
    assert imported("a", "b") is None  # it adds none


def test_r_limit_2_a_front_asks_whether_a_connection_is_too_many():
    limits = VhostLimits(max_connections=1)
    text = "access to vhost '/' refused for user 'u': connection limit (1) is reached"

    assert refuse_connection(limits, 0, "u", "/") is None
    assert refuse_connection(limits, 1, "u", "/") == Refusal(530, f"NOT_ALLOWED - {text}")
    assert refuse_connection(VhostLimits(), 1_000, "u", "/") is None


def test_r_limit_2_a_user_may_have_so_many_connections_and_channels():
    limits = read_user_limits({"max-connections": 1, "max-channels": 2})
    connections = "connection refused for user 'u': user connection limit (1) is reached"
    channels = (
        "number of channels opened for user 'u' has reached the maximum allowed user limit of (2)"
    )

    assert refuse_user_connection(limits, 0, "u") is None
    assert refuse_user_connection(limits, 1, "u") == Refusal(530, f"NOT_ALLOWED - {connections}")
    assert refuse_user_channel(limits, 1, "u") is None
    assert refuse_user_channel(limits, 2, "u") == Refusal(530, f"NOT_ALLOWED - {channels}")
    assert read_user_limits({}) == UserLimits()
    with pytest.raises(msgspec.ValidationError):
        read_user_limits({"max-channels": "many"})


def test_a_vhost_is_built_with_its_limits():
    definitions = Definitions(limits=(VhostLimits(max_queues=3),))

    assert Vhost.from_definitions(definitions).definitions().limits == definitions.limits
