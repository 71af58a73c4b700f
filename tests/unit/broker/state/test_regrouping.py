"""State whose records are in small groups, and how the broker goes on with it.

`state_version_2.json` holds the store of a broker with 80 queues and 41 channels at the end of a
batch, and what the program that wrote it did and delivered in the steps below.
"""

import base64
import json
from pathlib import Path

from streaming.broker import commands
from streaming.broker.message import PublishedHeaders
from streaming.broker.state.encoding import STATE_VERSION
from streaming.broker.state.record_groups import regroup
from streaming.broker.state.store import MemoryStore
from tests.builders import Broker

RECORDED = json.loads((Path(__file__).parent / "state_version_2.json").read_text())


def test_queues_channels_and_timers_in_small_groups_go_on_in_large_ones():
    broker = Broker()
    broker.bodies = list(RECORDED["bodies"])
    broker.headers = [PublishedHeaders(None) for _ in broker.bodies]
    stored = {key: base64.b64decode(value) for key, value in RECORDED["store"].items()}
    assert {value[0] for value in stored.values()} == {2}
    assert {"qg2", "cg1"} <= set(stored)
    broker.store.values = stored
    broker.shard = broker.reopened()

    broker.at(150)
    broker.reject("g14/0", channel="c14")
    broker.queue("new")
    broker.publish("", "new", "last")
    broker.at(31_000)
    broker.at(70_000)
    delivered = [
        [queue, out.copy.message.offset, out.copy.requeue_count]
        for queue in ("dead", "q49", "q7", "new")
        for out in broker.get(queue, count=50)
    ]

    # that version had another order of events at one instant (R-QUEUE-7)
    assert sorted(broker.story()) == sorted(RECORDED["sentences"])
    assert delivered == RECORDED["delivered"]
    groups = {key for key in broker.store.values if key[:2] in {"qg", "cg"}}
    assert groups == {"qg0", "cg0"}
    assert broker.store.values["header"][0] == STATE_VERSION


def test_a_shard_without_channels_and_one_with_unfinished_work_are_regrouped(monkeypatch):
    """As a program with groups of 32 records would have left them."""
    monkeypatch.setattr("streaming.broker.queues.queue.MAX_AT_ONCE", 3)
    broker = Broker()
    for name in ("a", "b"):
        broker.queue(name)
    for number in range(8):
        broker.publish("", "a", f"m{number}")
    broker.answer(commands.Purge(queue="a"))
    broker.finish()
    for key, value in broker.store.values.items():
        broker.store.values[key] = bytes((2,)) + value[1:]
    broker.shard = broker.reopened()

    broker.at(10_000)

    assert broker.story()[-8:] == [f"m{number} purged in a" for number in range(8)]


def test_a_group_that_was_never_written_needs_no_regrouping():
    store = MemoryStore()

    assert regroup(store, "q", [1, 40], {-1: 5}) == {-1: 5}
    assert store.values == {}
