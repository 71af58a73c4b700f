"""Every message in a state at rest is reached, wherever it rests."""

import msgspec

from streaming.broker.channels.deliveries import DELIVERIES
from streaming.broker.message import NEVER, NO_COPY, Copy, Envelope, Message
from streaming.broker.queues.held_copies import HELD
from streaming.broker.relocated_state import relocate
from streaming.broker.state.encoding import pack
from streaming.broker.state.pages import COPIES
from streaming.broker.state.schema import (
    Delivery,
    DetachedRecord,
    FifoRecord,
    Held,
    LevelRecord,
    QueueRecord,
    RunRecord,
    UnfinishedRecord,
)

FILE = 77


def encoded(record):
    return pack(msgspec.msgpack.encode(record))


class State:
    """Entries with messages in them, one in each place."""

    def __init__(self, file):
        self.file = file
        self.offset = 0

    def message(self):
        self.offset += 1
        return Message(0, 0, self.offset, self.file, 0, 10)

    def copy(self):
        number = self.offset
        return Copy(number, self.message(), Envelope("", ("q",)), number, NEVER, NO_COPY)

    def held(self):
        return Held(self.copy(), "rejected", 1)

    def levels(self):
        runs = [RunRecord(0, 1, 1, FifoRecord(1, [], None, COPIES.encode([self.copy()])))]
        both = FifoRecord(2, [], COPIES.encode([self.copy()]), COPIES.encode([self.copy()]))
        front = FifoRecord(1, [], COPIES.encode([self.copy()]), None)
        return [LevelRecord(0, both, runs), LevelRecord(1, None), LevelRecord(2, front, [])]

    def queue(self):
        held = FifoRecord(1, [], None, HELD.encode([self.held()]))
        return encoded(QueueRecord(levels=self.levels(), held_fifo=held))

    def entries(self):
        detached = DetachedRecord(1, "q", False, None, self.levels(), True, None, False, 1, 10)
        return {
            "p1/0": COPIES.encode([self.copy(), self.copy()]),
            "p1r.3/0": COPIES.encode([self.copy()]),
            "p1p4/2": COPIES.encode([self.copy()]),
            "h1/0": HELD.encode([self.held()]),
            "d5/0": DELIVERIES.encode([Delivery(1, 0, 1, 5, self.copy())]),
            "qg0": encoded({1: (NEVER, self.queue()), 2: (7, None)}),
            "qr2": self.queue(),
            "qg1": encoded({300: (NEVER, encoded(QueueRecord()))}),
            "unfinished": encoded(UnfinishedRecord([detached], [])),
            "version/abc": encoded(self.message()),
            "header": b"\1other",
            "cg0": b"\1other",
        }


def test_every_message_has_its_new_place_and_nothing_else_has_changed():
    entries = State(0).entries()

    relocate(entries, lambda message: setattr(message, "body_file", FILE))

    assert entries == State(FILE).entries()
