"""Attacks on an AMQP server: each opens its own sockets, and closes them."""

import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pamqp import body, commands, frame, header

Attack = Callable[[tuple[str, int], random.Random], None]

PROTOCOL: Final = b"AMQP\x00\x00\x09\x01"
QUEUE: Final = "attacked"
ANSWER_S: Final = 0.5
READING_S: Final = 2
"""How long an attacker waits and reads; the server owes it nothing."""

_START = commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US")
_HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"


@contextmanager
def _connected(address: tuple[str, int], *, logged_in: bool = True) -> Iterator[socket.socket]:
    """A socket; errors that say that the server closed it end the attack, as they may."""
    with suppress(OSError), socket.create_connection(address, timeout=30) as client:
        if logged_in:
            client.sendall(b"".join(_login()))
            _read(client)
        yield client
        _read(client)


def _read(client: socket.socket) -> None:
    """Read until the server closes or is silent, but not for long."""
    client.settimeout(ANSWER_S)
    deadline_s = time.monotonic() + READING_S
    with suppress(TimeoutError):
        while client.recv(1 << 16) and time.monotonic() < deadline_s:
            pass
    client.settimeout(30)


def _login() -> list[bytes]:
    return [
        PROTOCOL,
        frame.marshal(_START, 0),
        frame.marshal(commands.Connection.TuneOk(2047, 131_072, 0), 0),
        frame.marshal(commands.Connection.Open("/"), 0),
        frame.marshal(commands.Channel.Open(), 1),
    ]


def _publish(payload: bytes, **properties: object) -> list[bytes]:
    top = header.ContentHeader(body_size=len(payload))
    top.properties = commands.Basic.Properties(**properties)  # type: ignore[arg-type] # of any kind
    parts = [
        frame.marshal(commands.Basic.Publish(exchange="", routing_key=QUEUE), 1),
        frame.marshal(top, 1),
    ]
    return [*parts, frame.marshal(body.ContentBody(payload), 1)]


def _session(chance: random.Random) -> list[bytes]:
    """The frames of an ordinary client, login included."""
    queue, basic = commands.Queue, commands.Basic
    rest = [
        [frame.marshal(queue.Declare(queue=QUEUE, arguments={"x-max-length": 100}), 1)],
        [frame.marshal(queue.Bind(queue=QUEUE, exchange="amq.topic", routing_key="a.#"), 1)],
        [frame.marshal(basic.Qos(prefetch_count=chance.randrange(4)), 1)],
        [frame.marshal(basic.Consume(queue=QUEUE, consumer_tag="c"), 1)],
        [frame.marshal(commands.Confirm.Select(), 1)],
        _publish(b"x" * chance.randrange(300), headers={"k": [1, "x", {"y": True}]}),
        _publish(b"", expiration="1000", priority=3),
        [frame.marshal(basic.Ack(1, multiple=True), 1)],
        [frame.marshal(basic.Get(queue=QUEUE), 1)],
        [frame.marshal(basic.Nack(2, multiple=False, requeue=True), 1)],
        [frame.marshal(basic.Cancel(consumer_tag="c"), 1)],
        [frame.marshal(queue.Purge(queue=QUEUE), 1)],
        [_HEARTBEAT],
        [frame.marshal(commands.Channel.Close(200, "", 0, 0), 1)],
    ]
    return [*_login(), *(each for part in rest for each in part)]


