import asyncio
import contextlib
import socket
import ssl
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest
import trustme

from streaming.amqp import connection, consuming, server
from streaming.amqp import methods as m
from streaming.amqp.certificates import about_tls
from streaming.amqp.clocks import WallClock
from streaming.amqp.frames import (
    METHOD,
    FrameReader,
    frame,
)
from streaming.amqp.handshake import PROTOCOL_HEADER
from streaming.amqp.login import User, Users
from streaming.amqp.memory import MemoryBroker
from streaming.amqp.method_codec import read_method, write_method
from streaming.amqp.reply_to import REPLY_TO_QUEUE
from streaming.broker import commands
from streaming.listening import host_and_port
from tests.amqp_client import CAPABILITIES
from tests.delayed_broker import DelayedBroker
from topology.values import Table

LOGIN = m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US")

CLIENTS: list[Any] = []


class SocketClient:
    """A client with a real socket."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self._frames = FrameReader(0)
        self._came = []

    @classmethod
    async def connect(cls, port, tls=None, login=LOGIN, vhost="/", heartbeat=0, host="127.0.0.1"):
        name = None if tls is None else "localhost"
        client = cls(*await asyncio.open_connection(host, port, ssl=tls, server_hostname=name))
        CLIENTS.append(client)
        client.writer.write(PROTOCOL_HEADER)
        client.send(0, login)
        client.send(0, m.ConnectionTuneOk(10, 131_072, heartbeat))
        client.send(0, m.ConnectionOpen(vhost))
        client.send(1, m.ChannelOpen())
        await client.until(m.ChannelOpenOk)
        return client

    def send(self, channel, method):
        self.writer.write(frame(METHOD, channel, write_method(method)))

    def publish(self, key, body, times=1):
        method = write_method(m.BasicPublish(exchange="", routing_key=key))
        header = b"\0\x3c\0\0" + len(body).to_bytes(8) + b"\0\0"
        self.writer.write(
            (frame(METHOD, 1, method) + frame(2, 1, header) + frame(3, 1, body)) * times
        )

    async def methods(self):
        """The methods that come next; none if the server has closed the socket."""
        data = await self.reader.read(1 << 16)
        frames = self._frames.feed(data)
        return [read_method(payload) for kind, _channel, payload in frames if kind == METHOD]

    async def until(self, kind):
        """The next method of a kind; those before it are forgotten."""
        while True:
            while self._came:
                method = self._came.pop(0)
                if isinstance(method, kind):
                    return method
            self._came = await self.methods()

    async def heard(self, kind):
        """The next methods, up to one of a kind."""
        found: list[m.Method] = []
        while not any(isinstance(each, kind) for each in found):
            found += self._came or await self.methods()
            self._came = []
        return found


def serving(test, tls=None, broker=MemoryBroker, **options):
    """Run a test beside a server on a free port."""

    async def run():
        started = broker(WallClock(), **options)
        port = await started.server.listen("127.0.0.1", 0, tls)
        try:
            await asyncio.wait_for(test(started, port), 60)
        finally:
            while CLIENTS:
                CLIENTS.pop().writer.close()
            await started.server.close()

    asyncio.run(run())


def test_clients_find_it_at_each_address_of_localhost():
    hosts = ["127.0.0.1"]
    with contextlib.suppress(OSError):  # a machine may have no IPv6
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        hosts.append("::1")

    async def test(broker, port):
        for host in hosts:
            client = await SocketClient.connect(port, host=host)
            client.send(1, m.QueueDeclare(queue=host))
            await client.until(m.QueueDeclareOk)
        names = sorted(connection.name for connection in broker.server.connections)
        assert [name.rpartition(" -> ")[2] for name in names] == [
            host_and_port(host, port) for host in hosts
        ]

    serving(test)


def test_every_address_is_those_of_ipv4_too():
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")

    async def test(broker, _port):
        port = await broker.server.listen("::", 0)
        client = await SocketClient.connect(port, host="127.0.0.1")
        client.send(1, m.QueueDeclare(queue="q"))
        await client.until(m.QueueDeclareOk)

        (connection,) = broker.server.connections
        assert connection.name.startswith("127.0.0.1:")
        assert connection.name.endswith(f" -> 127.0.0.1:{port}")

    serving(test)


def test_timers_of_the_wall_clock_fire():
    async def test(_broker, port):
        client = await SocketClient.connect(port)
        arguments: Table = {
            "x-message-ttl": 20,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "b",
        }
        client.send(1, m.QueueDeclare(queue="a", arguments=arguments))
        client.send(1, m.QueueDeclare(queue="b"))
        client.send(1, m.BasicConsume(queue="b", consumer_tag="c"))
        client.publish("a", b"1")

        delivered = await client.until(m.BasicDeliver)

        assert delivered.consumer_tag == "c"

    serving(test)


@pytest.mark.parametrize("kind", ["at once", "later"])
def test_a_client_that_closes_ends_its_socket_and_what_it_still_sends_is_read(kind):
    async def test(broker, port):
        client = await SocketClient.connect(port)
        for _ in range(3):  # several threads may close a connection
            client.send(0, m.ConnectionClose())

        await client.until(m.ConnectionCloseOk)
        client.publish("q", bytes(100_000), 80)
        await client.writer.drain()
        client.send(0, m.ConnectionClose())
        await client.until(m.ConnectionCloseOk)
        client.writer.close()

        await until(lambda: not broker.server.connections)

    serving(test, broker=SlowBroker if kind == "later" else MemoryBroker)


def test_a_client_that_closes_is_read_although_publishers_are_not():
    async def test(broker, port):
        client = await SocketClient.connect(port)
        client.publish("nowhere", b"1")
        client.send(1, m.QueueDeclare(queue="q"))
        await client.until(m.QueueDeclareOk)
        [closing] = broker.server.connections
        broker.holds = True
        client.send(0, m.ConnectionClose())
        await until(lambda: closing.state is connection.State.LEAVING)
        broker.server.pressure = lambda: "a test"
        broker.server.check_flow()
        broker.holds = False
        await client.until(m.ConnectionCloseOk)
        client.writer.close()

        await until(lambda: not broker.server.connections)

    serving(test, broker=SlowBroker)


def test_a_client_that_closes_and_leaves_its_socket_open_is_let_go(monkeypatch):
    monkeypatch.setattr(connection, "CLOSE_TIMEOUT_S", 0.1)

    async def test(broker, port):
        client = await SocketClient.connect(port)
        client.send(0, m.ConnectionClose())

        assert await client.until(m.ConnectionCloseOk) == m.ConnectionCloseOk()
        assert await client.reader.read() == b""
        await until(lambda: not broker.server.connections)

    serving(test)


class SlowBroker(DelayedBroker):
    """A broker that applies what waits every few milliseconds, unless it holds that."""

    def __init__(self, clock):
        super().__init__(clock)
        self.holds = False
        asyncio.get_running_loop().call_later(0.005, self._apply)

    def _apply(self):
        if not self.holds:
            self.settle()
            self.server.turn_ended()
        asyncio.get_running_loop().call_later(0.005, self._apply)


def test_a_client_that_does_not_read_gets_no_more_and_disturbs_nobody():
    async def test(broker, port):
        slow, other = await SocketClient.connect(port), await SocketClient.connect(port)
        other.send(1, m.QueueDeclare(queue="q"))
        slow.writer.transport.pause_reading()
        slow.send(1, m.BasicConsume(queue="q", consumer_tag="slow", no_ack=True))
        for _ in range(400):
            other.publish("q", bytes(100_000))
            await other.writer.drain()
        other.send(1, m.QueueDeclare(queue="mine"))
        await other.until(m.QueueDeclareOk)
        waiting = sum(socket.buffered_bytes for socket in broker.server.connections.values())

        assert waiting < 20_000_000
        slow.writer.transport.resume_reading()
        for _ in range(400):
            await slow.until(m.BasicDeliver)

    serving(test)


def test_what_is_written_for_a_client_that_does_not_read_is_not_copied_before():
    async def test(broker, port):
        asking = await SocketClient.connect(port)
        asking.send(1, m.QueueDeclare(queue="q"))
        asking.publish("q", bytes(130_000))
        await asking.until(m.QueueDeclareOk)
        asking.writer.transport.pause_reading()
        tracemalloc.start()
        for tag in range(1, 2001):
            asking.send(1, m.BasicGet(queue="q"))
            asking.send(1, m.BasicReject(tag, requeue=True))
        [[connection, socket]] = broker.server.connections.items()
        await until(lambda: connection.bytes_received > 2000 * 40)
        await until(lambda: socket.buffered_bytes)
        _now, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert most < 20_000_000  # of 260 million
        asking.writer.transport.resume_reading()
        for tag in range(1, 2001):
            assert (await asking.until(m.BasicGetOk)).delivery_tag == tag

    serving(test)


def test_a_client_that_does_not_read_is_ended_when_no_heartbeat_comes_either(monkeypatch):
    monkeypatch.setattr(server, "_CHECK_EVERY_S", 0.05)

    async def test(broker, port):
        dead, other = (
            await SocketClient.connect(port, heartbeat=1),
            await SocketClient.connect(port),
        )
        other.send(1, m.QueueDeclare(queue="q"))
        await other.until(m.QueueDeclareOk)
        for _ in range(200):
            other.publish("q", bytes(100_000))
            await other.writer.drain()
        dead.writer.transport.pause_reading()
        dead.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
        [connection] = [one for one in broker.server.connections if one.heartbeat_s]
        await until(lambda: broker.server.connections[connection].buffered_bytes > 1 << 20)

        await until(lambda: connection not in broker.server.connections)

        other.send(1, m.QueueDeclare(queue="q", passive=True))
        assert await other.until(m.QueueDeclareOk) == m.QueueDeclareOk("q", 200, 0)

    serving(test)


def test_a_socket_that_its_client_does_not_read_is_closed_in_the_end(monkeypatch):
    monkeypatch.setattr(server, "CLOSE_TIMEOUT_S", 0.1)

    async def test(broker, port):
        client = await SocketClient.connect(port)
        client.send(1, m.QueueDeclare(queue="q"))
        for _ in range(200):
            client.publish("q", bytes(100_000))
            await client.writer.drain()
        await client.until(m.QueueDeclareOk)
        client.writer.transport.pause_reading()
        client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
        [[connection, socket]] = broker.server.connections.items()
        await until(lambda: socket.buffered_bytes > 1 << 20)

        connection.lost()
        socket.settle()

        await until(lambda: not broker.server.connections)

    serving(test)


def test_direct_replies_to_a_client_that_does_not_read_are_dropped(monkeypatch):
    monkeypatch.setattr(consuming, "MAX_REPLY_BYTES", 3_000_000)

    async def test(broker, port):
        asking, replying = await SocketClient.connect(port), await SocketClient.connect(port)
        replying.send(1, m.QueueDeclare(queue="q"))
        asking.send(1, m.BasicConsume(queue=REPLY_TO_QUEUE, no_ack=True))
        await asking.until(m.BasicConsumeOk)
        names = [one.channels[1].name for one in broker.server.connections]
        [address] = filter(None, map(broker.server.replies["/"].address_of, names))
        asking.writer.transport.pause_reading()
        for _ in range(400):
            replying.publish(address, bytes(100_000))
            await replying.writer.drain()
        replying.send(1, m.QueueDeclare(queue="q"))
        await replying.until(m.QueueDeclareOk)
        await replying.until(m.QueueDeclareOk)

        assert (
            3_000_000
            < sum(one.output.waiting_bytes for one in broker.server.connections)
            < 3_200_000
        )

    serving(test)


def test_publishers_wait_while_messages_take_too_much_memory_and_others_do_not():
    async def test(broker, port):
        publishing, consuming = await SocketClient.connect(port), await SocketClient.connect(port)
        consuming.send(1, m.QueueDeclare(queue="q"))
        await consuming.until(m.QueueDeclareOk)
        publishing.publish("q", bytes(10_000))
        publishing.send(1, m.QueueDeclare(queue="q", passive=True))
        await publishing.until(m.QueueDeclareOk)

        broker.server.check_flow()
        broker.server.turn_ended()
        blocked = await publishing.until(m.ConnectionBlocked)
        publishing.send(1, m.QueueDeclare(queue="q", passive=True))
        consuming.send(1, m.BasicGet(queue="q", no_ack=True))
        await consuming.until(m.BasicGetOk)
        broker.server.check_flow()
        broker.server.turn_ended()

        assert blocked.reason == "low on memory"
        await publishing.until(m.ConnectionUnblocked)
        await publishing.until(m.QueueDeclareOk)

    serving(test, high_mark_bytes=5000)


def test_a_client_that_publishes_first_while_publishers_wait_is_told_and_others_never_are():
    async def test(broker, port):
        filling, reading = await SocketClient.connect(port), await SocketClient.connect(port)
        filling.send(1, m.QueueDeclare(queue="q"))
        filling.publish("q", bytes(10_000))
        filling.send(1, m.QueueDeclare(queue="q", passive=True))
        await filling.until(m.QueueDeclareOk)
        await filling.until(m.QueueDeclareOk)
        broker.server.check_flow()
        broker.server.turn_ended()

        late = await SocketClient.connect(port)
        late.publish("q", b"x")
        blocked = await late.until(m.ConnectionBlocked)
        reading.send(1, m.QueuePurge(queue="q"))
        purged = await reading.heard(m.QueuePurgeOk)
        broker.server.check_flow()
        broker.server.turn_ended()
        await late.until(m.ConnectionUnblocked)
        reading.send(1, m.QueueDeclare(queue="q", passive=True))
        heard = purged + await reading.heard(m.QueueDeclareOk)

        assert blocked.reason == "low on memory"
        assert [type(each) for each in heard] == [m.QueuePurgeOk, m.QueueDeclareOk]

    serving(test, high_mark_bytes=5000)


@pytest.mark.parametrize("end", [m.TxRollback(), m.ChannelClose(), m.ConnectionClose()])
def test_publishes_that_are_not_committed_count_as_memory(end):
    async def test(broker, port):
        client, other = await SocketClient.connect(port), await SocketClient.connect(port)
        client.send(1, m.TxSelect())
        client.publish("q", bytes(10_000))
        await client.until(m.TxSelectOk)
        other.publish("q", b"1")
        other.send(1, m.QueueDeclare(queue="q"))
        await other.until(m.QueueDeclareOk)
        await until(lambda: broker.server.vhosts["/"].uncommitted_bytes)

        broker.server.check_flow()
        broker.server.turn_ended()
        await other.until(m.ConnectionBlocked)
        assert broker.server.is_blocked
        broker.server.high_mark_bytes = 1 << 20
        broker.server.check_flow()
        client.send(0 if isinstance(end, m.ConnectionClose) else 1, end)
        await until(lambda: not broker.server.vhosts["/"].uncommitted_bytes)

    serving(test, high_mark_bytes=5000)


class Holding:
    """A vhost with so much in it, for the server's mark."""

    resident_bytes = uncommitted_bytes = 0


