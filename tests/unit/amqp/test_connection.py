import pytest

from streaming.amqp import methods as m
from streaming.amqp.connection import State
from streaming.amqp.frames import (
    BODY,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    frame,
)
from streaming.amqp.handshake import PROTOCOL_HEADER
from streaming.amqp.method_codec import write_method
from tests.amqp_client import CAPABILITIES, RawClient, content_frames

NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"


@pytest.mark.parametrize(
    ("opened", "state", "method"),
    [
        (False, "opening", m.ConnectionClose()),
        (False, "opening", m.ConnectionUpdateSecret(b"guest", "renewed")),
        (True, "running", m.ConnectionOpen("/")),
        (True, "running", m.ChannelOpen()),
    ],
)
def test_a_method_out_of_order_is_an_error_of_the_connection(opened, state, method, broker):
    client = RawClient(broker, opened=opened)
    if not opened:
        client.raw(PROTOCOL_HEADER)
        client.send(0, m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US"))
        client.send(0, m.ConnectionTuneOk(10, 8192, 5))

    assert client.ask(method, 0) == m.ConnectionClose(
        504, f"CHANNEL_ERROR - unexpected method in connection state {state}", *method.ids
    )


@pytest.mark.parametrize("secret", [b"guest", b"wrong", b""])
def test_a_new_secret_is_not_checked_as_rabbitmq_does_not_with_users_of_its_own(secret, broker):
    client = RawClient(broker)

    assert client.ask(m.ConnectionUpdateSecret(secret, "renewed"), 0) == (
        m.ConnectionUpdateSecretOk()
    )
    assert client.ask(m.QueueDeclare(queue="q")) == m.QueueDeclareOk("q", 0, 0)


def test_an_error_of_the_connection_ends_all_its_channels(broker):
    client = RawClient(broker)
    client.ask(m.QueueDeclare(queue="q"))
    client.publish("", "q", b"1")
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    client.received()

    closed = client.ask(m.ChannelOpen())

    assert isinstance(closed, m.ConnectionClose)
    assert (closed.reply_code, closed.reply_text) == (
        504,
        "CHANNEL_ERROR - second 'channel.open' seen",
    )
    other = RawClient(client.broker)
    declared = other.ask(m.QueueDeclare(queue="q"))
    assert isinstance(declared, m.QueueDeclareOk)
    assert (declared.message_count, declared.consumer_count) == (1, 0)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (
            b"\0\x32\0\x0a\0\0\2pq\0\0\0\1\xf4x",
            (501, "FRAME_ERROR - cannot decode <<0,0,2,112,113,0,0,0,1,244,120>>", 50, 10),
        ),
        (b"\0\x32\0\x0a\0\0", (501, "FRAME_ERROR - cannot decode <<0,0>>", 50, 10)),
        (
            b"\0\x3c\0\x14\0\0\1q\1t\0\0\0\0\4\1a?x",
            (502, "SYNTAX_ERROR - a table has a value of unknown type 63", 60, 20),
        ),
        (b"\0\x32\0\x63", (502, "SYNTAX_ERROR - unknown method 50.99", 0, 0)),
        (
            b"\0\x3c\0\x46\0\0\1\xff\0",
            (501, "FRAME_ERROR - Malformed UTF-8 in shortstr", 0, 0),
        ),
    ],
    ids=["table", "method", "value", "unknown", "text"],
)
def test_a_method_that_cannot_be_read_ends_the_connection_with_rabbitmqs_words(
    payload, error, broker
):
    client = RawClient(broker)

    client.raw(frame(METHOD, 1, payload))

    assert client.received()[-1].method == m.ConnectionClose(*error)


@pytest.mark.parametrize(
    ("payload", "method"),
    [
        (b"\0\x0a\0\x46\0\0\0\1s\1\xff", (10, 70)),
        (b"\0\x0a\0\x32\0\0\1\xff\0\0\0\0", (10, 50)),
        (b"\0\x32\0\x0a\0\0\1\xff\0\0\0\0\0", (50, 10)),
    ],
    ids=["secret", "close", "declare"],
)
def test_a_method_of_no_channel_is_named_although_its_text_is_not_utf8(payload, method, broker):
    client = RawClient(broker)

    client.raw(frame(METHOD, 0, payload))

    told = m.ConnectionClose(501, "FRAME_ERROR - Malformed UTF-8 in shortstr", *method)
    assert client.received()[-1].method == told


