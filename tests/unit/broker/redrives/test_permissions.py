"""Who may redrive what, and control which redrive."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.commands import Redrive
from streaming.broker.redrive_letters import Letter, Target
from tests.builders import ADMIN, Broker
from tests.unit.broker.redrives.builders import WORK, a_broker, control, letters, redrive, said
from topology.declarations import Queue
from topology.refusals import Refusal


def a_guarded_broker(**permissions: str) -> Broker:
    broker = a_broker(1, enforce_permissions=True, administrators=(ADMIN,))
    fields = {"configure": "", "write": "", "read": ""} | permissions
    broker.do(commands.SetPermissions(user="ann", **fields))
    return broker


@pytest.mark.parametrize(
    ("permissions", "target", "code"),
    [
        ({"read": "^dead$", "write": "^amq.default$"}, WORK, None),
        ({"read": "^dead$", "write": "^amq.fanout$"}, Target(None, "amq.fanout", ("",)), None),
        ({"read": "^other$", "write": ".*"}, WORK, 403),
        ({"read": ".*", "write": "^work$"}, WORK, 403),
        ({"read": ".*", "write": "^amq.default$"}, Target(None, "amq.fanout", ("",)), 403),
    ],
)
def test_a_user_needs_what_a_get_and_a_publish_need(permissions, target, code):
    broker = a_guarded_broker(**permissions)
    sealed = letters(broker, target)

    command = Redrive(id="r", reason="x", seal="s", total=1, letters=sealed)
    refusal = broker.refusal(command, user="ann")

    assert (refusal and refusal.code) == code


def test_another_users_redrive_is_controlled_by_administrators_only():
    broker = a_guarded_broker(read="^dead$", write="^amq.default$")
    redrive(broker, letters(broker), rate=1, total=2, user="ann")

    refusal = control(broker, "pause", user="bob")

    assert isinstance(refusal, Refusal)
    assert refusal.code == 403
    assert "may not pause redrive 'r', which user 'ann' approved, in vhost '/'" in refusal.text
    assert control(broker, "cancel", user=ADMIN)["status"] == "cancelled"


def test_an_exclusive_queue_of_another_channel_is_refused():
    broker = a_broker(1)
    broker.do(commands.DeclareQueue(queue=Queue("mine", exclusive=True), channel="own"))
    sealed = (Letter(0, 1, "mine", WORK),)

    refusal = broker.refusal(Redrive(id="r", reason="x", seal="s", total=1, letters=sealed))

    assert refusal is not None
    assert refusal.code == 405


def test_an_internal_exchange_is_refused():
    broker = a_broker(1)
    broker.exchange("inner", internal=True)
    sealed = letters(broker, Target(None, "inner", ("k",)))

    refusal = broker.refusal(Redrive(id="r", reason="x", seal="s", total=1, letters=sealed))

    assert refusal is not None
    assert refusal.code == 403


def test_a_refused_part_ends_its_redrive():
    broker = a_guarded_broker(read="^dead$", write="^amq.default$")
    [letter] = letters(broker)
    redrive(broker, (letter,), total=2, user="ann")
    other = Letter(0, letter.copy_id, "other", WORK)
    fields: dict[str, Any] = {"id": "r", "reason": "x", "seal": "s", "total": 2, "first": 1}

    refusal = broker.refusal(Redrive(letters=(other,), **fields), user="ann")

    assert refusal is not None
    assert refusal.code == 403
    assert control(broker, "status")["status"] == "cancelled"
    assert said(broker) == ["requested", "cancelled"]
    assert broker.drain("dead") == ["m0"]


def test_nobody_adds_letters_to_the_redrive_of_another_user():
    broker = a_guarded_broker(read="^dead$", write="^amq.default$")
    [letter] = letters(broker)
    redrive(broker, (letter,), total=2, user="ann")
    fields: dict[str, Any] = {"id": "r", "reason": "x", "seal": "s", "total": 2, "first": 1}

    refusal = broker.refusal(Redrive(letters=(letter,), **fields), user=ADMIN)

    assert refusal is not None
    assert refusal.code == 403
    assert control(broker, "status")["status"] == "receiving"
