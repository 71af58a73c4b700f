"""An edited letter enters its target as a new version, which only editors may store."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.commands import Redrive
from streaming.broker.events import Kind
from streaming.broker.message import PublishedHeaders
from streaming.broker.outbound import PublishErrorOut
from streaming.broker.redrive_letters import Edit, Letter, RedriveOptions, StoredLetter, Target
from streaming.broker.redrives.version_keys import VERSION_KEY
from tests.builders import ADMIN, Broker
from topology.refusals import Refusal

CUT = pytest.mark.parametrize("cut", [False, True])
WORK = Target("work", "", ("work",))
OLD, NEW = "a" * 64, "b" * 64


def a_broker(**fields: Any) -> Broker:
    """A broker with the letter `m0` in `dead`."""
    broker = Broker(**fields)
    broker.queue("work")
    broker.queue("dead")
    broker.publish("", "dead", "m0", headers={"n": 1}, priority=2)
    return broker


def store(broker: Broker, user: str | None = None, **fields: Any) -> list[Any]:
    return broker.publish(
        "", f"{VERSION_KEY}{NEW}", "new", headers={"n": 2}, user=user, confirm=True, **fields
    )


def move(broker: Broker, edit: Edit, user: str | None = None, **options: Any) -> Any:
    broker.finish()
    [copy_id] = [
        row.seq for row in broker.rows if row.kind is Kind.ENQUEUED and row.queue == "dead"
    ]
    letter = Letter(0, copy_id, "dead", WORK, edit=edit)
    fields: dict[str, Any] = {"id": "r", "reason": "x", "seal": "s", "total": 1}
    command = Redrive(letters=(letter,), options=RedriveOptions(**options), **fields)
    return broker.answer(command, user=user)


@CUT
def test_the_new_version_enters_the_target_and_the_event_names_both(cut):
    broker = a_broker(cut=cut)
    store(broker)

    assert move(broker, Edit(OLD, NEW))["moved"] == 1

    [got] = broker.get("work")
    assert broker.body(got) == "new"
    headers = broker.delivered_headers(got.copy) or {}
    assert (headers["n"], headers["x-redrive-id"]) == (2, "r")
    assert got.copy.envelope.priority == 2
    broker.finish()
    [moved] = [row for row in broker.rows if row.kind is Kind.REDRIVEN]
    edit = {"original": OLD, "version": NEW, "message": [0, 0, 1]}
    assert moved.detail == {"redrive": "r", "targets": ["work"], "edit": edit}
    assert [row.kind for row in broker.rows].count(Kind.EDITED) == 1


def test_the_headers_of_the_version_route_it():
    broker = a_broker()
    broker.exchange("by-n", "headers")
    broker.bind("by-n", "work", arguments={"n": 2})
    store(broker)
    broker.finish()
    letter = Letter(0, broker.rows[2].seq, "dead", Target(None, "by-n", ("",)), edit=Edit(OLD, NEW))

    broker.do(Redrive(id="r", reason="x", seal="s", total=1, letters=(letter,)))

    assert broker.drain("work") == ["new"]


def test_an_edit_may_change_priority_and_expiration():
    broker = a_broker()
    store(broker)

    move(broker, Edit(OLD, NEW, 7, "500"))

    [got] = broker.get("work")
    envelope = got.copy.envelope
    assert (envelope.priority, envelope.expiration, envelope.ttl_ms) == (7, "500", 500)


def test_an_edit_may_remove_an_expiration():
    broker = Broker()
    broker.queue("work")
    broker.queue("dead")
    broker.publish("", "dead", "m0", expiration="60000")
    store(broker)

    move(broker, Edit(OLD, NEW, None, ""), expiration="restart")

    [got] = broker.get("work")
    assert (got.copy.envelope.expiration, got.copy.envelope.ttl_ms) == (None, None)


def test_a_version_goes_to_no_queue_whatever_its_headers_say():
    broker = a_broker()

    broker.publish("", f"{VERSION_KEY}{NEW}", "new", headers={"CC": ["work"]})

    assert broker.depth("work") == 0


@pytest.mark.parametrize("key", [f"{VERSION_KEY}short", f"{VERSION_KEY}{'Z' * 64}", NEW])
def test_other_keys_are_ordinary_publishes(key):
    broker = a_broker()

    broker.publish("", key, "x")
    broker.finish()

    assert broker.rows[-1].kind is Kind.UNROUTABLE


def test_a_letter_whose_version_nobody_stored_stays():
    broker = a_broker()

    answer = move(broker, Edit(OLD, NEW))

    assert (answer["moved"], answer["skipped"], broker.drain("dead")) == (0, 1, ["m0"])


def test_a_letter_whose_version_is_no_longer_in_the_tables_stays():
    broker = a_broker()
    store(broker)
    broker.headers = [PublishedHeaders({"n": 1})]

    assert move(broker, Edit(OLD, NEW))["skipped"] == 1


def guarded(*editors: str) -> Broker:
    broker = a_broker(enforce_permissions=True, administrators=(ADMIN, "ann"), editors=editors)
    broker.do(commands.SetPermissions(user="bob", configure="", write=".*", read=".*"))
    return broker


@pytest.mark.parametrize("user", ["ann", "bob"])
def test_only_editors_may_store_versions_and_edit(user):
    broker = guarded()

    [refused] = store(broker, user=user)
    refusal = move(broker, Edit(OLD, NEW), user=user)

    assert isinstance(refused, PublishErrorOut)
    assert refused.refusal.code == 403
    assert isinstance(refusal, Refusal)
    assert (refusal.code, broker.drain("dead")) == (403, ["m0"])


def test_an_editor_needs_no_administrator():
    broker = guarded("bob")
    store(broker, user="bob")

    assert move(broker, Edit(OLD, NEW), user="bob")["moved"] == 1


def test_a_user_without_the_default_exchange_stores_no_version():
    broker = guarded("eve")

    [refused] = store(broker, user="eve")

    assert isinstance(refused, PublishErrorOut)
    assert "refused for user" in refused.refusal.text


@pytest.mark.parametrize("action", ["discard", "restore"])
def test_nothing_but_a_redrive_edits(action):
    broker = a_broker()
    stored = StoredLetter((0, 0, 0), 2, 0, None, ())
    letter = Letter(0, 3, "dead", WORK, 0, stored, Edit(OLD, NEW))

    refusal = broker.refusal(
        Redrive(
            id="r",
            reason="x",
            seal="s",
            total=1,
            letters=(letter,),
            options=RedriveOptions(action=action),
        )
    )

    assert refusal is not None
    assert refusal.code == 406


def test_a_letter_in_no_queue_is_published_as_its_version():
    broker = a_broker()
    broker.drain("dead")
    store(broker)
    stored = StoredLetter((0, 0, 0), 2, 0, None, ())
    letter = Letter(0, 3, "dead", WORK, 0, stored, Edit(OLD, NEW))

    broker.do(Redrive(id="r", reason="x", seal="s", total=1, letters=(letter,)))

    assert broker.drain("work") == ["new"]


@CUT
def test_a_version_has_the_header_of_its_cause_as_the_editor_left_it(cut):
    """R-SET-9."""
    broker = Broker(cut=cut)
    broker.queue("work")
    broker.queue("first", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.publish("", "first", "m0")
    broker.get("first", "g")
    broker.do(commands.Reject(refs=("g/0",), reason="a typo"))
    store(broker)

    move(broker, Edit(OLD, NEW))

    [got] = broker.get("work")
    assert "x-exception-message" not in (broker.delivered_headers(got.copy) or {})
