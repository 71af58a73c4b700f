"""What a client sends before it has heard of what it sent before, on brokers that answer later."""

import pytest

from streaming.amqp import methods as m
from streaming.amqp.clocks import ManualClock
from streaming.amqp.connection import State
from streaming.broker import commands
from tests.amqp_client import RawClient
from tests.delayed_broker import delayed_broker

REPLY_TO = "amq.rabbitmq.reply-to"


def methods(client):
    return [each.method for each in client.received()]


def test_what_comes_behind_a_close_of_its_channel_is_for_no_channel(client):
    client.send(1, m.ChannelClose())
    client.publish("", "q", b"1")

    closed, ended = methods(client)

    assert closed == m.ChannelCloseOk()
    assert isinstance(ended, m.ConnectionClose)
    assert ended.reply_text == "CHANNEL_ERROR - expected 'channel.open'"


def test_a_channel_number_is_used_again_behind_its_close(client):
    client.send(1, m.QueueDeclare(queue="q"))
    client.publish("", "q", b"1")
    client.send(1, m.ChannelClose())
    client.send(1, m.ChannelOpen())
    client.send(1, m.QueueDeclare(queue="q", passive=True))

    assert methods(client) == [
        m.QueueDeclareOk("q", 0, 0),
        m.ChannelCloseOk(),
        m.ChannelOpenOk(),
        m.QueueDeclareOk("q", 1, 0),
    ]


def test_the_first_of_two_errors_is_told_and_what_follows_is_ignored(client):
    client.publish("none", "k", b"1")
    client.send(1, m.ExchangeDeclare(passive=True))
    client.send(1, m.QueueDeclare(queue="q"))
    client.send(1, m.ChannelCloseOk())
    client.send(1, m.ChannelOpen())
    client.send(1, m.QueueDeclare(queue="q", passive=True))

    assert methods(client) == [
        m.ChannelClose(404, "NOT_FOUND - no exchange 'none' in vhost '/'", 60, 40),
        m.ChannelOpenOk(),
        m.ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10),
    ]


def test_a_channel_that_the_server_has_closed_is_not_opened_before_the_client_agrees(client):
    client.send(1, m.ExchangeDeclare(exchange="none", passive=True))
    client.send(1, m.QueueDeclare(queue="q"))
    client.send(1, m.ChannelOpen())

    closed, ended = methods(client)

    assert isinstance(closed, m.ChannelClose)
    text = "CHANNEL_ERROR - second 'channel.open' seen"
    assert ended == m.ConnectionClose(504, text, *m.ChannelOpen.ids)


@pytest.mark.parametrize(
    ("method", "code"),
    [
        (m.BasicConsume(queue="q", consumer_tag="taken"), 530),
        (m.ChannelFlow(active=False), 540),
        (m.ChannelOpen(), 504),
    ],
)
def test_nothing_counts_behind_what_ends_the_connection(client, method, code):
    client.send(1, m.QueueDeclare(queue="q"))
    client.ask(m.BasicConsume(queue="q", consumer_tag="taken"))
    client.send(1, m.BasicGet(queue="q"))
    client.send(1, method)
    client.send(1, m.QueueDeclare(queue="behind"))
    client.send(1, m.BasicGet(queue="q"))

    empty, ended = methods(client)

    assert isinstance(empty, m.BasicGetEmpty)
    assert isinstance(ended, m.ConnectionClose)
    assert ended.reply_code == code
    assert "behind" not in client.broker.server.vhosts["/"].shard.vhost.queues


def test_a_queue_that_the_server_will_name_can_be_used_at_once(client):
    client.send(1, m.QueueDeclare(queue="other"))
    client.send(1, m.QueueDeclare())
    client.send(1, m.QueueBind(exchange="amq.fanout"))
    client.send(1, m.BasicConsume(consumer_tag="c", no_ack=True))
    client.publish("amq.fanout", "", b"1")

    found = client.received()

    assert [type(each.method) for each in found] == [
        m.QueueDeclareOk,
        m.QueueDeclareOk,
        m.QueueBindOk,
        m.BasicConsumeOk,
        m.BasicDeliver,
    ]
    assert found[-1].body == b"1"


