"""What a request does in a vhost, in its place among what clients do there.

Answers come when the vhost has applied what was asked: at once in memory, else when the log has it.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final, Literal, TypeVar

from streaming.amqp.entries import Ask, Publish
from streaming.amqp.outgoing import Confirms
from streaming.amqp.server import Server
from streaming.amqp.stored import Stored
from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.message import CONFIRM, MANDATORY, Publication
from streaming.broker.outbound import (
    AnswerOut,
    ConfirmOut,
    DeliveryOut,
    Outbound,
    PublishErrorOut,
    ReturnOut,
)
from streaming.management.errors import ApiError
from topology.refusals import Refusal

ANSWER_S: Final = 30.0
"""How long a request waits for the log."""

REJECTED: Final = "rejected"
"""A queue is full and rejects what is published."""

Published = bool | Literal["rejected"] | Refusal
"""What became of a message: whether a queue got it, or why none took it."""

_LOOK_S: Final = 0.5
_numbers: Final = count(1)
_T = TypeVar("_T")


async def carry_out(
    server: Server, vhost: OpenVhost, actor: Actor, command: commands.Command
) -> AnswerOut:
    """Carry out a command; return the answer."""
    heard = _Heard()
    actor = actor._replace(channel=f"{actor.channel} {next(_numbers)}")
    vhost.listen(actor.channel, heard)
    try:
        vhost.submit(Ask(actor, command))
        _turn(server, vhost)
        return await _told(server, vhost, heard.answer)
    finally:
        vhost.forget(actor.channel)


async def open_session(server: Server, vhost: OpenVhost, user: str) -> "Session":
    """Open a channel for a request of a user."""
    session = Session(server, vhost, Actor(user, f"management {next(_numbers)}"))
    await session.do(lambda channel: commands.OpenChannel(channel=channel))
    return session


async def _told(server: Server, vhost: OpenVhost, told: "asyncio.Future[_T]") -> _T:
    """What the vhost says, when it says it.

    Raises:
        ApiError: 503, it says nothing in time, or is served here no more.
    """
    deadline_s = time.monotonic() + ANSWER_S
    while not told.done():
        if server.vhosts.get(vhost.name) is not vhost:
            reason = f"vhost '{vhost.name}' is served here no more"
        elif time.monotonic() >= deadline_s:
            reason = f"Kafka has not taken it within {ANSWER_S:g} s"
        else:
            await asyncio.wait({told}, timeout=_LOOK_S)
            continue
        raise ApiError(503, "not_known", f"{reason}: it may have been done, or still be done")
    return told.result()


def _turn(server: Server, vhost: OpenVhost) -> None:
    """Tell what a request caused, to whomever it concerns."""
    vhost.flush()
    server.turn_ended()


class Session:
    """A channel of a user, for one request.

    Attributes:
        deliveries: the messages that it got.
    """

    def __init__(self, server: Server, vhost: OpenVhost, actor: Actor) -> None:
        self._server = server
        self._vhost = vhost
        self._actor = actor
        self._heard = _Heard()
        self.deliveries = self._heard.deliveries
        vhost.listen(actor.channel, self._heard, partial(self._heard.timed_out, actor))

    async def do(self, command: Callable[[str], commands.Command]) -> AnswerOut:
        """Carry out a command, which is made for the name of the channel."""
        self._heard.expect()
        self._vhost.submit(Ask(self._actor, command(self._actor.channel)))
        _turn(self._server, self._vhost)
        return await _told(self._server, self._vhost, self._heard.answer)

    async def publish(self, publication: Publication, stored: Stored) -> "Published":
        """Publish a message; whether a queue got it, or why none took it."""
        self._heard.expect()
        entry = Publish(self._actor, publication, stored, MANDATORY | CONFIRM, 0, Confirms())
        self._vhost.submit(entry)
        _turn(self._server, self._vhost)
        return await _told(self._server, self._vhost, self._heard.published)

    async def close(self) -> None:
        """Close the channel: what it holds returns to its queue."""
        self._vhost.forget(self._actor.channel)
        closing = commands.CloseChannel(channel=self._actor.channel)
        self._vhost.submit(Ask(self._actor, closing))
        _turn(self._server, self._vhost)


class _Heard:
    """What the broker says to a channel."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[DeliveryOut, Stored]] = []
        self._returned = False
        self._closed: AnswerOut | None = None
        self.expect()

    def expect(self) -> None:
        """Wait for one more answer or confirm."""
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[AnswerOut] = loop.create_future()
        if self._closed is not None:
            self.answer.set_result(self._closed)
        self.published: asyncio.Future[Published] = loop.create_future()

    def delivered(self, out: DeliveryOut, stored: Stored) -> None:
        """See `Listener`."""
        self.deliveries.append((out, stored))

    def confirmed(self, out: ConfirmOut) -> None:
        """See `Listener`."""
        if not self.published.done():
            self.published.set_result(not self._returned if out.ack else REJECTED)

    def timed_out(self, actor: Actor, timeout_ms: int) -> None:
        """Hear that the broker closed the channel, which held messages for too long."""
        text = f"PRECONDITION_FAILED - messages were held for {timeout_ms} ms, the consumer timeout"
        self._closed = AnswerOut(0, actor, "", None, {}, Refusal(406, text))
        if not self.answer.done():
            self.answer.set_result(self._closed)

    def hear(self, out: Outbound, _stored: Stored | None) -> None:
        """See `Listener`."""
        match out:
            case AnswerOut():
                if not self.answer.done():
                    self.answer.set_result(out)
            case ReturnOut():
                self._returned = True
            case PublishErrorOut():
                if not self.published.done():
                    self.published.set_result(out.refusal)
            case _:
                pass
