"""The channels of a shard, by (user, name) or number.

A channel is opened on first use, and closed by command, lease or consumer timeout. It is read from
the state when it is first needed, and written back when the batch ends.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from streaming.broker.channels.channel import Channel, Consumer
from streaming.broker.channels.owners import Owners
from streaming.broker.channels.publishers import NO_SOURCE, Publishers
from streaming.broker.clock import TimerKind
from streaming.broker.context import ShardContext
from streaming.broker.message import NEVER
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.record_groups import RecordGroups
from streaming.broker.state.schema import NO_QUEUE, ChannelRecord, DirectoryRecord

_NAMES_KEY = "channels"
_GROUPS: Final = "c"
"""Prefix of the groups of records."""

_directory_decoder = msgspec.msgpack.Decoder(DirectoryRecord)
_record_decoder = msgspec.msgpack.Decoder(ChannelRecord)
_encoder = msgspec.msgpack.Encoder()


class ChannelRegistry:
    """Reads channels as they are needed and writes them back.

    Args:
        timers: group of records -> earliest timer in it; kept in the shard's header.

    Attributes:
        owners: connections, and who owns which exclusive queue.
        publishers: the known publishers of quorum queues.
    """

    def __init__(self, context: ShardContext, timers: dict[int, int]) -> None:
        self._context = context
        self.records = RecordGroups(context.store, _GROUPS, timers)
        self.publishers = Publishers(context.store)
        self._loaded: dict[int, Channel] = {}
        self._consumers: dict[tuple[int, int], Consumer] = {}
        self._names: dict[tuple[str | None, str], int] | None = None
        self._next_number = 1
        self._names_changed = False
        self.owners = Owners(context.store)

    def _numbers(self) -> dict[tuple[str | None, str], int]:
        """The numbers of the open channels, oldest first."""
        if self._names is None:
            data = self._context.store.read(_NAMES_KEY)
            directory = (
                DirectoryRecord(1, []) if data is None else _directory_decoder.decode(unpack(data))
            )
            self._next_number = directory.next_number
            self._names = {(user, name): number for user, name, number in directory.names}
        return self._names

    def open(self, user: str | None, name: str, connection: str | None = None) -> Channel:
        """The channel of that identity; opened if it was not.

        Args:
            connection: the name of the user's connection that a new channel belongs to.
        """
        numbers = self._numbers()
        number = numbers.get((user, name))
        if number is not None:
            return self.by_number(number)
        store = self._context.store
        if connection is None:
            number = self._new_number()
            channel = Channel.new(store, number, user, name)
        else:
            known = self.owners.connection(user, connection)
            if known is None:
                known = self.owners.open(user, connection, self._new_number())
            number = self._new_number()
            channel = Channel.new(store, number, user, name, known.number)
            self.owners.join(known, number)
        numbers[(user, name)] = number
        self._loaded[number] = channel
        return channel

    def _new_number(self) -> int:
        number = self._next_number
        self._next_number += 1
        self._names_changed = True
        return number

    def get(self, user: str | None, name: str) -> Channel | None:
        """The channel of that identity, if it is open."""
        number = self._numbers().get((user, name))
        return None if number is None else self.by_number(number)

    def is_open(self, user: str | None, name: str) -> bool:
        """Whether there is a channel of that identity."""
        return (user, name) in self._numbers()

    def by_number(self, number: int) -> Channel:
        """An open channel."""
        channel = self._loaded.get(number)
        if channel is None:
            data = self.records.read(number)
            assert data is not None, f"channel {number} is missing from the state"
            record = _record_decoder.decode(unpack(data))
            channel = Channel(self._context.store, number, record)
            self._loaded[number] = channel
            for due_ms, timer in (
                (channel.lease_timer_ms, TimerKind.LEASE),
                (channel.timeout_timer_ms, TimerKind.CONSUMER_TIMEOUT),
            ):
                if due_ms != NEVER:
                    self._context.clock.arm(due_ms, timer, number)
        return channel

    def wake(self, number: int) -> None:
        """Set the timers of the channels in a group; below 0, load the one whose timer is due."""
        if number < 0:
            if self.exists(-1 - number):
                self.by_number(-1 - number)
            return
        for channel_number, due_ms in self.records.timers_in(number):
            if channel_number not in self._loaded:
                self._context.clock.arm(due_ms, TimerKind.WAKE_CHANNELS, -1 - channel_number)

    def exists(self, number: int) -> bool:
        """Whether a channel of that number is open."""
        return number in self._loaded or self.records.read(number) is not None

    def count(self) -> int:
        """How many channels are open."""
        return len(self._numbers())

    def numbers(self) -> list[int]:
        """The numbers of the open channels, oldest first."""
        return list(self._numbers().values())

    def start_at(self, next_number: int) -> None:
        """Give new channels numbers from here on; there is no channel yet."""
        self._names, self._next_number, self._names_changed = {}, next_number, True

    def skip_numbers(self, count: int) -> None:
        """Give the next channel a number that is higher by this."""
        self._numbers()
        self._next_number += count
        self._names_changed = True

    @property
    def has_changed(self) -> bool:
        """Whether a channel was opened or closed in this batch."""
        return self._names_changed

    def users(self) -> list[str | None]:
        """The users that have open channels, in order of their oldest one."""
        return list(dict.fromkeys(user for user, _name in self._numbers()))

    def is_loaded(self, number: int) -> bool:
        """Whether a channel was used in this batch."""
        return number in self._loaded

    def remove(self, channel: Channel) -> None:
        """Forget a channel; nothing may be unacked on it."""
        self.forget_publisher(channel.user, channel.name)
        del self._numbers()[(channel.user, channel.name)]
        self._names_changed = True
        del self._loaded[channel.number]
        if channel.connection >= 0:
            self.owners.leave(channel.connection, channel.number)
        for number in channel.consumers:
            self._consumers.pop((channel.number, number), None)
        self.records.delete(channel.number)

    def forget_publisher(self, user: str | None, name: str) -> None:
        """Let a closed channel be new to all queues; one that only published is not in here."""
        self.publishers.forget((user, name, NO_SOURCE))

    def numbers_of(self, user: str | None, name: str | None) -> list[int]:
        """The open channels of a user: the one of that name, or all, newest first."""
        numbers = self._numbers()
        if name is not None:
            found = numbers.get((user, name))
            return [] if found is None else [found]
        return [number for (owner, _), number in reversed(numbers.items()) if owner == user]

    def consumer(self, key: tuple[int, int]) -> Consumer:
        """The consumer that a queue knows by this key."""
        consumer = self._consumers.get(key)
        if consumer is None:
            channel_number, number = key
            consumer = self._consumers[key] = self.by_number(channel_number).consumers[number]
        return consumer

    def forget_consumer(self, consumer: Consumer) -> None:
        """Forget a consumer that no queue knows any more."""
        self._consumers.pop(consumer.key, None)

    def find_consumer(
        self, user: str | None, channel_name: str | None, label: str
    ) -> Consumer | None:
        """An active consumer of this user, by label; on the newest channel that has one."""
        for number in self.numbers_of(user, channel_name):
            consumer = self.by_number(number).active_consumer(label)
            if consumer is not None:
                return consumer
        return None

    def is_unacked(self, delivery_id: str) -> bool:
        """Whether a delivery, by id, is not settled yet."""
        channel_number, consumer_number, number = (int(part) for part in delivery_id.split("."))
        if not self.exists(channel_number):
            return False
        consumer = self.by_number(channel_number).consumers.get(consumer_number)
        delivery = None if consumer is None else consumer.deliveries.find(number)
        return delivery is not None and delivery.queue_number != NO_QUEUE

    def unacked_copies(self) -> Iterator[int]:
        """Yield the ids of all unacked copies; reads every channel."""
        for number in list(self._numbers().values()):
            for consumer in self.by_number(number).consumers.values():
                for delivery in consumer.deliveries:
                    yield delivery.copy.copy_id

    def used(self, channel: Channel) -> None:
        """Renew a channel's lease, because a command of it arrived."""
        now_ms = self._context.clock.now_ms
        channel.used_at_ms = now_ms
        if channel.lease_ms is not None:
            due_ms = now_ms + channel.lease_ms
            if due_ms < channel.lease_timer_ms:
                channel.lease_timer_ms = due_ms
                self._context.clock.arm(due_ms, TimerKind.LEASE, channel.number)

    def save(self) -> None:
        """Write back what was read."""
        for number, channel in sorted(self._loaded.items()):
            timer_ms = channel.next_timer_ms()
            self.records.write(number, pack(_encoder.encode(channel.save())), timer_ms)
        self.records.save()
        if self._names_changed:
            names = [(user, name, number) for (user, name), number in self._numbers().items()]
            directory = DirectoryRecord(self._next_number, names)
            self._context.store.write(_NAMES_KEY, pack(_encoder.encode(directory)))
        self.owners.save()
        self.publishers.save()
        self._loaded = {}
