"""The channels of a shard, by (user, name) or number.

They are opened on first use, and closed by command, lease or consumer timeout.
"""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING

import msgspec

from streaming.broker.channels.channel import Channel
from streaming.broker.message import NEVER
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.record_groups import Records
from streaming.broker.state.schema import NO_QUEUE, ChannelRecord, DirectoryRecord
from streaming.broker.timers import TimerKind

if TYPE_CHECKING:
    from streaming.broker.channels.streams import Stream
    from streaming.broker.shard import Shard

_NAMES = "channels"


_decoder = msgspec.msgpack.Decoder(DirectoryRecord)
_record_decoder = msgspec.msgpack.Decoder(ChannelRecord)
_encoder = msgspec.msgpack.Encoder()


class ChannelDirectory:
    """Reads channels as they are needed and writes them back."""

    def __init__(self, shard: Shard, timers: dict[int, int]) -> None:
        self._shard = shard
        self.records = Records(shard.store, "c", timers)
        self._loaded: dict[int, Channel] = {}
        self._names: dict[tuple[str | None, str], int] | None = None
        self._next_number = 1
        self._names_changed = False

    def _numbers(self) -> dict[tuple[str | None, str], int]:
        if self._names is None:
            data = self._shard.store.read(_NAMES)
            self._names = {}
            if data is not None:
                directory = _decoder.decode(unpack(data))
                self._next_number = directory.next_number
                self._names = {(user, name): number for user, name, number in directory.names}
        return self._names

    def open(self, user: str | None, name: str) -> Channel:
        """The channel of that identity, opened if it was not."""
        numbers = self._numbers()
        number = numbers.get((user, name))
        if number is not None:
            return self.by_number(number)
        number = self._next_number
        self._next_number += 1
        self._names_changed = True
        numbers[(user, name)] = number
        channel = Channel.fresh(self._shard.store, number, user, name)
        self._loaded[number] = channel
        return channel

    def get(self, user: str | None, name: str) -> Channel | None:
        """The channel of that identity, if it is open."""
        number = self._numbers().get((user, name))
        return None if number is None else self.by_number(number)

    def by_number(self, number: int) -> Channel:
        """An open channel."""
        channel = self._loaded.get(number)
        if channel is None:
            data = self.records.read(number)
            assert data is not None, f"channel {number} is missing from the state"
            channel = Channel(self._shard.store, number, _record_decoder.decode(unpack(data)))
            self._loaded[number] = channel
            for due_ms, timer in (
                (channel.lease_timer_ms, TimerKind.LEASE),
                (channel.timeout_timer_ms, TimerKind.CONSUMER_TIMEOUT),
            ):
                if due_ms != NEVER:
                    heappush(self._shard.timers, (due_ms, timer, number))
        return channel

    def wake(self, group_number: int) -> None:
        """Read the channels of a group, so that their own timers are in the heap."""
        for number in sorted(self.records.group(group_number)):
            self.by_number(number)

    def exists(self, number: int) -> bool:
        """Whether a channel of that number is open."""
        return number in self._loaded or self.records.read(number) is not None

    def remove(self, channel: Channel) -> None:
        """Forget a channel; nothing may be unacked on it."""
        del self._numbers()[(channel.user, channel.name)]
        self._names_changed = True
        del self._loaded[channel.number]
        self.records.delete(channel.number)

    def of_user(self, user: str | None, name: str | None) -> list[Channel]:
        """The open channels of a user: of that name, or all, the newest first."""
        numbers = self._numbers()
        if name is not None:
            found = [numbers[(user, name)]] if (user, name) in numbers else []
        else:
            found = sorted(number for (owner, _), number in numbers.items() if owner == user)
        return [self.by_number(number) for number in reversed(found)]

    def find_consumer(
        self, user: str | None, channel_name: str | None, label: str
    ) -> Stream | None:
        """An active consumer of this user, by label."""
        for (owner, name), number in sorted(self._numbers().items(), key=lambda entry: -entry[1]):
            if owner == user and channel_name in {None, name}:
                channel = self.by_number(number)
                stream_number = channel.labels.get(label)
                if stream_number is not None and channel.streams[stream_number].active:
                    return channel.streams[stream_number]
        return None

    def is_unacked(self, delivery_id: str) -> bool:
        """Whether a delivery, by id, is not settled yet."""
        channel_number, stream_number, number = (int(part) for part in delivery_id.split("."))
        if not self.exists(channel_number):
            return False
        stream = self.by_number(channel_number).streams.get(stream_number)
        delivery = None if stream is None else stream.find(number)
        return delivery is not None and delivery.queue_number != NO_QUEUE

    def used(self, channel: Channel) -> None:
        """A command of the channel arrived: its lease starts anew."""
        now_ms = self._shard.now_ms
        channel.used_at_ms = now_ms
        if channel.lease_ms is not None:
            due_ms = now_ms + channel.lease_ms
            if due_ms < channel.lease_timer_ms:
                channel.lease_timer_ms = due_ms
                heappush(self._shard.timers, (due_ms, TimerKind.LEASE, channel.number))

    def save(self) -> None:
        """Write back what was read."""
        for number, channel in sorted(self._loaded.items()):
            timer_ms = channel.next_timer_ms()
            self.records.write(number, pack(_encoder.encode(channel.record())), timer_ms)
        self.records.save()
        if self._names_changed:
            names = [(user, name, number) for (user, name), number in self._numbers().items()]
            directory = DirectoryRecord(self._next_number, names)
            self._shard.store.write(_NAMES, pack(_encoder.encode(directory)))
        self._loaded = {}
