"""One connection as a state machine without a socket: bytes in (`receive`), bytes out (`output`).

    ENTERING -> OPEN -> LEAVING -> CLOSING -> CLOSED
       |          |
       |          channels, heartbeats
       the handshake: see `handshake.py`

What is wrong with a connection ends it with RabbitMQ's code and text; before the client is let in
and limits are agreed, in silence, after a while. It leaves when all that its
channels have asked for is answered; what comes meanwhile is ignored. After `connection.close` was
sent, everything but its answer is ignored. The driver (`server.py`) moves the bytes, calls `check`
when `next_check_s` is reached, and closes the socket when the state is CLOSED.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Protocol

from streaming.amqp import methods as m
from streaming.amqp.buffers import Early, Output
from streaming.amqp.channel import Channel
from streaming.amqp.content import PublishMethods, no_method
from streaming.amqp.entries import Ask, Then
from streaming.amqp.errors import (
    CHANNEL_ERROR,
    CONNECTION_FORCED,
    NOT_ALLOWED,
    AmqpError,
    error,
    reply_text,
)
from streaming.amqp.frame_errors import unexpected_frame, unknown_frame
from streaming.amqp.frames import (
    BODY,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    MIN_FRAME_SIZE,
    PUBLISH,
    Frame,
    FrameReader,
    Published,
    Unit,
    apart,
    frame,
    is_known,
)
from streaming.amqp.handshake import PROTOCOL_HEADER, Doorkeeper, Handshake, Stage
from streaming.amqp.heartbeats import Heartbeats
from streaming.amqp.login import Client, User
from streaming.amqp.method_codec import ids_in, read_method, write_method
from streaming.amqp.publishing import PUBLISH_METHOD
from streaming.amqp.reply_to import ReplyConsumers
from streaming.amqp.requests import ACK_METHOD
from streaming.amqp.vhosts import AnswerListener, OpenVhost
from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.outbound import AnswerOut

HANDSHAKE_TIMEOUT_S: Final = 10

CLOSE_TIMEOUT_S: Final = 30
"""How long a client may take to answer `connection.close`; less if its heartbeats come faster."""

SILENCE_S: Final = 3
"""How long a client waits for the end of its connection that it cannot be trusted with any more."""

MAX_PARKED_BYTES: Final = 1 << 20
"""Frames that wait until the broker has answered one before them; then the client is not read."""

FRAME_OVERHEAD: Final = 128
"""What a frame takes in memory besides its bytes."""

TURN_S: Final = 0.005
"""For how long a connection is served at a time; what else it has sent waits for its next turn."""


class State(Enum):
    """How far a connection has come."""

    ENTERING = auto()
    OPEN = auto()
    LEAVING = auto()
    CLOSING = auto()
    CLOSED = auto()


class Host(Doorkeeper, Protocol):
    """The server of a connection."""

    def open_channel(self, user: User) -> None:
        """Let a user open one more channel; AmqpError 530 if it may not."""

    def has_news(self, connection: "Connection") -> None:
        """Note that a connection has something to send."""

    def has_more(self, connection: "Connection") -> None:
        """Note that a turn ended before all is done: call `next_turn` when others had theirs."""


class Connection:
    """The server's side of one connection.

    Args:
        name: as RabbitMQ names it: `127.0.0.1:50000 -> 127.0.0.1:5672`; see `OpenVhost.enter`.
        now_s: a clock that never goes back, in seconds.

    Attributes:
        output: what is to be sent; see `take_output`.
        handshake: who the client is, and what was agreed with it.
        frame_max: the largest frame that both sides take, in bytes.
        publishes: whether it has published anything: such connections may be blocked.
        blocked_by: why publishers are blocked; None if they are not.
        bytes_received, times_received: since it was opened, and in how many pieces.
        next_check_s: when `check` is due.
    """

    def __init__(self, name: str, host: Host, client: Client, now_s: Callable[[], float]) -> None:
        self.name = name
        self.state = State.ENTERING
        self.handshake = Handshake(host, client)
        self.output = Output(lambda: host.has_news(self))
        self.frame_max = self.handshake.limits.frame_max
        self.hears_cancels = False
        self.user = ""
        self.impersonates = False
        self.publishes = False
        self.bytes_received = self.times_received = 0
        self.vhost: OpenVhost | None = None
        self.channels: dict[int, Channel] = {}
        self.connected_at_s = now_s()
        self._heartbeats = Heartbeats(now_s)
        self.next_check_s = self.connected_at_s + HANDSHAKE_TIMEOUT_S
        self._host = host
        self._now_s = now_s
        self._reader = FrameReader(MIN_FRAME_SIZE)  # until it is negotiated
        self._publishes = PublishMethods()
        self._replies: ReplyConsumers | None = None
        self.blocked_by: str | None = None
        self._is_told_blocked = False
        self._is_deaf = False  # what comes is thrown away
        self._acking: list[Channel] = []  # they may have acks that wait for the end of the turn
        self._resumes = False
        self._left: Callable[[], None] | None = None
        self._parked_bytes = 0
        self._early = Early(self.output)
        self._awaits_turn = False

    @property
    def must_read_first(self) -> bool:
        """Whether it has sent so much without reading that no more may be read from it."""
        return self._early.is_too_much

    @property
    def is_crowded(self) -> bool:
        """Whether so many of its frames wait for the broker that no more may be read."""
        vhost = self.vhost
        return self._parked_bytes > MAX_PARKED_BYTES or (vhost is not None and vhost.is_full)

    @property
    def heartbeat_s(self) -> int:
        """How often each side is to be heard of; 0 for no heartbeats."""
        return self.handshake.limits.heartbeat_s

    @property
    def is_closed(self) -> bool:
        """Whether there is nothing left to say: the driver closes the socket."""
        return self.state is State.CLOSED

    # -- bytes

    def receive(self, data: bytes) -> None:
        """Take bytes from the client, cut anywhere."""
        self._heartbeats.heard()
        self.bytes_received += len(data)
        self.times_received += 1
        if self.handshake.stage is Stage.HEADER:
            data = self._take_header(data)
        if self._is_deaf or self.is_closed or not data:
            return
        reader = self._reader
        units = reader.feed_joined(data)
        self._is_deaf = reader.broken is not None
        early = self._early
        if early.units or (units and self.output.waiting_bytes > early.most_waiting):
            early.add(units, len(data))
        else:
            self._take(units, len(data))

    def _take(self, units: list[Unit], size: int) -> None:
        broken, early = self._reader.broken, self._early
        try:
            left = self._units(units)
            if left:
                early.add(left, size)
            if broken is not None and not early.units:
                raise broken
        except AmqpError as failure:
            self.fail(failure, failure.method)
        self._finish()

    def next_turn(self) -> None:
        """Take more of what came before the last turn was over; others have had theirs."""
        self._awaits_turn = False
        self.is_heard()
        self.go_on()

    def go_on(self) -> None:
        """Take what came while too much waited to be sent; the driver has sent it."""
        if self._awaits_turn:
            return
        units = self._early.take_due()
        if units:
            self._take(units, 0)
            self._early.settle()

    def _finish(self) -> None:
        """Pass on what the frames have asked for, and what came of it."""
        acking, self._acking = self._acking, []
        for channel in acking:
            channel.turn_ended()
        if self.vhost is not None:
            self.vhost.flush()

    def resume(self, number: int, frames: list[Frame]) -> None:
        """See `Peer`."""
        self._resumes = True
        if self._parked_bytes:
            parked = [each for channel in self.channels.values() for each in channel.parked or ()]
            self._parked_bytes = sum(len(payload) + FRAME_OVERHEAD for _, _, payload in parked)
        was_open = self.state is State.OPEN
        try:
            for each in frames:
                self._frame(each)
                if was_open and self.state is not State.OPEN:
                    break  # this one has ended the connection: those behind it count no more
        except AmqpError as failure:
            self.fail(failure, failure.method)
        finally:
            self._resumes = False
        channel = self.channels.get(number)
        if channel is not None:
            channel.turn_ended()

    def take_output(self, most: int | None = None) -> bytes:
        """Remove and return what is to be sent; see `Output.take`."""
        for number in self.output.take_confirming():
            channel = self.channels.get(number)
            if channel is not None:
                channel.send_confirms()
        data = self.output.take(most)
        if data:
            self._heartbeats.spoke()
        return data

    # -- frames

    def _take_header(self, data: bytes) -> bytes:
        """Take the protocol header; return what follows it."""
        start, rest = self.handshake.take_header(data)
        if start is not None:
            self._send(start)
        elif self.handshake.stage is Stage.REFUSED:
            self.output.send(PROTOCOL_HEADER)
            self.state = State.CLOSED
        return rest

    def _units(self, units: list[Unit]) -> list[Unit]:
        """Take frames; return those that came too early, or are for the next turn."""
        channels, opened, output, early = self.channels, State.OPEN, self.output, self._early
        now_s = self._now_s
        ends_at_s = now_s() + TURN_S
        is_first = True
        left = iter(units)
        for unit in left:
            if is_first:
                is_first = False
            elif now_s() > ends_at_s:
                self._awaits_turn = True
                self._host.has_more(self)
                return [unit, *left]
            if isinstance(unit, tuple):
                if output.waiting_bytes > early.most_waiting:
                    return [unit, *left]
                self._frame(unit)
                continue
            channel = channels.get(unit.channel)
            if channel is None or not channel.flows or self.state is not opened:
                self._take_apart(unit)
            elif isinstance(unit, Published):
                if not self.publishes:
                    self._publish_first()
                try:
                    method = self._publishes.read(unit.method)
                    channel.publish(method, unit.properties, unit.body)
                except AmqpError as failure:
                    channel.fail(failure, PUBLISH_METHOD)
            elif channel.settles_now:
                self._acking.append(channel)
                try:
                    channel.ack(unit.first, unit.last)
                except AmqpError as failure:
                    channel.fail(failure, PUBLISH_METHOD if channel.expects_content else ACK_METHOD)
            else:
                self._take_apart(unit)
        return []

    def _take_apart(self, unit: Unit) -> None:
        for each in apart(unit):
            self._frame(each)

    def _frame(self, each: Frame) -> None:
        kind, number, payload = each
        if self.state is not State.OPEN and not self._is_expected(kind, number, payload):
            return
        if not is_known(kind, payload):
            raise unknown_frame(kind, payload)
        if kind == HEARTBEAT or number == 0:
            if kind == METHOD:
                self._connection_method(_read_on_connection(payload))
            elif number or kind != HEARTBEAT:
                raise unexpected_frame(kind, payload)
            return
        channel = self.channels.get(number)
        if channel is None:
            self._first_frame(kind, number, payload)
        elif channel.flows:
            self._channel_frame(channel, kind, payload)
        elif channel.parked is not None:
            channel.parked.append(each)
            self._parked_bytes += len(payload) + FRAME_OVERHEAD
        else:
            self._closing_channel(channel, kind, payload)

    def _is_expected(self, kind: int, number: int, payload: bytes) -> bool:
        """Whether a frame is to be taken although the connection is not open."""
        match self.state:
            case State.CLOSED:
                return False
            case State.CLOSING:
                if kind == METHOD and number == 0:
                    self._closing_method(payload)
                return False
            case State.LEAVING:
                return self._resumes
        if number:
            raise unexpected_frame(kind, payload)
        return True

    def _channel_frame(self, channel: Channel, kind: int, payload: bytes) -> None:
        if channel.expects_content or (kind == METHOD and payload[:4] == PUBLISH):
            method = PUBLISH_METHOD
        else:
            method = ids_in(payload) if kind == METHOD else (0, 0)
        try:
            if kind == BODY:
                channel.content_body(payload)
            elif kind == HEADER:
                channel.content_header(payload)
            elif payload[:4] == PUBLISH:
                if not self.publishes:
                    self._publish_first()
                channel.publish_method(self._publishes.read(payload))
            else:
                found = read_method(payload)
                if channel.must_wait(found):
                    channel.park([(kind, channel.number, payload)])
                elif channel.flows:
                    channel.method(found)
                else:  # an ack before it was refused
                    self._closing_channel(channel, kind, payload)
        except AmqpError as failure:
            channel.fail(failure, method)

    def _first_frame(self, kind: int, number: int, payload: bytes) -> None:
        """Open a channel; nothing else may come first."""
        if kind != METHOD:
            raise no_method()
        try:
            if not isinstance(read_method(payload), m.ChannelOpen):
                raise error(CHANNEL_ERROR, "expected 'channel.open'")
        except AmqpError as failure:
            failure.method = ids_in(payload)
            raise
        channel_max = self.handshake.limits.channel_max
        if len(self.channels) >= channel_max:
            raise error(
                NOT_ALLOWED,
                f"number of channels opened ({len(self.channels)}) has reached the negotiated "
                f"channel_max ({channel_max})",
            )
        self._host.open_channel(self.handshake.user)
        assert self.vhost is not None, "an open connection has a vhost"
        assert self._replies is not None, "the same"
        self.channels[number] = Channel(
            number, f"{self.name} ({number})", self.name, self, self.vhost, self._replies
        )

    def _closing_channel(self, channel: Channel, kind: int, payload: bytes) -> None:
        """Ignore everything on a channel that is closing, until the client agrees."""
        if kind != METHOD:
            return
        ids = payload[:4]
        if ids == b"\x00\x14\x00\x29":
            del self.channels[channel.number]
        elif ids == b"\x00\x14\x00\x0a":
            self.fail(error(CHANNEL_ERROR, "second 'channel.open' seen"), m.ChannelOpen.ids)
        elif ids == b"\x00\x14\x00\x28":
            self.output.send(frame(METHOD, channel.number, write_method(m.ChannelCloseOk())))

    # -- the connection itself

    def _connection_method(self, method: m.Method) -> None:
        match method, self.state:
            case _, State.ENTERING if self.handshake.expects(method):
                self._enter(method)
            case m.ConnectionClose(), (State.OPEN | State.LEAVING):
                self._conclude(self._agree_to_close)
            case m.ConnectionUpdateSecret(), State.OPEN:
                self._send(m.ConnectionUpdateSecretOk())
            case _:
                state = "opening" if self.state is State.ENTERING else "running"
                text = f"unexpected method in connection state {state}"
                self.fail(error(CHANNEL_ERROR, text), method.ids)

    def _enter(self, method: m.Method) -> None:
        """Go a step on into the server."""
        handshake = self.handshake
        answer = handshake.take(method)
        self.user = handshake.user.name
        if handshake.stage is Stage.OPENING:
            self.frame_max = self._reader.max_size = handshake.limits.frame_max
        if handshake.opened is not None:
            self.vhost, self._replies = handshake.opened
            self.name = self.vhost.enter(self.name)
            self.impersonates = handshake.user.impersonates
            self.hears_cancels = handshake.has_capability("consumer_cancel_notify")
            self.state = State.OPEN
            self._heartbeats.interval_s = handshake.limits.heartbeat_s
            self.next_check_s = self._heartbeats.next_s()
        if answer is not None:
            self._send(answer)
        if handshake.stage is Stage.REFUSED:
            self._await_the_end(SILENCE_S)

    def _closing_method(self, payload: bytes) -> None:
        ids = payload[:4]
        if ids == b"\x00\x0a\x00\x33":
            self.state = State.CLOSED
        elif ids == b"\x00\x0a\x00\x32":
            self._send(m.ConnectionCloseOk())

    def fail(self, failure: AmqpError, method: tuple[int, int] = (0, 0)) -> None:
        """End the connection because of an error, behind all that its channels have asked for."""
        match self.state:
            case State.OPEN:
                self._conclude(lambda: self.end(failure, method))
            case State.ENTERING if not self.handshake.is_agreed:
                self._is_deaf = True
                self._await_the_end(SILENCE_S)
            case _:
                self.end(failure, method)

    def _await_the_end(self, most_s: float) -> None:
        """Ignore all but the client's close or its answer to ours, but not for long.

        It is read nevertheless: a socket that is closed before all is read is reset, and the client
        may lose what it was sent.
        """
        self.state = State.CLOSING
        self.publishes = False
        self._parked_bytes = 0
        self.next_check_s = self._now_s() + most_s

    def end(self, failure: AmqpError, method: tuple[int, int] = (0, 0)) -> None:
        """End the connection because of an error now, and tell the client why."""
        if self.state in {State.CLOSING, State.CLOSED}:
            return
        self._leave()
        told = method if failure.names_method else (0, 0)
        self._send(m.ConnectionClose(failure.code, reply_text(failure.text), *told))
        self._await_the_end(SILENCE_S if self._is_deaf else self._close_timeout_s)

    @property
    def _close_timeout_s(self) -> float:
        return min(self.heartbeat_s or CLOSE_TIMEOUT_S, CLOSE_TIMEOUT_S)

    def _conclude(self, left: Callable[[], None]) -> None:
        """Take nothing more; do something when all that was asked for is answered."""
        if self.vhost is None:
            left()
            return
        self.state = State.LEAVING
        self.next_check_s = self._now_s() + CLOSE_TIMEOUT_S
        self._left = left
        for channel in self.channels.values():
            channel.turn_ended()
        self._conclude_later()

    def _conclude_later(self) -> None:
        if self.vhost is not None:
            self.vhost.submit(Then(self._all_applied))

    def _all_applied(self) -> None:
        if self.state is not State.LEAVING or self._left is None:
            return
        if all(channel.is_settled() for channel in list(self.channels.values())):
            left, self._left = self._left, None
            left()
        else:  # frames that had waited ask for more
            self._conclude_later()

    def _agree_to_close(self) -> None:
        """Close because the client wants it."""
        if self.vhost is None:
            self._closed()
        else:
            self.vhost.listen(self.name, AnswerListener(self._has_left))
            self.vhost.submit(self._ending())

    def _has_left(self, _out: AnswerOut) -> None:
        """Agree to close: the vhost has closed the connection."""
        if self.vhost is not None:
            self.vhost.forget(self.name)
            self._forget_channels()
            self.vhost.depart(self.name)
            self.vhost = None
            self._closed()

    def _closed(self) -> None:
        """Agree; the client ends the connection."""
        self._send(m.ConnectionCloseOk())
        self._await_the_end(self._close_timeout_s)

    def shut_down(self, reason: str) -> None:
        """End the connection because the server ends."""
        if self.state in {State.OPEN, State.LEAVING}:
            self.end(error(CONNECTION_FORCED, reason))
        elif self.state is not State.CLOSING:
            self.state = State.CLOSED

    def lost(self) -> None:
        """Note that the connection is gone."""
        self._early.units.clear()
        self._leave()
        self.state = State.CLOSED

    def _leave(self) -> None:
        """End the connection in the broker: its channels close, its exclusive queues go."""
        self._forget_channels()
        if self.vhost is not None:
            self.vhost.forget(self.name)
            self.vhost.submit(self._ending())
            self.vhost.depart(self.name)
            self.vhost = None

    def _forget_channels(self) -> None:
        for channel in self.channels.values():
            channel.forget()
        self.channels.clear()

    def _ending(self) -> Ask:
        ending = commands.CloseConnection(connection=self.name)
        return Ask(Actor(self.user, self.name), ending)

    def channel_closed(self, number: int) -> None:
        """See `Peer`."""
        self.channels.pop(number, None)

    def unread(self, *, unread: bool) -> None:
        """Note that the server cannot read the client now: its heartbeats cannot be seen."""
        self._heartbeats.unread(unread=unread)

    def is_heard(self) -> None:
        """Note that the client does something."""
        self._heartbeats.heard()

    def hold(self, *, held: bool) -> None:
        """Hand out nothing, and do nothing, while the client does not read what it was sent."""
        self._early.hold(held=held)
        for channel in list(self.channels.values()):
            channel.hold(held=held)

    def block(self, reason: str | None) -> None:
        """Note that publishers are blocked, and tell a client that publishes; None: no more."""
        self.blocked_by = reason
        is_blocked = reason is not None and self.publishes
        if is_blocked == self._is_told_blocked or self.state is not State.OPEN:
            return
        self._is_told_blocked = is_blocked
        if self.handshake.has_capability("connection.blocked"):
            self._send(m.ConnectionUnblocked() if reason is None else m.ConnectionBlocked(reason))

    def _publish_first(self) -> None:
        self.publishes = True
        self.block(self.blocked_by)

    # -- time

    def check(self) -> None:
        """Send a heartbeat, or give up a client that is silent; see `next_check_s`."""
        if self.state in {State.CLOSING, State.CLOSED}:
            self.state = State.CLOSED
            return
        if self.state is State.LEAVING:
            self.lost()
            return
        if self.state is not State.OPEN:
            if self._now_s() >= self.connected_at_s + HANDSHAKE_TIMEOUT_S:
                self.lost()
            return
        if self._heartbeats.is_silent():
            self.lost()
            return
        if self._heartbeats.is_due():
            self.output.send(HEARTBEAT_FRAME)
        self.next_check_s = self._heartbeats.next_s()

    def _send(self, method: m.Method) -> None:
        self.output.send(frame(METHOD, 0, write_method(method)))


def _read_on_connection(payload: bytes) -> m.Method:
    """Read a method of channel 0; an error names it in any case."""
    try:
        return read_method(payload)
    except AmqpError as failure:
        failure.method, failure.names_method = ids_in(payload), True
        raise