def mutated(address: tuple[str, int], chance: random.Random) -> None:
    """Bytes of an ordinary client, some of them changed, removed or put in."""
    data = bytearray(b"".join(_session(chance)))
    first = chance.choice((0, len(b"".join(_login()))))
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(first, len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data[at] ^= 1 << chance.randrange(8)
            case 2:
                del data[at : at + chance.randrange(1, 9)]
            case _:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
    with _connected(address, logged_in=False) as client:
        client.sendall(data)


def truncated(address: tuple[str, int], chance: random.Random) -> None:
    """An ordinary client that ends in the middle, politely or not."""
    data = b"".join(_session(chance))
    with _connected(address, logged_in=False) as client:
        client.sendall(data[: chance.randrange(len(data))])
        if chance.random() < 0.5:
            client.shutdown(socket.SHUT_WR)
        if chance.random() < 0.3:  # a reset instead of an end
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()


def noise(address: tuple[str, int], chance: random.Random) -> None:
    """Bytes that mean nothing, before or after the login."""
    with _connected(address, logged_in=chance.random() < 0.5) as client:
        client.sendall(chance.randbytes(chance.randrange(1, 5000)))


def shuffled(address: tuple[str, int], chance: random.Random) -> None:
    """Whole frames in any order, on any channel, before or after the login."""
    frames = _session(chance)
    logged_in = chance.random() < 0.5
    frames = frames[len(_login()) :] if logged_in else frames[1:]
    chance.shuffle(frames)
    changed = []
    for each in frames:
        number = chance.choice((1, 1, 1, 0, 2, 2047, 65_535))
        changed.append(each[:1] + struct.pack(">H", number) + each[3:])
    with _connected(address, logged_in=logged_in) as client:
        client.sendall((b"" if logged_in else PROTOCOL) + b"".join(changed))


def oversized(address: tuple[str, int], chance: random.Random) -> None:
    """Frames that are, or say they are, longer than allowed; contents that never end."""
    with _connected(address) as client:
        match chance.randrange(4):
            case 0:
                client.sendall(struct.pack(">BHI", chance.choice((1, 2, 3)), 1, 0xFFFF_FFFF))
                client.sendall(b"x" * 300_000)
            case 1:
                client.sendall(struct.pack(">BHI", 1, 1, 200_000) + b"x" * 100_000 + b"\xce")
            case 2:
                method = frame.marshal(commands.Basic.Publish(routing_key=QUEUE), 1)
                top = struct.pack(">HHQH", 60, 0, chance.choice((1 << 63, 1 << 40, 1 << 29)), 0)
                client.sendall(method + struct.pack(">BHI", 2, 1, len(top)) + top + b"\xce")
                for _ in range(50):
                    client.sendall(frame.marshal(body.ContentBody(b"x" * 60_000), 1))
            case _:
                parts = _publish(b"1234")
                client.sendall(b"".join(parts[:2]))
                client.sendall(frame.marshal(body.ContentBody(b"x" * 100), 1))


def many_channels(address: tuple[str, int], chance: random.Random) -> None:
    """All channel numbers that AMQP has, opened in one go."""
    numbers = list(range(2, 65_536))
    if chance.random() < 0.5:
        numbers = numbers[: chance.choice((100, 2046))]
    with _connected(address) as client:
        client.sendall(b"".join(frame.marshal(commands.Channel.Open(), each) for each in numbers))


def _table(chance: random.Random) -> bytes:
    """A field table that is deep, wide or wrong; its length is in front."""
    match chance.randrange(5):
        case 0:
            depth = chance.choice((10, 100, 1_000, 15_000))
            inner = b""
            for _ in range(depth):
                inner = b"\x01kF" + struct.pack(">I", len(inner)) + inner
                if len(inner) > 120_000:
                    break
        case 1:
            depth = chance.choice((100, 5_000, 15_000))
            inner = b""
            for _ in range(depth):
                inner = b"A" + struct.pack(">I", len(inner)) + inner
            inner = b"\x01k" + inner
        case 2:
            inner = b"".join(
                b"\x05%05dt\x01" % each for each in range(chance.choice((100, 15_000)))
            )
        case 3:
            inner = b"\x01kS" + struct.pack(">I", chance.choice((5, 0xFFFF_FFFF))) + b"abc"
        case _:
            kind = bytes([chance.randrange(256)])
            inner = b"\x01k" + kind + chance.randbytes(chance.randrange(12))
    return struct.pack(">I", len(inner)) + inner


def tables(address: tuple[str, int], chance: random.Random) -> None:
    """Field tables nested deep or wide, in arguments, in headers or in the login."""
    table = _table(chance)
    with _connected(address, logged_in=(place := chance.randrange(3)) > 0) as client:
        match place:
            case 0:
                payload = struct.pack(">HH", 10, 11) + table + b"\x05PLAIN"
                payload += struct.pack(">I", 12) + b"\0guest\0guest" + b"\x05en_US"
                client.sendall(PROTOCOL)
                number = 0
                kind = 1
            case 1:
                payload = struct.pack(">HHH", 50, 10, 0) + b"\x08attacked\x00" + table
                number = kind = 1
            case _:
                client.sendall(frame.marshal(commands.Basic.Publish(routing_key=QUEUE), 1))
                payload = struct.pack(">HHQH", 60, 0, 0, 0x2000) + table
                number, kind = 1, 2
        client.sendall(struct.pack(">BHI", kind, number, len(payload)) + payload + b"\xce")


def tiny_frames(address: tuple[str, int], chance: random.Random) -> None:
    """A flood of the smallest frames there are, while nothing is read."""
    flow = frame.marshal(commands.Channel.Flow(True), 1)
    empty = struct.pack(">BHI", 3, 1, 0) + b"\xce"
    get = frame.marshal(commands.Basic.Get(queue="missing"), 1)
    top = struct.pack(">BHI", 2, 1, 14) + struct.pack(">HHQH", 60, 0, 10, 0) + b"\xce"
    publish = frame.marshal(commands.Basic.Publish(routing_key=QUEUE), 1) + top
    tiny = chance.choice(
        (_HEARTBEAT * 20_000, flow * 20_000, publish + empty * 20_000, get * 2_000)
    )
    with _connected(address) as client:
        client.settimeout(5)
        with suppress(TimeoutError):
            client.sendall(tiny)


def byte_by_byte(address: tuple[str, int], chance: random.Random) -> None:
    """An ordinary client whose bytes come one at a time."""
    data = b"".join(_session(chance))
    with _connected(address, logged_in=False) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(data)):
            client.sendall(data[at : at + 1])


def half_open(address: tuple[str, int], chance: random.Random) -> None:
    """Connections that begin and say no more."""
    with suppress(OSError):
        clients = [socket.create_connection(address, timeout=30) for _ in range(50)]
        for client in clients:
            client.sendall(PROTOCOL[: chance.randrange(9)])
        for client in clients:
            client.close()


