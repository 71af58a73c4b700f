"""Does a front know how far back its log is needed, whatever happens to messages?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.broker.events import ENDINGS, Events, Kind
from streaming.broker.state.store import MemoryStore
from streaming.broker.state.vhost_codec import VhostCache
from streaming.sequencer import needed_offsets
from streaming.sequencer.needed_offsets import NeededOffsets
from tests.property.broker.test_sequence import fold_of, logs, take


@pytest.fixture(autouse=True, scope="module")
def exact():
    """Count for each offset."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(needed_offsets, "_RANGE_BITS", 0)
        yield


class Alive:
    """The offsets of copies in queues, one by one; and of versions of letters."""

    def __init__(self) -> None:
        self.copies: dict[int, int] = {}
        self.versions: list[int] = []

    def see(self, events: Events) -> None:
        for row, (kind, copy) in enumerate(zip(events.kinds, events.copies, strict=True)):
            if kind == Kind.EDITED:
                self.versions.append(events.messages[row][0].offset)
            elif kind == Kind.ENQUEUED:
                assert copy is not None
                self.copies[copy.copy_id] = copy.message.offset
            elif Kind(kind) in ENDINGS:
                assert copy is not None
                self.copies.pop(copy.copy_id, None)

    def first(self, end: int) -> int:
        return min([end, *self.copies.values(), *self.versions])


@given(log=logs(), cuts=st.sets(st.integers(0, 60)))
def test_a_front_needs_the_log_from_the_oldest_message_in_a_queue(log, cuts):
    store, cache = MemoryStore(), VhostCache()
    fold = fold_of(log, store, cache)
    epochs: list[int] = []
    alive, needed = Alive(), NeededOffsets()
    for offset, record in enumerate(log):
        take(fold, offset, record, epochs)
        fold.take_outbound()
        events = fold.take_events()
        alive.see(events)
        needed.count(events)
        if offset in cuts:
            events = fold.finish().events
            alive.see(events)
            needed.count(events)
            fold = fold_of(log, store, cache)
            needed = NeededOffsets(needed.at_rest())

        assert needed.first(offset + 1) == alive.first(offset + 1)
        assert len(needed) == fold.shard.state.resident()[0] == len(alive.copies)
