"""Channels: the sessions of clients, with the consumers and the deliveries that each has.

A delivery belongs to a stream of its channel (`streams.py`): each consumer is a stream, and all
gets of a channel share one. Across the streams of a channel, delivery tags give the order that
`multiple`, recover and close go by (R-SET-3, R-SET-4).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import TYPE_CHECKING

from streaming.broker.channels.streams import Stream
from streaming.broker.events import Actor
from streaming.broker.message import NEVER
from streaming.broker.state.schema import ChannelRecord, StreamRecord

if TYPE_CHECKING:
    from streaming.broker.channels.delivery_refs import Place
    from streaming.broker.state.paged_fifo import StateStore
    from streaming.broker.state.schema import Delivery


class Channel:
    """A client's session: (user, name) is its identity (D3b).

    Attributes:
        lease_ms: how long it lives without a command; None for ever.
    """

    def __init__(self, store: StateStore, number: int, record: ChannelRecord) -> None:
        self._store = store
        self.number = number
        self.user = record.user
        self.name = record.name
        self.actor = Actor(record.user, record.name)
        self.next_tag = record.next_tag
        self.next_stream = record.next_stream
        self.streams: dict[int, Stream] = {
            stream.number: Stream(store, self, stream) for stream in record.streams
        }
        self.labels: dict[str, int] = {
            stream.label: stream.number for stream in record.streams if stream.queue_number >= 0
        }
        self.get_labels: dict[str, tuple[int, int]] = {
            label: (first, count) for label, first, count in record.get_labels
        }
        self.lease_ms = record.lease_ms
        self.used_at_ms = record.used_at_ms
        self.lease_timer_ms = record.lease_timer_ms
        self.timeout_timer_ms = record.timeout_timer_ms

    @classmethod
    def fresh(cls, store: StateStore, number: int, user: str | None, name: str) -> Channel:
        """A channel nothing has happened on."""
        record = ChannelRecord(
            user, name, 1, 1, [StreamRecord(0, "", 0, [])], [], None, 0, NEVER, NEVER
        )
        return cls(store, number, record)

    @property
    def gets(self) -> Stream:
        """The stream that all gets share."""
        return self.streams[0]

    def consumers(self) -> list[Stream]:
        """The active consumers, oldest first."""
        return [stream for stream in self.streams.values() if stream.active]

    def new_consumer(
        self, label: str, queue_number: int, prefetch: int, *, auto_ack: bool
    ) -> Stream:
        """Start a stream for a consumer; one of that label before it can be named no more."""
        number = self.next_stream
        self.next_stream += 1
        record = StreamRecord(number, label, 0, [], queue_number, prefetch, auto_ack, active=True)
        stream = Stream(self._store, self, record)
        self.streams[number] = stream
        self.labels[label] = number
        return stream

    def places(self, label: str) -> list[Place]:
        """Where deliveries under a label may be: of a get, then of consumers, the newest first."""
        first, count = self.get_labels.get(label, (0, 0))
        return [
            (self.gets, first, count),
            *(
                (stream, 0, stream.next_number)
                for stream in reversed(self.streams.values())
                if stream.label == label and stream.number
            ),
        ]

    def take_up_to(self, tag: int) -> Iterator[tuple[Stream, Delivery]]:
        """Take out every delivery with a tag up to this one, in order of tag (R-SET-3)."""
        streams = [stream for stream in self.streams.values() if stream.unacked]
        if len(streams) == 1:
            yield from streams[0].tagged_up_to(tag)
            return
        tagged = [stream.tagged_up_to(tag) for stream in streams]
        yield from merge(*tagged, key=lambda entry: entry[1].tag)

    def oldest_ms(self) -> int:
        """When its oldest unacked delivery was handed out; NEVER if there is none."""
        return min(stream.oldest_ms() for stream in self.streams.values())

    def next_timer_ms(self) -> int:
        """The earlier of its timers."""
        return min(self.lease_timer_ms, self.timeout_timer_ms)

    def forget_done(self) -> None:
        """Drop streams of cancelled consumers and labels of gets that have nothing unacked."""
        for number, stream in list(self.streams.items()):
            if number and not stream.active and not stream.unacked:
                del self.streams[number]
                if self.labels.get(stream.label) == number:
                    del self.labels[stream.label]
        if self.get_labels:
            oldest = self.gets.lowest_number()
            self.get_labels = {
                label: (first, count)
                for label, (first, count) in self.get_labels.items()
                if first + count > oldest
            }

    def record(self) -> ChannelRecord:
        """Write pages and give the rest; the channel is not used after this."""
        self.forget_done()
        return ChannelRecord(
            self.user,
            self.name,
            self.next_tag,
            self.next_stream,
            [stream.save() for stream in self.streams.values()],
            [(label, first, count) for label, (first, count) in self.get_labels.items()],
            self.lease_ms,
            self.used_at_ms,
            self.lease_timer_ms,
            self.timeout_timer_ms,
        )