def slow_reader(address: tuple[str, int], chance: random.Random) -> None:
    """A consumer without a limit that reads nothing, while another client publishes."""
    size = chance.choice((0, 100, 20_000))
    count = 2_000 if size < 1_000 else 500
    queue = f"slow-{chance.randrange(1 << 30)}"
    declare = commands.Queue.Declare(queue=queue, exclusive=True)
    with _connected(address) as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(frame.marshal(declare, 1))
        consume = commands.Basic.Consume(queue=queue, no_ack=chance.random() < 0.5)
        reader.sendall(frame.marshal(consume, 1))
        method = frame.marshal(commands.Basic.Publish(routing_key=queue), 1)
        with _connected(address) as writer:
            one = method + b"".join(_publish(b"x" * size)[1:])
            for _ in range(count // 100):
                writer.sendall(one * 100)


def logins(address: tuple[str, int], chance: random.Random) -> None:
    """Logins by every mechanism, with answers that are none, again and again on one connection."""
    mechanism = chance.choice((b"PLAIN", b"AMQPLAIN", b"EXTERNAL", b"ANONYMOUS", b"", b"\xff"))
    answer = chance.choice(
        (
            *(b"", b"\0", b"\0guest", b"guest\0guest", b"\0" * 1000, b"\0gu\xff\xfest\0guest"),
            *(b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05guest", _table(chance)),
            *(b"\x05LOGINV\x08PASSWORDF\0\0\0\0", b"\0" + b"u" * 100_000 + b"\0p"),
        )
    )
    start = struct.pack(">HH", 10, 11) + struct.pack(">I", 0)
    start += bytes((len(mechanism),)) + mechanism + struct.pack(">I", len(answer)) + answer
    start += b"\x05en_US"
    one = struct.pack(">BHI", 1, 0, len(start)) + start + b"\xce"
    tune = commands.Connection.TuneOk(
        chance.choice((0, 1, 65_535)), chance.choice((0, 1, 4095, 4096, 1 << 31)), 1
    )
    rest = frame.marshal(tune, 0) + frame.marshal(commands.Connection.Open("x" * 100), 0)
    with _connected(address, logged_in=False) as client:
        client.sendall(PROTOCOL + one * chance.choice((1, 1, 3)) + rest * chance.choice((0, 1, 2)))


def unread(address: tuple[str, int], chance: random.Random) -> None:
    """Returns, direct replies and answers in numbers, for a client that reads none of them."""
    basic = commands.Basic
    body_size = chance.choice((0, 1000, 60_000))
    count = 20 if body_size > 1000 else 300
    match chance.randrange(3):
        case 0:
            method = basic.Publish(routing_key="nowhere", mandatory=True)
            begin, one = b"", frame.marshal(method, 1) + b"".join(_publish(b"x" * body_size)[1:])
        case 1:
            consume = basic.Consume(queue="amq.rabbitmq.reply-to", no_ack=True)
            begin = frame.marshal(consume, 1)
            method = basic.Publish(routing_key="amq.rabbitmq.reply-to.none", mandatory=True)
            content = b"".join(_publish(b"x" * body_size, reply_to="amq.rabbitmq.reply-to")[1:])
            one = frame.marshal(method, 1) + content
        case _:
            begin = frame.marshal(commands.Queue.Declare(queue=QUEUE), 1)
            one = frame.marshal(commands.Queue.Declare(queue=QUEUE, passive=True), 1)
    with _connected(address) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(begin)
        client.settimeout(3)
        with suppress(TimeoutError):
            for _ in range(20):
                client.sendall(one * count)


def held(address: tuple[str, int], chance: random.Random) -> None:
    """A client that holds all it can, and disappears: publishes, consumers, queues, messages."""
    basic, queue = commands.Basic, commands.Queue
    name = f"held-{chance.randrange(1 << 30)}"
    parts = [frame.marshal(queue.Declare(queue=name, exclusive=True), 1)]
    match chance.randrange(4):
        case 0:
            parts.append(frame.marshal(commands.Tx.Select(), 1))
            parts += _publish(b"x" * 10_000) * 300
        case 1:
            consume = basic.Consume(queue=name)
            parts += [frame.marshal(consume, 1)] * 3000
        case 2:
            parts += [
                frame.marshal(queue.Declare(queue=f"{name}-{number}", exclusive=True), 1)
                for number in range(500)
            ]
        case _:
            parts.append(frame.marshal(basic.Consume(queue=name), 1))
            method = frame.marshal(basic.Publish(routing_key=name), 1)
            parts += [method, *_publish(b"x" * 100)[1:]] * 3000
            parts.append(frame.marshal(basic.Nack(0, multiple=True, requeue=True), 1) * 50)
    with _connected(address) as client:
        client.sendall(b"".join(parts))
        if chance.random() < 0.5:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


ATTACKS: Final[tuple[Attack, ...]] = (
    mutated,
    truncated,
    noise,
    shuffled,
    oversized,
    many_channels,
    tables,
    tiny_frames,
    byte_by_byte,
    half_open,
    slow_reader,
    logins,
    unread,
    held,
)