def test_a_consumer_that_is_not_answered_yet_has_its_tag_and_can_be_cancelled(client):
    client.send(1, m.QueueDeclare(queue="q"))
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    client.send(1, m.BasicCancel("c"))
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))

    *answers, ended = methods(client)

    assert answers[1:] == [m.BasicConsumeOk("c"), m.BasicCancelOk("c"), m.BasicConsumeOk("c")]
    assert isinstance(ended, m.ConnectionClose)
    assert ended.reply_code == 530


def test_gets_in_a_row_are_answered_one_by_one(client):
    client.send(1, m.QueueDeclare(queue="q"))
    for body in (b"1", b"2"):
        client.publish("", "q", body)
    for tag in (1, 2, 3):
        client.send(1, m.BasicGet(queue="q"))
        if tag == 1:
            client.send(1, m.BasicAck(tag))

    assert methods(client)[1:] == [
        m.BasicGetOk(1, exchange="", routing_key="q", message_count=1),
        m.BasicGetOk(2, exchange="", routing_key="q", message_count=0),
        m.BasicGetEmpty(),
    ]


def test_a_direct_reply_keeps_its_place_between_publishes(client):
    client.send(1, m.ConfirmSelect())
    for key in ("nowhere", f"{REPLY_TO}.gone", "nowhere"):
        client.publish("", key, b"1", mandatory=True)

    selected, *returned = methods(client)

    assert selected == m.ConfirmSelectOk()
    assert [each.routing_key for each in returned if isinstance(each, m.BasicReturn)] == [
        "nowhere",
        f"{REPLY_TO}.gone",
        "nowhere",
    ]
    confirms = [each.delivery_tag for each in returned if isinstance(each, m.BasicAck)]
    assert confirms == sorted(confirms)
    assert confirms[-1] == 3


@pytest.mark.parametrize(
    ("properties", "code", "text"),
    [
        ({}, 403, "write access to exchange 'amq.default' in vhost '/' refused for user 'guest'"),
        ({"expiration": "soon"}, 406, "invalid expiration 'soon'"),
        ({"user_id": "ann"}, 406, "user_id property set to 'ann'"),
    ],
)
def test_a_direct_reply_is_refused_as_any_other_publish(client, properties, code, text):
    vhost = client.broker.server.vhosts["/"]
    write = ".*" if properties else "^events$"
    permissions = commands.SetPermissions(user="guest", configure=".*", write=write, read=".*")
    client.broker.do(vhost, permissions)
    client.send(1, m.BasicConsume(queue=REPLY_TO, consumer_tag="replies", no_ack=True))
    address = client.broker.server.replies["/"].address_of(f"{client.connection.name} (1)")

    client.publish("", address, b"answer", **properties)
    *told, closed = methods(client)

    assert [type(each) for each in told] == [m.BasicConsumeOk]
    assert closed.reply_code == code
    assert text in closed.reply_text


def test_a_reply_that_is_on_its_way_has_no_tag_of_its_own(client):
    client.send(1, m.BasicConsume(queue=REPLY_TO, consumer_tag="replies", no_ack=True))
    client.send(1, m.QueueDeclare(queue="rpc"))
    client.publish("", "rpc", b"question", reply_to=REPLY_TO)
    client.send(1, m.BasicGet(queue="rpc"))
    question = client.received()[-1].properties
    assert question is not None

    client.publish("", question["reply_to"], b"answer")
    client.publish("", "rpc", b"more")
    client.send(1, m.BasicGet(queue="rpc"))
    client.send(1, m.BasicAck(2))
    client.send(1, m.BasicAck(3))
    reply, more, closed = client.received()

    assert (reply.body, more.body) == (b"answer", b"more")
    assert (reply.method.delivery_tag, more.method.delivery_tag) == (2, 2)
    assert isinstance(closed.method, m.ChannelClose)
    assert closed.method.reply_code == 406
    left = RawClient(client.broker).ask(m.QueueDeclare(queue="rpc", passive=True))
    assert left == m.QueueDeclareOk("rpc", 1, 0)  # the question, which nobody acknowledged


