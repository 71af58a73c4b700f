"""What a redrive of many parts reads: a number of letters that grows with the plan, no faster."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from streaming.broker.commands import ControlRedrive, Redrive
from streaming.broker.redrive_letters import Letter, RedriveOptions, Target
from streaming.broker.state.store import MemoryStore
from tests.builders import Broker
from tests.unit.broker.redrives.builders import in_queue, skipped

WORK = Target("work", "", ("work",))
PART = 20
SLOW = RedriveOptions(rate=1)


class CountingStore(MemoryStore):
    """A store that counts the reads and their bytes, by the first part of the key."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def read(self, key: str) -> bytes | None:
        value = super().read(key)
        if value is not None:
            kind = key.partition("/")[0]
            self.reads[kind] += 1
            self.bytes[kind] += len(value)
        return value


def a_broker(letters: int) -> tuple[Broker, CountingStore, tuple[Letter, ...]]:
    broker = Broker(cut=True)
    store = broker.store = CountingStore()
    broker.shard = broker.reopened()
    broker.queue("work", max_length=5, overflow="reject-publish")
    broker.queue("dead")
    broker.cut = False
    for number in range(letters):
        broker.publish("", "dead", f"m{number}")
    sealed = tuple(Letter(0, copy_id, "dead", WORK) for copy_id in in_queue(broker, "dead"))
    broker.cut = True
    store.reads.clear()
    store.bytes.clear()
    return broker, store, sealed


def send(
    broker: Broker, sealed: tuple[Letter, ...], redrive_id: str = "r", *, missing: int = 0
) -> None:
    """Send a plan in parts, each in a batch of its own."""
    total = len(sealed) + missing
    common: dict[str, Any] = {"id": redrive_id, "reason": "x", "seal": "s", "total": total}
    for first in range(0, len(sealed), PART):
        part = sealed[first : first + PART]
        broker.do(Redrive(letters=part, first=first, options=SLOW, **common))


@pytest.mark.parametrize("parts", [10, 40])
def test_a_part_reads_nothing_of_the_parts_before(parts):
    broker, store, sealed = a_broker(parts * PART)

    send(broker, sealed, missing=1)

    assert store.reads["redrive"] == 0
    assert store.reads["claim"] <= 3 * parts
    assert store.bytes["claim"] <= 256 * 8 * 3 * parts


def test_a_second_plan_over_the_same_letters_reads_as_little():
    broker, store, sealed = a_broker(40 * PART)
    send(broker, sealed, "first", missing=1)
    store.reads.clear()

    send(broker, sealed, "second", missing=1)

    assert store.reads["redrive"] == 0
    assert store.reads["claim"] <= 3 * 40
    reasons = Counter(reason for _, reason in skipped(broker))
    assert reasons == {"in_redrive": 40 * PART}


def test_a_full_target_lets_a_tick_read_one_part():
    broker, store, sealed = a_broker(40 * PART)
    common: dict[str, Any] = {"id": "r", "reason": "x", "seal": "s", "total": len(sealed)}
    for first in range(0, len(sealed), PART):
        broker.do(Redrive(letters=sealed[first : first + PART], first=first, **common))
    assert broker.depth("work") == 5
    store.reads.clear()

    for second in range(10):
        broker.at(1_000 * second + 1_000)

    assert store.reads["redrive"] == 10


@pytest.mark.parametrize("action", ["cancel", None])
def test_letters_that_are_handled_or_let_go_are_claimed_no_more(action):
    broker, store, sealed = a_broker(2 * PART)
    send(broker, sealed)
    if action:
        broker.do(ControlRedrive(id="r", action=action, reason="x"))
    else:
        for second in range(50):
            broker.drain("work")
            broker.at(1_000 * second + 1_000)

    left = [key for key in store.values if key.startswith(("claim/", "redrive/"))]

    assert (left, broker.depth("dead")) == ([], 2 * PART - 1 if action else 0)


def test_a_letter_that_was_skipped_can_be_in_the_next_plan_at_once():
    broker, _, sealed = a_broker(3)
    broker.get("dead", "g", count=1)
    broker.do(Redrive(id="r", reason="x", seal="s", total=3, letters=sealed, options=SLOW))
    broker.reject("g/0", requeue=True)
    send(broker, sealed[:1], "again")

    assert skipped(broker) == [(sealed[0].copy_id, "not_ready")]
    assert broker.depth("work") == 2