def test_each_reason_for_which_publishers_wait_has_marks_of_its_own():
    asked = server.Server({}, Users.default(), lambda _user, _vhost: True, high_mark_bytes=1_000)
    held = Holding()
    asked.vhosts["/"] = held  # type: ignore[assignment]
    pressing: list[str | None] = [None]
    asked.pressure = lambda: pressing[0]

    def reason(resident_bytes: int, pressure: str | None = None) -> str | None:
        held.resident_bytes, pressing[0] = resident_bytes, pressure
        asked.check_flow()
        return asked.blocked_by

    assert reason(850, "Kafka is slow") == "Kafka is slow"
    assert reason(850) is None, "memory was never short"
    assert reason(1_001) == "low on memory"
    assert reason(850, "Kafka is slow") == "low on memory"
    assert reason(800, "Kafka is slow") == "Kafka is slow"
    assert reason(850) is None


def test_a_server_that_ends_tells_its_clients():
    async def test(broker, port):
        client = await SocketClient.connect(port)

        closing = asyncio.create_task(broker.server.close())
        closed = await client.until(m.ConnectionClose)
        client.writer.close()
        await closing

        assert closed.reply_code == 320

    serving(test)


def test_a_socket_that_is_closed_requeues_what_its_client_had():
    async def test(_broker, port):
        client, other = await SocketClient.connect(port), await SocketClient.connect(port)
        client.send(1, m.QueueDeclare(queue="q"))
        client.publish("q", b"1")
        client.send(1, m.BasicGet(queue="q"))
        await client.until(m.BasicGetOk)
        other.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
        await other.until(m.BasicConsumeOk)

        client.writer.transport.abort()

        assert (await other.until(m.BasicDeliver)).redelivered

    serving(test)


