"""The AMQP server on asyncio: sockets around the state machines of `connection.py`.

Bytes of a client are handled as they come, in one turn: read, decide, write. What the turn means
for other clients is written in the same turn. A client that does not read its socket is not read
either, and gets no further deliveries until it does.
"""

import asyncio
import contextlib
import ssl
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Final, cast

from streaming.amqp.certificate_files import TlsFiles
from streaming.amqp.certificates import CertificateName, user_in
from streaming.amqp.connection import CLOSE_TIMEOUT_S, Connection, State
from streaming.amqp.errors import CONNECTION_FORCED, NOT_ALLOWED, AmqpError, error
from streaming.amqp.login import Client, User, Users
from streaming.amqp.reply_to import ReplyConsumers
from streaming.amqp.server_properties import server_properties
from streaming.amqp.vhosts import OpenVhost
from streaming.listening import (
    EVERY_ADDRESS,
    LOCALHOST,
    LOCALHOST_6,
    host_and_port,
    is_loopback,
    listen_everywhere,
)
from streaming.machine_memory import detect_memory, this_machine
from topology.limits import (
    UserLimits,
    refuse_connection,
    refuse_user_channel,
    refuse_user_connection,
)

SHUTDOWN: Final = "broker forced connection closure with reason 'shutdown'"
TLS_HANDSHAKE_TIMEOUT_S: Final = 5.0
_CHECK_EVERY_S: Final = 0.5
_CLOSING_S: Final = 1.0
_WRITE_BUFFER: Final = 1 << 20
_HIGH_MARK: Final = 0.4
"""RabbitMQ's vm_memory_high_watermark, by default."""

LOW_ON_MEMORY: Final = "low on memory"
"""Why publishers have to wait when messages are above the mark."""


