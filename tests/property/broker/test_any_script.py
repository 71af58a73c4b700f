"""Any script: no crash, no copy lost or duplicated, limits kept, growth bounded."""

from collections import Counter
from contextlib import nullcontext

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Event
from streaming.broker.shard import Shard
from streaming.broker.state.vhost_codec import VhostCache
from tests.builders import Broker
from tests.property.broker.balance import Balance
from tests.property.broker.declarations import CHANNELS, CONNECTIONS, QUEUES
from tests.property.broker.playing import (
    CONFIG,
    LIMIT,
    Watch,
    low_limit,
    play,
    small_portions,
    tiny_pages,
)
from tests.property.broker.scripts import Step, scripts


class Growth(Watch):
    """The number of dead letters of a message in an instant; queues and channels have timers."""

    def __init__(self) -> None:
        self._seen = 0

    def after_step(self, _shard: Shard, events: list[Event]) -> None:
        born: Counter[tuple[int, int]] = Counter()
        for event in events[self._seen :]:
            copy = event.copy
            if copy is not None and copy.parent_copy_id >= 0 and copy.copy_id == event.seq:
                born[(event.at_ms, copy.message.offset)] += 1
        self._seen = len(events)
        timers = len(QUEUES) + len(CHANNELS)
        assert all(count <= 2 * LIMIT * (1 + timers) for count in born.values())


REMEMBERED = {"redriven", "again"}
"""What stays in the state for ever: ended redrives, and copies that were published again."""

COMPAT = pytest.mark.parametrize("compat", ["4.0", "3.10"])


def of(compat: str, **fields: object) -> ShardConfig:
    return msgspec.structs.replace(CONFIG, compat=compat, **fields)


def test_with_tiny_pages_there_are_several_of_every_kind():
    """Otherwise, the properties below would not test paging."""
    broker = Broker(cut=True)
    with tiny_pages():
        broker.queue("q")
        for number in range(12):
            broker.publish("", "q", f"m{number}")
        broker.get("q", "g", count=6)
        broker.queue("r")
        broker.queue("s")

    pages = Counter(key.rpartition("/")[0] for key in broker.store.values)
    assert {prefix: count > 1 for prefix, count in pages.items() if prefix} == {
        "d1.0": True,
        "p1": True,
    }


@COMPAT
@given(script=scripts())
def test_every_copy_is_in_one_place_and_every_limit_holds_after_every_step(compat, script):
    with low_limit():
        play(script, of(compat), watch=Balance())


@given(script=scripts(), cuts=st.sets(st.integers(0, 70)), away_ms=st.sampled_from([0, 5, 50]))
def test_the_invariants_hold_if_each_batch_has_its_own_instant(script, cuts, away_ms):
    """Records after a batch's `now` take effect at `now`; time to live counts from it."""
    with low_limit():
        play(script, of("4.0", clock="wall", away_ms=away_ms), cuts=cuts, watch=Balance())


@given(script=scripts())
def test_the_invariants_hold_if_users_need_permissions(script):
    with low_limit():
        play(script, of("4.0", enforce_permissions=True), watch=Balance())


@given(script=scripts(), lane=st.integers(0, 1))
def test_the_invariants_hold_on_a_lane(script, lane):
    with low_limit():
        play(script, of("4.0", lanes=2, lane=lane), watch=Balance())


@COMPAT
@given(script=scripts(), data=st.data())
def test_the_events_do_not_depend_on_where_the_log_is_cut(compat, script, data):
    """Nor on the size of pages and the cache of compiled topologies."""
    last = len(script) - 1
    cuts = data.draw(st.sets(st.integers(0, last)) | st.just(set(range(last))), label="cuts")
    cache = VhostCache() if data.draw(st.booleans(), label="cached") else None
    page_copies = data.draw(st.sampled_from([1, 2, 3, 1_000]), label="copies a page")
    page_bits = data.draw(st.integers(0, 2), label="bits of a page")
    portions = data.draw(st.booleans(), label="in portions")
    takes = data.draw(st.sets(st.integers(0, last)), label="taken")
    with low_limit(), small_portions() if portions else nullcontext():
        whole = play(script, of(compat))
        with tiny_pages(page_copies, page_bits):
            in_parts = play(script, of(compat), cuts=cuts, takes=takes, cache=cache)

    assert in_parts.events == whole.events
    assert in_parts.outbound == whole.outbound


@given(script=scripts())
def test_after_deleting_everything_only_the_topology_is_left(script):
    ending = [
        *(commands.CloseChannel(channel=name) for name in (*CHANNELS, "drain")),
        *(commands.CloseConnection(connection=name) for name in CONNECTIONS),
        *(commands.DeleteQueue(queue=name) for name in QUEUES),
        *(commands.ControlRedrive(id=f"r{n}", action="cancel", reason="") for n in range(4)),
    ]
    steps = [*script, *(Step(0, command, user) for command in ending for user in (None, "ann"))]
    with low_limit(), tiny_pages():
        played = play(steps, cuts=range(0, len(steps), 3))
        shard = Shard(CONFIG, played.store)

    batch = shard.finish()

    left = {key for key in played.store.values if key.partition("/")[0] not in REMEMBERED}
    assert left <= {"header", "topology", "channels"}
    assert (batch.resident_messages, batch.resident_bytes) == (0, 0)


@given(script=scripts(), cuts=st.sets(st.integers(0, 80)))
def test_a_batch_reports_its_resident_messages(script, cuts):
    with low_limit():
        played = play(script, cuts=cuts)
    shard = Shard(CONFIG, played.store)
    queues = shard.overview().queues.values()
    messages = sum(queue.ready + queue.unacked + queue.held for queue in queues)
    size = sum(queue.ready_bytes + queue.unacked_bytes + queue.held_bytes for queue in queues)

    batch = shard.finish()

    assert (batch.resident_messages, batch.resident_bytes) == (messages, size)


@COMPAT
@given(script=scripts())
def test_the_dead_letters_of_one_event_stay_below_the_limit(compat, script):
    """D11: dead letters caused by one step or timer; up to twice the limit if two causes meet."""
    with low_limit():
        play(script, of(compat), watch=Growth())