@pytest.mark.parametrize(
    ("mechanism", "login_from", "name"),
    [
        ("PLAIN", "common_name", "ann"),
        ("EXTERNAL", "common_name", "ann"),
        ("EXTERNAL", "distinguished_name", "CN=ann,OU=sales,O=shop"),
        ("EXTERNAL", "subject_alternative_name", "ann.example"),
    ],
)
def test_clients_connect_with_tls_and_a_certificate_may_name_the_user(mechanism, login_from, name):
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    mine = ssl.create_default_context()
    authority.configure_trust(mine)
    issued = authority.issue_cert(
        "ann.example",
        common_name="ann",
        organization_name="shop",
        organization_unit_name="sales",
    )
    issued.configure_cert(mine)

    async def test(broker, port):
        broker.server.users = Users([*broker.server.users.by_name.values(), User(name)])
        everything = commands.SetPermissions(user=name, configure=".*", write=".*", read=".*")
        broker.do(broker.server.vhosts["/"], everything)
        login = LOGIN if mechanism == "PLAIN" else m.ConnectionStartOk(CAPABILITIES, mechanism)

        client = await SocketClient.connect(port, mine, login)

        client.send(1, m.QueueDeclare(queue="q"))
        assert await client.until(m.QueueDeclareOk) == m.QueueDeclareOk("q", 0, 0)
        names = {connection.user for connection in broker.server.connections}
        assert names == {"guest" if mechanism == "PLAIN" else name}

    serving(test, server, login_from=login_from)


