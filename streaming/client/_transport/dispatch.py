"""Hands each record of the job to the channel or publisher that it is for."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from streaming.client._transport.command_client import CommandClient
from streaming.client._transport.flow import Flow
from streaming.client._transport.outages import Outages
from streaming.client._wire import Inbound
from streaming.client.errors import ClientError
from streaming.protocol.record_headers import SEQ


def _ignore(_: object = None) -> None:
    pass


class Receiver(NamedTuple):
    """What a channel or publisher does with records and with the end of its connection.

    Attributes:
        receive: handles a record that names it.
        tick: does what is due at an instant of the monotonic clock; called several times a second.
        closing: called while commands can still be sent.
        closed: called with the error for whatever is unconfirmed; no record follows.

    The reader's thread calls `receive` and `tick`; they must not wait.
    """

    receive: Callable[[Inbound], None]
    tick: Callable[[float], None]
    closing: Callable[[], None] = _ignore
    closed: Callable[[ClientError], None] = _ignore


class Dispatch:
    """The receivers of one connection, by the channel name that their records have."""

    def __init__(self, commands: CommandClient, flow: Flow, outages: Outages) -> None:
        self._commands = commands
        self._flow = flow
        self._outages = outages
        self._lock = threading.Lock()
        self._receivers: dict[str, Receiver] = {}

    def receivers(self) -> list[Receiver]:
        """Return the present receivers."""
        return list(self._receivers.values())

    def add(self, name: str, receiver: Receiver) -> None:
        """Add a receiver.

        Raises:
            ClientError: the name is in use.
        """
        with self._lock:
            if name in self._receivers:
                raise ClientError(f"this connection already has a channel {name!r}")
            self._receivers[name] = receiver

    def remove(self, name: str) -> None:
        """Remove a receiver; records for an unknown one are ignored."""
        with self._lock:
            self._receivers.pop(name, None)

    def receive(self, record: Inbound) -> None:
        """Hand over a record of the outbound topic."""
        if record.kind == "flow":  # like a heartbeat, it is not an answer
            self._outages.job_is_alive()
            self._notice(record)
            return
        self._outages.end()
        receiver = self._receivers.get(record.channel)
        if receiver is not None:
            receiver.receive(record)
        if record.kind == "answer":  # the channel first: a refusal has closed it
            self._commands.complete(record.document)

    def heartbeat(self, record: Inbound) -> None:
        """Handle a record of the heartbeat topic."""
        self._outages.job_is_alive()
        self._notice(record)

    def tick(self) -> None:
        """Let every receiver do what is due."""
        now_s = time.monotonic()
        for receiver in self.receivers():
            receiver.tick(now_s)

    def _notice(self, record: Inbound) -> None:
        seq = int(record.headers.get(SEQ, b"0"))
        self._flow.notice(seq, active=bool(record.document.get("active", True)))