class Server:
    """Connections, and the vhosts they open.

    Args:
        vhosts: by name; more may be added, and any deleted, while the server runs.
        may_open: whether a user may open a vhost.
        login_from: what names the user in a client's certificate; None: none are asked for.
        high_mark_bytes: when resident messages are larger, publishing connections are not read.
            None: 0.4 of the machine's memory, as RabbitMQ has it for classic queues in memory.
        low_mark_fraction: they are read again below this part of it.

    Attributes:
        vhosts, replies: by name.
        elsewhere: vhosts that are served here or by another front: a client may try that.
        opened: are called with each vhost that is added.
        connections: the open ones, and those that log in.
        high_mark_bytes: beyond this, publishers wait.
        is_blocked: whether publishing connections are not read now.
        is_stopping: whether no connection is read any more.
        pressure: why publishing connections must not be read, besides memory; None if they may.
        follows_wall_clock: whether timers are set; else a test moves time.
        bytes_received, bytes_sent: over all connections, since the start.
        blocked_by: why publishing connections are not read; None if they are.
        connections_opened, connections_closed: those that have opened a vhost.
        tls_files: what TLS needs, where it listens with it.
        logins, refused_logins: how many clients have tried, and how many were not let in.
    """

    def __init__(
        self,
        vhosts: dict[str, OpenVhost],
        users: Users,
        may_open: Callable[[User, str], bool],
        *,
        login_from: CertificateName | None = None,
        high_mark_bytes: int | None = None,
        low_mark_fraction: float = 0.8,
    ) -> None:
        self.vhosts = vhosts
        self.replies = {name: ReplyConsumers() for name in vhosts}
        self.elsewhere: Collection[str] = ()
        self.opened: list[Callable[[OpenVhost], None]] = []
        self.users = users
        self.login_from = login_from
        self.server_properties = server_properties()
        self.connections: dict[Connection, _Socket] = {}
        self.is_blocked = self._is_low_on_memory = False
        self.is_stopping = False
        self.pressure: Callable[[], str | None] = lambda: None
        self.high_mark_bytes = high_mark_bytes or _default_mark_bytes()
        self._low_mark_fraction = low_mark_fraction
        self.crowded: set[_Socket] = set()  # not read, because much of theirs waits for the broker
        self._may_open = may_open
        self._news: list[Connection] = []
        self._waiting: deque[Connection] = deque()  # each has more to do in a turn of its own
        self._listeners: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._checks: asyncio.Task[None] | None = None
        self._none_left = asyncio.Event()
        self.follows_wall_clock = True
        self.bytes_received = self.bytes_sent = 0
        self.connections_opened = self.connections_closed = 0
        self.logins = self.refused_logins = 0
        self.tls_files: TlsFiles | None = None
        self.blocked_by: str | None = None

    def add_vhost(self, vhost: OpenVhost) -> None:
        """Let clients open one more vhost."""
        self.vhosts[vhost.name] = vhost
        self.replies[vhost.name] = ReplyConsumers()
        for opened in self.opened:
            opened(vhost)

    def delete_vhost(self, name: str) -> None:
        """Delete a vhost with everything in it; its connections end.

        They hear nothing else before: messages of one do not go to another meanwhile.

        Raises:
            KeyError: there is no such vhost.
        """
        vhost = self.vhosts.pop(name)
        del self.replies[name]
        vhost.fall_silent()
        for connection in list(self.connections):
            if connection.vhost is vhost:
                connection.end(error(CONNECTION_FORCED, f"vhost '{name}' is deleted"))
        self.turn_ended()

    # -- for connections

    def login(self, mechanism: str, response: bytes, client: Client) -> User:
        """See `Host`."""
        self.logins += 1
        try:
            return self.users.login(mechanism, response, client)
        except AmqpError:
            self.refused_logins += 1
            raise

    def open_vhost(self, name: str, user: User) -> tuple[OpenVhost, ReplyConsumers]:
        """See `Host`."""
        vhost = self.vhosts.get(name)
        if vhost is None and name in self.elsewhere:
            raise error(CONNECTION_FORCED, f"vhost '{name}' is served by another front now")
        if vhost is None:
            raise error(NOT_ALLOWED, f"vhost {name} not found")
        if not self._may_open(user, name):
            text = f"access to vhost '{name}' refused for user '{user.name}'"
            raise error(NOT_ALLOWED, text)
        limits, own = vhost.shard.vhost.limits, self._limits_of(user)
        if limits.max_connections is not None or own.max_connections is not None:
            here = [one for one in self.connections if one.vhost is vhost]
            mine = [one for one in self.connections if one.vhost and one.user == user.name]
            refusal = refuse_connection(
                limits, len(here), user.name, name
            ) or refuse_user_connection(own, len(mine), user.name)
            if refusal is not None:
                raise AmqpError(refusal.code, refusal.text)
        self.connections_opened += 1
        return vhost, self.replies[name]

    def open_channel(self, user: User) -> None:
        """See `Host`."""
        limits = self._limits_of(user)
        if limits.max_channels is None:
            return
        mine = [one for one in self.connections if one.user == user.name]
        channels = sum(len(one.channels) for one in mine)
        refusal = refuse_user_channel(limits, channels, user.name)
        if refusal is not None:
            raise AmqpError(refusal.code, refusal.text)

    def _limits_of(self, user: User) -> UserLimits:
        """The limits of a user now, whenever it has logged in."""
        return self.users.by_name.get(user.name, user).limits

    def has_news(self, connection: Connection) -> None:
        """See `Host`."""
        self._news.append(connection)

    def has_more(self, connection: Connection) -> None:
        """See `Host`. One of them has a turn, then sockets and timers have theirs."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._waiting.append(connection)

    def _next_turn(self) -> None:
        connection = self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next_turn)
        socket = self.connections.get(connection)
        if socket is not None:
            connection.next_turn()
            self.turn_ended()
            socket.took_turn()

    def gone(self, connection: Connection) -> None:
        """Forget a connection whose socket is closed."""
        del self.connections[connection]
        self.connections_closed += connection.handshake.opened is not None
        if not self.connections:
            self._none_left.set()
        self.turn_ended()

    # -- turns

    def turn_ended(self) -> None:
        """Write what a turn has to say to anyone, and set the timer for what time does next."""
        while self._news:
            news, self._news = self._news, []
            for connection in news:
                socket = self.connections.get(connection)
                if socket is None:
                    connection.take_output()
                else:
                    socket.send_output()
        for socket in list(self.crowded):
            socket.read_or_wait()
        if self.follows_wall_clock:
            self._set_timer()

    def advance(self) -> None:
        """Let time pass in all vhosts."""
        for vhost in self.vhosts.values():
            vhost.advance()
        self.turn_ended()

    def next_deadline_ms(self) -> int | None:
        """When time does something next in any vhost, epoch milliseconds; None for never."""
        due = [vhost.next_deadline_ms() for vhost in self.vhosts.values()]
        return min([each for each in due if each is not None], default=None)

    def _set_timer(self) -> None:
        due_ms = self.next_deadline_ms()
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms is not None:
            delay_s = max(0.0, due_ms / 1000 - time.time())
            self._timer = asyncio.get_running_loop().call_later(min(delay_s, 86_400), self._due)

    def _due(self) -> None:
        self._timer = self._timer_ms = None
        self.advance()

    # -- listening

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on an address; return the port, which the system chooses if it is 0.

        Beside 127.0.0.1, also on ::1 if it can: some clients look for `localhost` only there. The
        address :: is all of the machine, those of IPv4 too.

        Raises:
            OSError: the address cannot be used.
        """
        port = await self._listen(host, port, tls)
        if host == LOCALHOST:
            with contextlib.suppress(OSError):
                await self._listen(LOCALHOST_6, port, tls)
        return port

    async def _listen(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        loop = asyncio.get_running_loop()
        where: dict[str, Any] = {"host": host, "port": port}
        if host == EVERY_ADDRESS:  # asyncio would leave out those of IPv4
            where = {"sock": listen_everywhere(port)}
        listener = await loop.create_server(
            lambda: _Socket(self),
            **where,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else TLS_HANDSHAKE_TIMEOUT_S,
            backlog=1024,
        )
        self._listeners.append(listener)
        if self._checks is None:
            self._checks = loop.create_task(self._check_connections())
        return int(listener.sockets[0].getsockname()[1])

    async def _check_connections(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            now_s = time.monotonic()
            for connection, socket in list(self.connections.items()):
                if connection.next_check_s <= now_s:
                    socket.check()
            self.check_flow()
            self.turn_ended()

    def check_flow(self) -> None:
        """Stop or resume reading from connections that publish."""
        vhosts = self.vhosts.values()
        resident = sum(each.resident_bytes + each.uncommitted_bytes for each in vhosts)
        resident += sum(connection.output.waiting_bytes for connection in self.connections)
        mark = self.high_mark_bytes * (self._low_mark_fraction if self._is_low_on_memory else 1)
        self._is_low_on_memory = resident > mark
        reason = self.pressure()  # is asked in any case: it has marks of its own
        if self._is_low_on_memory:
            reason = LOW_ON_MEMORY
        blocked, self.blocked_by = reason is not None, reason
        if blocked == self.is_blocked:
            return
        self.is_blocked = blocked
        for connection, socket in self.connections.items():
            connection.block(reason)
            socket.read_or_wait()

    def remove_vhost(self, name: str, reason: str) -> None:
        """End the connections that have a vhost open, and let no other open it."""
        vhost = self.vhosts.pop(name)
        del self.replies[name]
        for connection, socket in list(self.connections.items()):
            if connection.vhost is vhost:
                connection.shut_down(reason)
                socket.settle()
        self.turn_ended()

    def stop_listening(self) -> None:
        """Take no further connections, and read nothing more from those that are open."""
        for listener in self._listeners:
            listener.close()
        self.is_stopping = True
        for socket in self.connections.values():
            socket.read_or_wait()

    async def close(self, reason: str = SHUTDOWN) -> None:
        """Tell all clients that the server ends, and stop listening."""
        self.stop_listening()
        if self._checks is not None:
            self._checks.cancel()
        if self._timer is not None:
            self._timer.cancel()
        await self.close_connections(reason)

    async def close_connections(self, reason: str = SHUTDOWN) -> None:
        """Tell all clients that the server ends, and close their sockets."""
        for connection, socket in list(self.connections.items()):
            connection.shut_down(reason)
            socket.settle()
        self.turn_ended()
        for socket in list(self.connections.values()):
            socket.close()
        if self.connections:
            self._none_left.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._none_left.wait(), _CLOSING_S)
            for socket in list(self.connections.values()):
                socket.abort()

    @property
    def is_writing(self) -> bool:
        """Whether anything is on its way to a client."""
        return any(socket.buffered_bytes for socket in self.connections.values())


class _Socket(asyncio.Protocol):
    """The socket of one connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._connection: Connection | None = None
        self._must_drain = False
        self._waits = False
        self._is_unread = False
        self._closes = False
        self._abort: asyncio.TimerHandle | None = None
        self._written = self._taken = 0  # bytes: by us, by the network

    def connection_made(self, base: asyncio.BaseTransport) -> None:
        transport = self._transport = cast("asyncio.Transport", base)  # uvloop's is not one by type
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        peer = transport.get_extra_info("peername") or ("", 0)
        here = transport.get_extra_info("sockname") or ("", 0)
        name = f"{host_and_port(*peer[:2])} -> {host_and_port(*here[:2])}"
        client = Client(
            is_loopback=is_loopback(str(peer[0])),
            certificate_name=user_in(
                transport.get_extra_info("peercert"), self._server.login_from or "common_name"
            ),
            address=host_and_port(*peer[:2]),
            tls=transport.get_extra_info("ssl_object"),
        )
        self._connection = Connection(name, self._server, client, time.monotonic)
        self._connection.blocked_by = self._server.blocked_by
        self._server.connections[self._connection] = self

    def data_received(self, data: bytes) -> None:
        connection = self._connection
        assert connection is not None, "a connection is made before data arrives"
        self._server.bytes_received += len(data)
        connection.receive(data)
        self._server.turn_ended()
        self.took_turn()

    def took_turn(self) -> None:
        """Read on or not, or close, after the connection has done something."""
        connection = self._connection
        assert connection is not None, "a connection is made first"
        must_wait = connection.is_crowded or connection.must_read_first
        if self._waits or self._server.is_blocked or must_wait:
            self.read_or_wait()
        if connection.state is State.CLOSED:
            self.close()

    def connection_lost(self, _error: Exception | None) -> None:
        connection = self._connection
        assert connection is not None, "a connection is made before it is lost"
        if self._abort is not None:
            self._abort.cancel()
        connection.lost()
        self._server.crowded.discard(self)
        self._server.gone(connection)

    def pause_writing(self) -> None:
        assert self._connection is not None, "a connection is made first"
        self._must_drain = True
        self._connection.hold(held=True)

    def resume_writing(self) -> None:
        assert self._connection is not None, "a connection is made first"
        self._must_drain = False
        self.send_output()
        if not self._must_drain:
            self._connection.hold(held=False)
            self._connection.go_on()
        self._server.turn_ended()
        self.read_or_wait()

    def read_or_wait(self) -> None:
        """Read the client, unless it must read first, or publishes while memory is short."""
        connection, transport = self._connection, self._transport
        if connection is None or transport is None or transport.is_closing():
            return
        server = self._server
        unread = server.is_stopping or (server.is_blocked and connection.publishes)
        if connection.is_crowded:
            unread = True
            server.crowded.add(self)
        else:
            server.crowded.discard(self)
        if unread != self._is_unread:
            self._is_unread = unread
            connection.unread(unread=unread)
        waits = unread or connection.must_read_first
        if waits == self._waits:
            return
        self._waits = waits
        if waits:
            transport.pause_reading()
        else:
            transport.resume_reading()

    @property
    def buffered_bytes(self) -> int:
        """How many bytes wait for the client to read."""
        if self._transport is None or self._connection is None:
            return 0
        return self._transport.get_write_buffer_size() + self._connection.output.waiting_bytes

    def send_output(self) -> None:
        """Send what its connection has to say, as far as the client reads; then it goes on."""
        connection = self._connection
        assert connection is not None, "a connection is made first"
        while not self._must_drain:
            self._write(connection.take_output(_WRITE_BUFFER))
            if not connection.output.waiting_bytes:
                break
        if connection.is_closed or self._closes:
            self.close()
            return
        connection.go_on()
        if connection.state is State.CLOSING:
            self.read_or_wait()

    def _write(self, data: bytes) -> None:
        """Send bytes, unless the socket is closing."""
        self._server.bytes_sent += len(data)
        if data and self._transport is not None and not self._transport.is_closing():
            self._written += len(data)
            self._transport.write(data)

    def check(self) -> None:
        """Let a connection do what is due; one that it gives up is not waited for."""
        connection = self._connection
        assert connection is not None, "a connection is made first"
        taken = self._written + connection.output.waiting_bytes - self.buffered_bytes
        if taken != self._taken and connection.must_read_first:
            connection.is_heard()  # it reads, so that it may be read again soon
        self._taken = taken
        connection.check()
        self.settle()
        if connection.is_closed and self.buffered_bytes:
            self.abort()

    def settle(self) -> None:
        """Close the socket if its connection has ended."""
        assert self._connection is not None, "a connection is made first"
        if self._connection.state is State.CLOSED:
            self.send_output()

    def close(self) -> None:
        """Close the socket when all is sent; the client has some time to read that."""
        connection, transport = self._connection, self._transport
        if transport is None or connection is None:
            return
        self._closes = True
        if self._abort is None:
            loop = asyncio.get_running_loop()
            self._abort = loop.call_later(CLOSE_TIMEOUT_S, transport.abort)
        if not connection.output.waiting_bytes:
            transport.close()

    def abort(self) -> None:
        """Close the socket now."""
        if self._transport is not None:
            self._transport.abort()


def _default_mark_bytes() -> int:
    return int(detect_memory(this_machine()).total_bytes * _HIGH_MARK)