@pytest.mark.parametrize(
    ("ciphers", "cipher", "key_exchange", "kept"),
    [
        (None, "aes_256_gcm", "any", "tlsv1.3"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "aes_128_gcm", "ecdhe_rsa", "tlsv1.2"),
        ("ECDHE-RSA-CHACHA20-POLY1305", "chacha20_poly1305", "ecdhe_rsa", "tlsv1.2"),
    ],
)
def test_tls_of_a_connection_is_told_as_rabbitmq_does(ciphers, cipher, key_exchange, kept):
    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", key_type=trustme.KeyType.RSA).configure_cert(server)
    authority.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    mine = ssl.create_default_context()
    authority.configure_trust(mine)
    authority.issue_cert(
        common_name="ann",
        organization_name="shop, Inc",
        organization_unit_name="sales",
        not_before=datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
        not_after=datetime(2099, 1, 2, tzinfo=UTC),
    ).configure_cert(mine)
    if ciphers:
        mine.maximum_version = ssl.TLSVersion.TLSv1_2
        mine.set_ciphers(ciphers)

    async def test(broker, port):
        client = await SocketClient.connect(port, mine)
        client.send(1, m.QueueDeclare(queue="q"))
        await client.until(m.QueueDeclareOk)

        (connection,) = broker.server.connections
        told = about_tls(connection.handshake.client.tls)

        assert told.pop("peer_cert_issuer").startswith("OU=Testing CA")
        assert told == {
            "peer_cert_subject": "CN=ann,OU=sales,O=shop\\, Inc",
            "peer_cert_validity": "2020-01-02T03:04:05Z - 2099-01-02T00:00:00Z",
            "ssl": True,
            "ssl_cipher": cipher,
            "ssl_hash": "aead",
            "ssl_key_exchange": key_exchange,
            "ssl_protocol": kept,
        }

    serving(test, server)


