"""How a client of AMQP is let in, and who is not."""

import pytest

from streaming.amqp import methods as m
from streaming.amqp.frames import (
    BODY,
    HEARTBEAT_FRAME,
    METHOD,
    frame,
)
from streaming.amqp.handshake import PROTOCOL_HEADER
from streaming.amqp.method_codec import write_method
from tests.amqp_client import CAPABILITIES, RawClient, memory_broker


def test_a_connection_opens_step_by_step(broker):
    client = RawClient(broker, opened=False)

    client.raw(PROTOCOL_HEADER[:3])
    client.raw(PROTOCOL_HEADER[3:])
    (start,) = client.received()
    client.send(0, m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US"))
    (tune,) = client.received()
    client.send(0, m.ConnectionTuneOk(10, 8192, 5))
    client.send(0, m.ConnectionOpen("/"))
    (opened,) = client.received()

    assert isinstance(start.method, m.ConnectionStart)
    assert start.method.mechanisms == b"PLAIN AMQPLAIN ANONYMOUS"
    assert tune.method == m.ConnectionTune(2047, 131_072, 60)
    assert opened.method == m.ConnectionOpenOk()


@pytest.mark.parametrize("header", [b"AMQP\3\1\0\0", b"AMQP\1\1\0\x0a", b"GET / HTTP/1.1"])
def test_another_protocol_is_told_which_one_is_spoken(broker, header):
    client = RawClient(broker, opened=False)

    client.raw(header[:7])
    assert client.connection.take_output() == b""
    client.raw(header[7:])

    assert client.connection.take_output() == PROTOCOL_HEADER
    assert client.connection.is_closed


def test_amqp_0_9_is_taken_for_0_9_1(broker):
    client = RawClient(broker, opened=False)

    client.raw(b"AMQP\1\1\0\11")

    (start,) = client.received()
    assert isinstance(start.method, m.ConnectionStart)
    assert (start.method.version_major, start.method.version_minor) == (0, 9)


@pytest.mark.parametrize(
    "data",
    [
        frame(METHOD, 0, write_method(m.ConnectionTuneOk(4000, 131_072, 0))),
        frame(METHOD, 0, write_method(m.ConnectionTuneOk(0, 131_072, 0))),
        frame(METHOD, 0, write_method(m.ConnectionTuneOk(2047, 200_000, 0))),
        frame(METHOD, 0, write_method(m.ConnectionTuneOk(2047, 4095, 0))),
        frame(METHOD, 0, write_method(m.ConnectionTuneOk(2047, 0, 0))),
        frame(METHOD, 0, b"\0\x0a\0\x1f"),
        frame(METHOD, 0, write_method(m.ConnectionClose())),
        frame(METHOD, 1, write_method(m.ChannelOpen())),
        frame(BODY, 0, b"?"),
        b"\1\0\0\0\0\x20\0",
        b"GET / HTTP/1.1\r\n",
    ],
    ids=[
        "channels",
        "any channels",
        "frame",
        "small",
        "any frame",
        "short",
        "close",
        "channel",
        "body",
        "large",
        "noise",
    ],
)
def test_who_breaks_the_protocol_before_the_limits_are_agreed_is_left_in_silence(data, broker):
    client = RawClient(broker, opened=False)
    client.raw(PROTOCOL_HEADER)
    client.send(0, m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US"))
    client.received()

    client.raw(data)
    client.send(0, m.ConnectionTuneOk(10, 8192, 5))
    client.send(0, m.ConnectionOpen("/"))
    client.send(0, m.ConnectionClose())

    assert client.received() == []
    assert client.seconds_until_it_ends() == 3


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [("FOO", b""), ("EXTERNAL", b""), ("PLAIN", b"guest"), ("AMQPLAIN", b"guest")],
)
def test_a_login_that_cannot_be_read_is_left_in_silence(mechanism, response, broker):
    client = RawClient(broker, opened=False)
    client.raw(PROTOCOL_HEADER)
    client.received()

    client.send(0, m.ConnectionStartOk(CAPABILITIES, mechanism, response, "en_US"))

    assert client.received() == []
    assert client.seconds_until_it_ends() == 3


def test_a_refused_client_that_cannot_hear_it_may_close(broker):
    client = RawClient(broker, opened=False)
    client.raw(PROTOCOL_HEADER)
    client.received()
    client.send(0, m.ConnectionStartOk({}, "PLAIN", b"\0guest\0no", "en_US"))
    told = client.received()

    closed = client.ask(m.ConnectionClose(), 0)

    assert told == []
    assert closed == m.ConnectionCloseOk()
    assert client.seconds_until_it_ends() == 3


def test_a_method_out_of_order_before_the_limits_are_agreed_ends_the_connection_in_silence(broker):
    for steps in (0, 1):
        client = RawClient(broker, opened=False)
        client.raw(PROTOCOL_HEADER)
        start = m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US")
        for method in [start][:steps]:
            client.send(0, method)
        client.received()

        client.send(0, m.ConnectionOpen("/"))

        assert client.received() == []
        assert client.seconds_until_it_ends() == 3


def test_a_refused_login_is_told_to_clients_that_can_hear_it(broker):
    client = RawClient(broker, opened=False)
    client.raw(PROTOCOL_HEADER)

    closed = client.ask(m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0no", "en_US"), 0)

    assert isinstance(closed, m.ConnectionClose)
    assert closed.reply_code == 403
    client.send(0, m.ConnectionTuneOk(10, 8192, 5))
    client.raw(HEARTBEAT_FRAME)
    assert not client.connection.is_closed
    client.send(0, m.ConnectionCloseOk())
    assert client.connection.is_closed


def test_a_refused_client_that_says_no_more_is_let_go(broker):
    client = RawClient(broker, opened=False)
    client.raw(PROTOCOL_HEADER)
    client.send(0, m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0no", "en_US"))

    assert client.seconds_until_it_ends() == 3


@pytest.mark.parametrize(("vhost", "text"), [("none", "NOT_ALLOWED - vhost none not found")])
def test_a_vhost_that_does_not_exist_is_refused(vhost, text, broker):
    client = RawClient(broker, opened=False)
    client.raw(PROTOCOL_HEADER)
    client.send(0, m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US"))
    client.send(0, m.ConnectionTuneOk(10, 8192, 5))

    closed = client.ask(m.ConnectionOpen(vhost), 0)

    assert closed == m.ConnectionClose(530, text, *m.ConnectionOpen.ids)
    assert not client.connection.is_closed
    client.send(0, m.ConnectionCloseOk())
    assert client.connection.is_closed


@pytest.mark.parametrize("steps", range(5))
def test_a_handshake_has_a_deadline_wherever_it_stops(steps, broker):
    client = RawClient(broker, opened=False)
    start = m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US")
    said = [
        PROTOCOL_HEADER[:4],
        PROTOCOL_HEADER[4:],
        frame(METHOD, 0, write_method(start)),
        frame(METHOD, 0, write_method(m.ConnectionTuneOk(10, 8192, 0))),
    ]
    for data in said[:steps]:
        client.raw(data)
        client.now_s += 2
    client.received()

    assert client.now_s + client.seconds_until_it_ends() == 10
    assert client.received() == []


def test_the_login_fits_a_frame_of_the_smallest_size():
    def login(extra):
        client = RawClient(memory_broker(), opened=False)
        client.raw(PROTOCOL_HEADER)
        client.received()
        properties = {"token": "x" * extra}
        client.send(0, m.ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest", "en_US"))
        return [type(each.method) for each in client.received()]

    assert login(3900) == [m.ConnectionTune]
    assert login(4096) == []
