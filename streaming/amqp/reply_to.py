"""Direct reply-to: replies that go straight to the consumer who asked, without a queue.

A client consumes from `amq.rabbitmq.reply-to` and publishes requests with that as `reply_to`. The
server replaces it by an address of its own; whoever publishes to this address, through the default
exchange, reaches the consumer. Such replies are in no queue and in no table.
"""

import base64
import os
from typing import Final, NamedTuple, Protocol

REPLY_TO_QUEUE: Final = "amq.rabbitmq.reply-to"


class Receiver(Protocol):
    """The channel of a consumer of replies."""

    def reply(self, consumer_tag: str, address: str, properties: bytes, body: bytes) -> bool:
        """Deliver a reply to the client; False if it does not read those before."""


class _Consumer(NamedTuple):
    address: str
    consumer_tag: str
    receiver: Receiver


class ReplyConsumers:
    """The consumers of replies of one vhost: at most one for a channel."""

    def __init__(self) -> None:
        self._by_channel: dict[str, _Consumer] = {}
        self._channels: dict[str, str] = {}  # by address

    def add(self, channel: str, receiver: Receiver, consumer_tag: str) -> None:
        """Let the consumer of a channel be reached at an address that nobody can guess.

        It has the form that RabbitMQ's have.
        """
        where, secret = (base64.b64encode(os.urandom(16)).decode("ascii") for _ in range(2))
        address = f"{REPLY_TO_QUEUE}.{where}.{secret}"
        self._by_channel[channel] = _Consumer(address, consumer_tag, receiver)
        self._channels[address] = channel

    def address_of(self, channel: str) -> str | None:
        """Where replies to the consumer of a channel go."""
        found = self._by_channel.get(channel)
        return None if found is None else found.address

    def exists(self, address: str) -> bool:
        """Whether a consumer has this address."""
        return address in self._channels

    def cancel(self, channel: str, consumer_tag: str) -> bool:
        """End the consumer of a channel if it has this tag."""
        found = self._by_channel.get(channel)
        if found is None or found.consumer_tag != consumer_tag:
            return False
        self.remove(channel)
        return True

    def remove(self, channel: str) -> None:
        """End the consumer of a channel, if it has one."""
        found = self._by_channel.pop(channel, None)
        if found is not None:
            del self._channels[found.address]

    def deliver(self, address: str, properties: bytes, body: bytes) -> bool:
        """Hand a reply to its consumer; False if it has gone, or does not read."""
        channel = self._channels.get(address)
        if channel is None:
            return False
        found = self._by_channel[channel]
        return found.receiver.reply(found.consumer_tag, address, properties, body)