def test_the_connections_of_a_vhost_that_is_deleted_end_and_hear_nothing_else():
    async def test(broker, port):
        broker.grant(broker.add_vhost("gone"), "guest")
        first = await SocketClient.connect(port, vhost="gone")
        second = await SocketClient.connect(port, vhost="gone")
        other = await SocketClient.connect(port)
        first.send(1, m.QueueDeclare(queue="q"))
        first.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
        await first.until(m.BasicConsumeOk)
        second.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
        await second.until(m.BasicConsumeOk)
        first.publish("q", b"1")
        await first.until(m.BasicDeliver)

        broker.delete_vhost("gone")

        text = "CONNECTION_FORCED - vhost 'gone' is deleted"
        assert await first.methods() == [m.ConnectionClose(320, text, 0, 0)]
        assert await second.methods() == [m.ConnectionClose(320, text, 0, 0)]
        other.send(1, m.QueueDeclare(queue="q"))
        assert await other.until(m.QueueDeclareOk) == m.QueueDeclareOk("q", 0, 0)
        assert "gone" not in broker.server.vhosts

    serving(test)


def test_a_client_that_does_much_is_not_read_while_the_broker_does_not_answer(monkeypatch):
    monkeypatch.setattr(connection, "MAX_PARKED_BYTES", 10_000)

    async def test(broker, port):
        answers = asyncio.Event()
        answers.set()
        answering = asyncio.create_task(answer(broker, answers))
        client = await SocketClient.connect(port)
        answers.clear()
        client.send(1, m.QueueDeclare(queue="a"))
        client.send(1, m.BasicGet())  # of the last declared one: it waits, and all behind it
        for _ in range(20_000):
            client.send(1, m.BasicGet(queue="none-of-these"))
        await until(lambda: broker.server.crowded)
        received = broker.server.bytes_received
        for _ in range(20_000):
            client.send(1, m.BasicGet(queue="none-of-these"))
        await asyncio.sleep(0.3)
        [one] = broker.server.connections
        assert broker.server.bytes_received == received
        assert one.is_crowded

        answers.set()

        await client.until(m.ChannelClose)
        await until(lambda: broker.server.bytes_received > received)
        await until(lambda: not broker.server.crowded)
        answering.cancel()

    serving(test, broker=DelayedBroker)