def test_a_vhost_that_is_not_utf8_is_refused_in_the_name_of_the_open(broker):
    client = RawClient(broker, opened=False)
    client.raw(PROTOCOL_HEADER)
    client.send(0, m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US"))
    client.send(0, m.ConnectionTuneOk(10, 8192, 5))

    client.raw(frame(METHOD, 0, b"\0\x0a\0\x28\1\xff\0\0"))

    told = m.ConnectionClose(501, "FRAME_ERROR - Malformed UTF-8 in shortstr", 10, 40)
    assert client.received()[-1].method == told


_MALFORMED_PUBLISH = frame(METHOD, 1, b"\0\x3c\0\x28\0\0\0\1\xff\0")
_GET = frame(METHOD, 1, write_method(m.BasicGet(queue="q")))
_EMPTY = frame(HEADER, 1, b"\0\x3c" + bytes(12))


@pytest.mark.parametrize(
    ("after", "error"),
    [
        (
            _GET,
            "UNEXPECTED_FRAME - expected content header for class 60, got non content header "
            "frame instead",
        ),
        (_EMPTY, "FRAME_ERROR - Malformed UTF-8 in shortstr"),
    ],
    ids=["method", "content"],
)
def test_a_publish_whose_names_are_not_utf8_is_refused_when_its_content_has_come(
    after, error, broker
):
    client = RawClient(broker)

    client.raw(_MALFORMED_PUBLISH)
    assert client.received() == []
    client.raw(after)

    closed = client.received()[-1].method
    assert isinstance(closed, m.ConnectionClose)
    assert closed.reply_text == error


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (219, f"NOT_FOUND - no queue '{'n' * 219}' in vhost '/'"),
        (220, f"NOT_FOUND - no queue '{'n' * 220}' in vhost..."),
    ],
)
def test_an_error_that_is_too_long_for_a_reply_ends_in_dots(broker, length, text):
    client = RawClient(broker)

    closed = client.ask(m.QueueDeclare(queue="n" * length, passive=True))

    assert closed == m.ChannelClose(404, text, 50, 10)


def test_an_error_about_a_long_name_has_room_for_a_part_of_it(broker):
    client = RawClient(broker)

    closed = client.ask(m.QueueDeclare(queue="€" * 85, passive=True))

    assert closed == m.ChannelClose(404, f"NOT_FOUND - no queue '{'€' * 76}...", 50, 10)


def test_a_channel_must_be_opened_first(broker):
    client = RawClient(broker)

    closed = client.ask(m.QueueDeclare(queue="q"), 9)

    assert isinstance(closed, m.ConnectionClose)
    assert (closed.reply_code, closed.reply_text) == (
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
    )


def test_the_number_of_channels_is_limited(broker):
    client = RawClient(broker, channel_max=2)
    client.ask(m.ChannelOpen(), 2)

    closed = client.ask(m.ChannelOpen(), 3)

    assert isinstance(closed, m.ConnectionClose)
    assert closed.reply_text == (
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    )


def test_after_a_close_everything_but_its_answer_is_ignored(broker):
    client = RawClient(broker)
    client.ask(m.ChannelOpen())

    client.send(1, m.QueueDeclare(queue="q"))
    assert client.received() == []
    client.send(0, m.ConnectionCloseOk())

    assert client.connection.state is State.CLOSED


@pytest.mark.parametrize(("heartbeat", "most_s"), [(0, 30), (10, 10), (60, 30)])
def test_a_client_that_closes_has_some_time_to_end_the_connection(heartbeat, most_s, broker):
    client = RawClient(broker, heartbeat=heartbeat)
    client.ask(m.QueueDeclare(queue="q", exclusive=True))

    closed = client.ask(m.ConnectionClose(), 0)

    assert closed == m.ConnectionCloseOk()
    other = RawClient(broker).ask(m.QueueDeclare(queue="q", passive=True))
    assert isinstance(other, m.ChannelClose)
    assert other.reply_code == 404
    client.send(1, m.QueueDeclare(queue="q"))
    client.publish("", "q", b"1")
    assert client.received() == []
    assert client.ask(m.ConnectionClose(), 0) == m.ConnectionCloseOk()
    assert client.seconds_until_it_ends() == most_s


