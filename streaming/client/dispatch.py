"""The channels and publishers of a connection, and what of the outbound topic is for which."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from streaming.client.errors import ClientError, broker_error
from streaming.protocol.headers import SEQ

if TYPE_CHECKING:
    from streaming.client.channel import Channel
    from streaming.client.command_client import CommandClient
    from streaming.client.flow import Flow
    from streaming.client.outages import Outages
    from streaming.client.publisher import Publisher
    from streaming.client.records import Inbound


class Dispatch:
    """Hands each record to whom it is for, on the reader's thread."""

    def __init__(self, asking: CommandClient, flow: Flow, trouble: Outages) -> None:
        self._asking = asking
        self._flow = flow
        self._trouble = trouble
        self._lock = threading.Lock()
        self._channels: dict[str, Channel] = {}
        self._publishers: dict[str, Publisher] = {}

    def channels(self) -> list[Channel]:
        """Those that are open, as of now."""
        return list(self._channels.values())

    def publishers(self) -> list[Publisher]:
        """Those that await confirms, as of now."""
        return list(self._publishers.values())

    def add_channel(self, channel: Channel) -> None:
        """Hand it what is for it.

        Raises:
            ClientError: there is one of that name.
        """
        with self._lock:
            if channel.name in self._channels:
                raise ClientError(f"this connection has a channel {channel.name!r} already")
            self._channels[channel.name] = channel

    def add_publisher(self, publisher: Publisher) -> None:
        """Hand it what is for its channel."""
        with self._lock:
            self._publishers[publisher.name] = publisher

    def remove_channel(self, name: str) -> None:
        """Hand it nothing more."""
        with self._lock:
            self._channels.pop(name, None)

    def remove_publisher(self, name: str) -> None:
        """Hand it nothing more."""
        with self._lock:
            self._publishers.pop(name, None)

    def take(self, record: Inbound) -> None:
        """A record of the outbound topic."""
        self._trouble.is_over()
        match record.kind:
            case "flow":
                self._gate(record)
            case "delivery":
                channel = self._channels.get(record.channel)
                if channel is not None:
                    channel.take_delivery(record)
            case "cancel":
                channel = self._channels.get(record.channel)
                if channel is not None:
                    channel.take_cancel(record.document["consumer"])
            case "answer":
                self._answered(record)
            case "confirm" | "return" | "publish_error":
                publisher = self._publishers.get(record.channel)
                if publisher is not None:
                    publisher.take(record)

    def beat(self, record: Inbound) -> None:
        """A record of the heartbeat's topic."""
        self._trouble.job_lives()
        self._gate(record)

    def _gate(self, record: Inbound) -> None:
        seq = int(record.headers.get(SEQ, b"0"))
        self._flow.notice(seq, active=bool(record.document.get("active", True)))

    def _answered(self, record: Inbound) -> None:
        document = record.document
        error = document.get("error")
        refusal = None if error is None else broker_error(error["code"], error["text"])
        result = document.get("result", {})
        channel = self._channels.get(record.channel)
        if channel is not None:
            channel.take_answer(document["op"], result, refusal)
        self._asking.answered(document.get("reply_id") or "", result, refusal)

    def moment(self) -> None:
        """Now and then: leases are renewed, timeouts found."""
        now_s = time.monotonic()
        for channel in self.channels():
            channel.renew_if_due(now_s)
        for publisher in self.publishers():
            publisher.fail_late(now_s)
