"""In a sequenced vhost the log alone decides whether the content of a letter is there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streaming.broker.commands import Redrive
from streaming.broker.events import Kind
from streaming.broker.redrive_letters import NOT_IN_LOG, Edit, Letter, StoredLetter, Target
from streaming.broker.redrives.version_keys import VERSION_KEY, is_name_of_content, name_of_content
from tests.builders import Broker

WORK = Target("work", "", ("work",))
NEW = "b" * 64
STORED = StoredLetter((7, 0, 0), 2, 5, '{"h":"a"}', ())
"""Its message is in no table: it was published at offset 0 of another topic."""


def a_broker(**config: Any) -> Broker:
    broker = Broker(sequenced=True, **config)
    broker.queue("work")
    return broker


def approve(broker: Broker, letter: Letter) -> Any:
    return broker.answer(Redrive(id="r", reason="x", seal="s", total=1, letters=(letter,)))


def skipped(broker: Broker) -> list[Any]:
    broker.finish()
    return [(row.detail or {})["reason"] for row in broker.rows if row.kind is Kind.SKIPPED]


@pytest.mark.parametrize("is_later", [False, True])
def test_a_letter_in_no_queue_becomes_the_message_that_has_its_content(is_later):
    broker = a_broker()
    broker.publish("", VERSION_KEY + name_of_content(0), "m0", headers={"h": b"a"})
    if is_later:
        broker.finish()

    assert approve(broker, Letter(0, 70, "work", WORK, 0, STORED))["moved"] == 1

    [got] = broker.get("work")
    assert broker.body(got) == "m0"
    broker.finish()
    [moved] = [row for row in broker.rows if row.kind is Kind.REPUBLISHED]
    assert moved.copy is not None
    assert moved.copy.copy_id == 70
    edit = (moved.detail or {})["edit"]
    assert edit["message"] == [0, 0, got.copy.message.offset]


@pytest.mark.parametrize("size", [2, NOT_IN_LOG])
def test_a_letter_without_content_in_the_log_is_skipped(size):
    broker = a_broker()
    if size == NOT_IN_LOG:  # a redrive before had it
        broker.publish("", VERSION_KEY + name_of_content(0), "m0")
    stored = StoredLetter((7, 0, 0), size, 5, None, ())

    assert approve(broker, Letter(0, 70, "work", WORK, 0, stored))["skipped"] == 1

    assert skipped(broker) == ["not_stored"]


@pytest.mark.parametrize("stored", [None, STORED])
def test_an_edited_letter_moves_whatever_became_of_the_row_of_its_version(stored):
    broker = a_broker()
    broker.queue("dead")
    broker.publish("", "dead", "old")
    broker.publish("", VERSION_KEY + NEW, "new")
    broker.finish()
    broker.headers.clear()  # nothing is known of any message
    copy_id = 70 if stored is not None else next(row.seq for row in broker.rows if row.queue)

    letter = Letter(0, copy_id, "dead", WORK, 0, stored, Edit("a" * 64, NEW))
    assert approve(broker, letter)["moved"] == 1

    assert skipped(broker) == []
    assert broker.depth("work") == 1


def test_the_name_of_a_content_is_no_hash_of_a_version():
    assert is_name_of_content(name_of_content(7))
    assert not is_name_of_content(NEW)


def test_a_redrive_tells_which_of_its_letters_it_has_received():
    broker = a_broker()
    redrives = broker.shard.state.redrives
    assert not redrives.has_letters("r", 0)

    part = Redrive(id="r", reason="x", seal="s", total=2, letters=(Letter(0, 70, "work", WORK),))
    broker.answer(part)
    assert redrives.has_letters("r", 0)
    assert not redrives.has_letters("r", 1)
    assert not redrives.has_letters("other", 0)

    broker.answer(msgspec.structs.replace(part, first=1))
    assert redrives.has_letters("r", 2)  # it has ended