def test_a_quorum_queue_just_declared_is_not_deleted_on_a_condition(client):
    client.send(1, m.QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "quorum"}))
    client.send(1, m.QueueDelete(queue="q", if_unused=True))

    declared, ended = methods(client)

    assert declared == m.QueueDeclareOk("q", 0, 0)
    assert isinstance(ended, m.ConnectionClose)
    assert ended.reply_code == 540


def test_a_close_of_the_connection_waits_for_all_channels(client):
    client.send(2, m.ChannelOpen())
    for channel in (1, 2):
        client.send(channel, m.ConfirmSelect())
        client.publish("", "nowhere", b"1", channel)
        client.send(channel, m.ChannelFlow(active=True))
    client.send(0, m.ConnectionClose())
    client.send(1, m.QueueDeclare(queue="ignored"))

    found = client.received()

    for channel in (1, 2):
        kinds = [type(each.method) for each in found if each.channel == channel]
        assert kinds[channel - 1 :] == [m.ConfirmSelectOk, m.BasicAck, m.ChannelFlowOk]
    assert found[-1].method == m.ConnectionCloseOk()
    assert client.connection.vhost is None


# -- connections that end while something waits


@pytest.fixture
def later():
    broker = delayed_broker()
    return RawClient(broker)


def test_what_a_lost_connection_has_published_counts(later):
    later.ask(m.QueueDeclare(queue="q"))
    later.publish("", "q", b"1")
    later.connection.lost()
    other = RawClient(later.broker)

    declared = other.ask(m.QueueDeclare(queue="q", passive=True))

    assert declared == m.QueueDeclareOk("q", 1, 0)
    assert later.received() == []


@pytest.mark.parametrize(
    ("channel", "method"),
    [(0, m.ConnectionClose()), (9, m.QueueDeclare())],
    ids=["closed", "closed for an error"],
)
def test_a_connection_that_hears_nothing_from_the_log_ends_after_a_while(later, channel, method):
    later.publish("", "q", b"1")
    later.send(channel, method)
    later.now_s = later.connection.next_check_s

    before = later.connection.state
    later.connection.check()

    assert before is State.LEAVING
    assert later.connection.state is State.CLOSED
    assert later.received() == []


def test_a_server_that_ends_waits_for_nothing(later):
    later.send(1, m.QueueDeclare(queue="q"))
    later.send(1, m.BasicConsume(queue="q"))

    later.connection.shut_down("CONNECTION_FORCED - shutdown")

    assert later.connection.state is State.CLOSING
    (ended,) = methods(later)
    assert isinstance(ended, m.ConnectionClose)
    assert ended.reply_code == 320


def test_a_client_that_does_not_read_is_held_while_it_waits(later):
    later.send(1, m.QueueDeclare(queue="q"))
    later.send(1, m.BasicConsume(queue="q", consumer_tag="c", no_ack=True))
    later.connection.hold(held=True)
    RawClient(later.broker).publish("", "q", b"1")

    assert methods(later) == [m.QueueDeclareOk("q", 0, 0), m.BasicConsumeOk("c")]
    later.connection.hold(held=False)
    assert [each.body for each in later.received()] == [b"1"]


def test_what_is_on_its_way_when_a_channel_times_out_is_ignored(later):
    later.ask(m.QueueDeclare(queue="q"))
    later.publish("", "q", b"1")
    later.ask(m.BasicGet(queue="q"))
    clock = later.broker.clock
    assert isinstance(clock, ManualClock)
    clock.move_to(clock.now_ms() + 1_800_000)

    later.send(1, m.QueueDeclare(queue="other"))
    later.send(1, m.BasicAck(1))
    later.send(1, m.ChannelFlow(active=True))
    (closed,) = methods(later)

    assert isinstance(closed, m.ChannelClose)
    assert "timed out" in closed.reply_text
    later.send(1, m.ChannelCloseOk())
    assert later.ask(m.ChannelOpen()) == m.ChannelOpenOk()
    assert isinstance(later.ask(m.QueueDeclare(queue="other", passive=True)), m.ChannelClose)
