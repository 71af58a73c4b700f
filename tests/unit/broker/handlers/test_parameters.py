"""Parameters: what whoever serves the vhost keeps in it."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.state.vhost_codec import decode_vhost, encode_vhost
from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])
USER = ("user", "ann")


def keep(value: str, secret: str | None = None) -> commands.SetParameter:
    return commands.SetParameter(component="user", name="ann", value=value, secret=secret)


@CUT
def test_the_last_value_of_a_parameter_is_kept(cut):
    broker = Broker(cut=cut)

    broker.do(keep("1", "hash"))
    broker.do(keep("2", "other"))
    broker.do(commands.SetParameter(component="vhost", name="/", value="3"))

    assert broker.shard.vhost.parameters == {
        USER: ("2", "other"),
        ("vhost", "/"): ("3", None),
    }


def test_each_change_is_an_event_without_the_secret():
    broker = Broker()

    broker.do(keep("1", "hash"))
    broker.do(keep("1", "hash"))

    event = {"what": "parameter_set", "name": "ann", "component": "user", "value": "1"}
    assert [detail for _, detail in broker.of_kind(Kind.TOPOLOGY)] == [event, event]
    assert broker.shard.vhost.version == 2


def test_only_an_administrator_may_set_one():
    broker = Broker(enforce_permissions=True)

    refusal = broker.refusal(keep("1"), user="ann")

    assert refusal is not None
    assert refusal.code == 403
    assert broker.shard.vhost.parameters == {}


def test_parameters_are_part_of_the_stored_vhost():
    broker = Broker()
    broker.do(keep("1", "hash"))

    found = decode_vhost(encode_vhost(broker.shard.vhost), "4.0")

    assert found.parameters == {USER: ("1", "hash")}