async def answer(broker, answers):
    """Let the broker answer, now and then, while it may."""
    while True:
        await answers.wait()
        broker.settle()
        broker.server.turn_ended()
        await asyncio.sleep(0.01)


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0.01)


def test_a_client_that_asks_for_much_at_once_holds_nobody_back(monkeypatch):
    monkeypatch.setattr(connection, "TURN_S", -1)  # each turn does one thing

    async def test(_broker, port):
        greedy = await SocketClient.connect(port)
        other = await SocketClient.connect(port)
        greedy.send(1, m.QueueDeclare(queue="q"))
        await greedy.until(m.QueueDeclareOk)
        greedy.publish("q", b"1", 300)
        greedy.send(1, m.QueueDeclare(queue="q", passive=True))

        seen = 0
        while not seen:
            other.send(1, m.QueueDeclare(queue="q", passive=True))
            seen = (await other.until(m.QueueDeclareOk)).message_count

        assert seen < 300
        assert (await greedy.until(m.QueueDeclareOk)).message_count == 300

    serving(test)


def test_a_client_that_leaves_before_all_is_done_gives_its_turns_to_others(monkeypatch):
    monkeypatch.setattr(connection, "TURN_S", -1)

    async def test(broker, port):
        clients = [await SocketClient.connect(port) for _ in range(3)]
        for client in clients:
            client.publish("nowhere", b"1", 500)
        clients[0].writer.transport.abort()
        for client in clients[1:]:
            client.send(1, m.ChannelClose(200, "", 0, 0))
            await client.until(m.ChannelCloseOk)

        assert len(broker.server.connections) == 2

    serving(test)


def test_a_client_that_does_not_begin_tls_is_closed(monkeypatch):
    monkeypatch.setattr(server, "TLS_HANDSHAKE_TIMEOUT_S", 0.1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)

    async def test(_broker, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        assert await reader.read() == b""
        writer.close()

    serving(test, context)