def test_heartbeats_go_both_ways(broker):
    client = RawClient(broker, heartbeat=10)

    client.now_s = 5.0
    client.connection.check()
    beat = client.connection.take_output()
    client.raw(HEARTBEAT_FRAME)
    client.now_s = 24.0
    client.connection.check()
    alive = client.connection.state
    client.now_s = 25.0
    client.connection.check()

    assert beat == HEARTBEAT_FRAME
    assert alive is State.OPEN
    assert client.connection.is_closed


def test_a_client_that_is_not_read_is_not_given_up(broker):
    client = RawClient(broker, heartbeat=10)
    client.connection.unread(unread=True)

    client.now_s = 100.0
    client.connection.check()
    alive = client.connection.state
    client.connection.unread(unread=False)
    client.now_s = 120.0
    client.connection.check()

    assert alive is State.OPEN
    assert client.connection.is_closed


@pytest.mark.parametrize(("heartbeat", "seconds"), [(0, 30), (5, 5), (60, 30)])
def test_a_client_that_does_not_answer_a_close_is_let_go(heartbeat, seconds, broker):
    client = RawClient(broker, heartbeat=heartbeat)

    client.ask(m.ChannelOpen())

    assert client.seconds_until_it_ends() == seconds


def test_a_client_whose_frames_cannot_be_told_apart_is_heard_no_more(broker):
    client = RawClient(broker)

    client.raw(b"\3\0\1\0\2\0\1" + bytes(10))
    (closed,) = client.received()
    client.send(0, m.ConnectionClose())

    text = "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}"
    assert closed.method == m.ConnectionClose(501, text)
    assert client.received() == []
    assert client.seconds_until_it_ends() == 3


