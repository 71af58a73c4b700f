"""What moved into queues and out of them, as the events of a batch say."""

from streaming.broker.events import Events, Kind
from streaming.broker.message import NEVER, Copy, Envelope, Message


def copy_of(offset, copy_id):
    message = Message(0, 0, offset, 0, 0, 10)
    return Copy(copy_id, message, Envelope("", ("work",)), copy_id, NEVER, 0)


def test_each_copy_moves_into_its_queue_and_out_of_it_and_one_that_dies_on_arrival_does_neither():
    events = Events(100)
    first, second = copy_of(7, 100), copy_of(8, 101)
    on_arrival = copy_of(9, 106)
    for kind, copy in (
        (Kind.ENQUEUED, first),
        (Kind.ENQUEUED, second),
        (Kind.DELIVERED, first),
        (Kind.REQUEUED, first),
        (Kind.CHANNEL, None),
        (Kind.DIED, first),
        (Kind.DIED, on_arrival),
    ):
        events.add(int(kind), "work", copy)

    assert events.moves() == ([7, 8], [7], [9])
