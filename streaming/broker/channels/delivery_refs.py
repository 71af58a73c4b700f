"""What the refs of a settlement mean.

    label/n               the n-th delivery under a label: of a consumer, or of a get
    channel.stream.n      a delivery id: the n-th delivery of a stream

Refs with the same beginning may mean deliveries in some `Place`s: a stream, the number that their 0
has there, and how many there are. A ref means an unacked delivery, the mark of one that went with
its queue, or nothing. Without a channel named, a label is looked for on all channels of the user,
the newest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.broker.channels.registry import ChannelDirectory
    from streaming.broker.channels.streams import Stream
    from streaming.broker.state.schema import Delivery

    Place = tuple[Stream, int, int]
    Named = tuple[list[Place], int]
    """Where the delivery of a ref may be, and its number there."""

MOST_DIGITS = 18
"""A longer number than any delivery has; Python reads no text of thousands of digits."""


def is_number(text: str) -> bool:
    """Whether a part of a ref is a number."""
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


class Refs:
    """The refs of one settlement. Alike beginnings are looked up once."""

    def __init__(
        self, channels: ChannelDirectory, user: str | None, channel_name: str | None
    ) -> None:
        self._channels = channels
        self._user = user
        self._channel_name = channel_name
        self._labels: dict[str, list[Place]] = {}
        self._streams: dict[str, list[Place]] = {}

    def take(self, named: Named) -> list[tuple[Stream, Delivery]]:
        """Take the delivery, or its mark, out of its stream; empty if there is none."""
        places, number = named
        for stream, first, deliveries in places:
            if number < deliveries:
                delivery = stream.take(first + number)
                if delivery is not None:
                    return [(stream, delivery)]
        return []

    def take_up_to(self, named: Named) -> list[tuple[Stream, Delivery]]:
        """Take it and all before it on its channel (R-SET-3); empty if there is none."""
        for stream, delivery in self.meant(named):
            return list(stream.channel.take_up_to(delivery.tag))
        return []

    def meant(self, named: Named) -> Iterator[tuple[Stream, Delivery]]:
        """The deliveries and marks that it may mean, the likeliest first."""
        places, number = named
        for stream, first, deliveries in places:
            delivery = stream.find(first + number) if number < deliveries else None
            if delivery is not None:
                yield stream, delivery

    def find(self, ref: str) -> Named:
        """Where the delivery may be, of those made so far, and its number there."""
        beginning, slash, text = ref.rpartition("/")
        known = self._labels
        if not slash:
            beginning, _dot, text = ref.rpartition(".")
            known = self._streams
        if not is_number(text):
            return [], 0
        places = known.get(beginning)
        if places is None:
            places = self._with_label(beginning) if slash else self._with_id(beginning)
            known[beginning] = places
        return places, int(text)

    def _with_id(self, stream_id: str) -> list[Place]:
        channel_text, _dot, stream_text = stream_id.partition(".")
        if not (is_number(channel_text) and is_number(stream_text)):
            return []
        if not self._channels.exists(int(channel_text)):
            return []
        channel = self._channels.by_number(int(channel_text))
        stream = channel.streams.get(int(stream_text))
        if channel.user != self._user or stream is None:
            return []
        if self._channel_name not in {None, channel.name}:
            return []
        return [(stream, 0, stream.next_number)]

    def _with_label(self, label: str) -> list[Place]:
        return [
            place
            for channel in self._channels.of_user(self._user, self._channel_name)
            for place in channel.places(label)
        ]