@pytest.mark.parametrize(
    ("data", "code", "text", "ids"),
    [
        (
            frame(9, 1, b"abc"),
            501,
            'FRAME_ERROR - type 9, all octets = <<"abc">>: unknown_frame',
            (),
        ),
        (
            frame(HEARTBEAT, 0, b"x"),
            501,
            'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame',
            (),
        ),
        (
            frame(METHOD, 1, b"\0\x14"),
            501,
            "FRAME_ERROR - type 1, all octets = <<0,20>>: unknown_frame",
            (),
        ),
        (
            frame(HEADER, 1, b"xyz"),
            501,
            'FRAME_ERROR - type 2, all octets = <<"xyz">>: unknown_frame',
            (),
        ),
        (frame(HEARTBEAT, 1, b""), 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>", ()),
        (frame(BODY, 0, b"hello"), 505, 'UNEXPECTED_FRAME - type 3, all octets = <<"hello">>', ()),
        (frame(BODY, 9, b"x"), 505, NO_METHOD, ()),
        (frame(BODY, 1, b"x"), 505, NO_METHOD, ()),
        (
            frame(METHOD, 9, write_method(m.ChannelCloseOk())),
            504,
            "CHANNEL_ERROR - expected 'channel.open'",
            (20, 41),
        ),
        (frame(METHOD, 9, b"\0\x14\0\x0a"), 501, "FRAME_ERROR - cannot decode <<>>", (20, 10)),
        (
            frame(METHOD, 1, write_method(m.ChannelFlowOk(active=True))),
            503,
            "COMMAND_INVALID - unimplemented method",
            (20, 21),
        ),
        (
            frame(METHOD, 1, write_method(m.BasicQos()) + b"zz"),
            501,
            "FRAME_ERROR - cannot decode <<0,0,0,0,0,0,0,122,122>>",
            (60, 10),
        ),
    ],
)
def test_a_frame_that_may_not_come_ends_the_connection(data, code, text, ids, broker):
    client = RawClient(broker)

    client.raw(data)
    (closed,) = client.received()
    client.raw(data)
    client.send(0, m.ConnectionCloseOk())

    assert closed.method == m.ConnectionClose(code, text, *ids)
    assert client.received() == []
    assert client.connection.is_closed


def test_content_that_does_not_come_is_named_with_the_publish(broker):
    client = RawClient(broker)
    client.send(1, m.BasicPublish(0, "", "q"))

    closed = client.ask(m.BasicAck(1))

    text = "expected content header for class 60, got non content header frame instead"
    assert closed == m.ConnectionClose(505, f"UNEXPECTED_FRAME - {text}", *m.BasicPublish.ids)


def test_a_content_header_has_no_weight(broker):
    client = RawClient(broker)
    client.send(1, m.BasicPublish(0, "", "q"))
    content = content_frames(1, b"12345678", {})

    client.raw(content[:10] + b"\1" + content[11:])

    text = "expected content header for class 60, got non content header frame instead"
    (closed,) = client.received()
    assert closed.method == m.ConnectionClose(505, f"UNEXPECTED_FRAME - {text}", 60, 40)


def test_the_secret_may_be_updated(broker):
    client = RawClient(broker)

    answer = client.ask(m.ConnectionUpdateSecret(b"new", "expired"), 0)

    assert answer == m.ConnectionUpdateSecretOk()


def test_blocked_publishers_are_told(broker):
    client = RawClient(broker)

    client.connection.block("not to be told to who publishes nothing")
    client.connection.block(None)
    client.publish("", "q", b"x")
    client.connection.block("low on memory")
    client.connection.block(None)

    assert [each.method for each in client.received()] == [
        m.ConnectionBlocked("low on memory"),
        m.ConnectionUnblocked(),
    ]


def test_frames_of_a_connection_that_is_lost_are_not_answered(broker):
    client = RawClient(broker)
    client.connection.lost()

    client.raw(frame(METHOD, 1, write_method(m.QueueDeclare(queue="q"))))

    assert client.received() == []


def test_a_client_that_does_not_read_is_heard_and_what_it_asks_waits(broker):
    client = RawClient(broker, heartbeat=10)
    client.connection.hold(held=True)

    for client.now_s in range(5, 100, 5):
        client.raw(HEARTBEAT_FRAME)
        client.connection.check()
    client.send(1, m.QueueDeclare(queue="q"))
    assert client.connection.state is State.OPEN
    assert client.received() == []

    client.connection.hold(held=False)
    client.connection.go_on()

    assert client.received()[-1].method == m.QueueDeclareOk("q", 0, 0)


def test_a_client_that_sends_much_without_reading_is_not_read_and_ends_unless_it_begins_to(broker):
    client = RawClient(broker, heartbeat=10)
    client.connection.hold(held=True)
    for _ in range(20):
        client.publish("", "q", bytes(100_000))
    assert client.connection.must_read_first

    client.now_s = 19
    client.connection.is_heard()
    client.now_s = 38
    client.connection.check()
    assert client.connection.state is State.OPEN
    client.now_s = 39
    client.connection.check()

    assert client.connection.is_closed


def test_what_is_broken_is_told_behind_what_waits(broker):
    client = RawClient(broker)
    client.connection.hold(held=True)
    client.send(1, m.QueueDeclare(queue="q"))
    client.raw(b"\1\0\1\0\0\0\0\0")
    client.connection.hold(held=False)
    client.connection.go_on()

    declared, closed = client.received()

    assert declared.method == m.QueueDeclareOk("q", 0, 0)
    assert isinstance(closed.method, m.ConnectionClose)
    assert closed.method.reply_code == 501


@pytest.mark.parametrize("end", ["finish", "fail", "close", "lose"])
def test_bodies_that_are_not_complete_count_as_memory(end, broker):
    client = RawClient(broker)
    vhost = broker.server.vhosts["/"]
    client.ask(m.QueueDeclare(queue="q"))
    client.send(1, m.BasicPublish(0, "", "q"))
    client.raw(frame(HEADER, 1, b"\0\x3c\0\0" + (3000).to_bytes(8) + b"\0\0"))
    client.raw(frame(BODY, 1, bytes(1000)))
    client.raw(frame(BODY, 1, bytes(1000)))
    before = vhost.uncommitted_bytes

    match end:
        case "finish":
            client.raw(frame(BODY, 1, bytes(1000)))
        case "fail":
            client.raw(frame(BODY, 1, bytes(1001)))
        case "close":
            client.send(0, m.ConnectionClose())
        case "lose":
            client.connection.lost()
    client.received()

    assert before == 2000
    assert vhost.uncommitted_bytes == 0
