import pytest

from streaming.amqp import methods as m
from tests.amqp_client import RawClient

REPLY_TO = "amq.rabbitmq.reply-to"


def _asking(broker):
    client = RawClient(broker)
    client.ask(m.BasicConsume(queue=REPLY_TO, consumer_tag="replies", no_ack=True))
    return client


def test_a_reply_goes_straight_to_who_asked(broker):
    asking, answering = _asking(broker), RawClient(broker)
    answering.ask(m.QueueDeclare(queue="rpc"))

    asking.publish("", "rpc", b"question", reply_to=REPLY_TO, correlation_id="7")
    answering.send(1, m.BasicGet(queue="rpc", no_ack=True))
    question = answering.received()[-1]
    assert question.properties is not None
    answering.publish("", question.properties["reply_to"], b"answer", correlation_id="7")
    (reply,) = asking.received()

    assert isinstance(reply.method, m.BasicDeliver)
    assert (reply.method.consumer_tag, reply.method.delivery_tag) == ("replies", 1)
    assert (reply.properties, reply.body) == ({"correlation_id": "7"}, b"answer")


def test_a_request_needs_a_consumer_of_replies(broker):
    client = RawClient(broker)

    client.publish("", "rpc", b"question", reply_to=REPLY_TO)
    (closed,) = client.received()

    assert closed.method == m.ChannelClose(
        406, "PRECONDITION_FAILED - fast reply consumer does not exist", 60, 40
    )


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("properties", [{}, {"user_id": "other"}, {"expiration": "x"}])
def test_where_a_request_goes_is_looked_at_before_who_gets_the_replies(
    broker, transactional, properties
):
    client = RawClient(broker)
    if transactional:
        client.ask(m.TxSelect())
    client.send(1, m.ExchangeDeclare(exchange="late", nowait=True))

    client.publish("missing", "rpc", b"question", reply_to=REPLY_TO, **properties)
    missing = client.received()[-1]
    other = RawClient(broker)
    other.publish("late", "rpc", b"question", reply_to=REPLY_TO, **properties)
    late = other.received()[-1]

    assert missing.method == m.ChannelClose(
        404, "NOT_FOUND - no exchange 'missing' in vhost '/'", 60, 40
    )
    assert late.method == m.ChannelClose(
        406, "PRECONDITION_FAILED - fast reply consumer does not exist", 60, 40
    )


@pytest.mark.parametrize("transactional", [False, True])
def test_a_mandatory_reply_is_delivered_and_comes_back(broker, transactional):
    asking, answering = _asking(broker), RawClient(broker)
    answering.ask(m.QueueDeclare(queue="rpc"))
    asking.publish("", "rpc", b"question", reply_to=REPLY_TO)
    answering.send(1, m.BasicGet(queue="rpc", no_ack=True))
    address = (answering.received()[-1].properties or {})["reply_to"]
    if transactional:
        answering.ask(m.TxSelect())

    answering.publish("", address, b"answer", mandatory=True)
    (reply,) = asking.received()
    if transactional:
        assert answering.received() == []
        answering.send(1, m.TxCommit())
    returned = answering.received()[0]

    assert (reply.method.consumer_tag, reply.body) == ("replies", b"answer")
    assert returned.method == m.BasicReturn(312, "NO_ROUTE", "", address)
    assert returned.body == b"answer"


def test_replies_cannot_be_acknowledged(broker):
    client = RawClient(broker)

    closed = client.ask(m.BasicConsume(queue=REPLY_TO))

    assert isinstance(closed, m.ChannelClose)
    assert closed.reply_text == "PRECONDITION_FAILED - reply consumer cannot acknowledge"


def test_a_reply_to_nobody_comes_back_if_it_is_mandatory(broker):
    client = RawClient(broker)

    client.publish("", f"{REPLY_TO}.gone", b"answer", mandatory=True)

    assert [type(each.method) for each in client.received()] == [m.BasicReturn]


def test_a_reply_has_the_tag_of_the_delivery_that_comes_next(broker):
    asking, other = _asking(broker), RawClient(broker)
    asking.ask(m.QueueDeclare(queue="q"))
    other.ask(m.QueueDeclare(queue="rpc"))
    asking.publish("", "rpc", b"?", reply_to=REPLY_TO)
    other.send(1, m.BasicGet(queue="rpc", no_ack=True))
    question = other.received()[-1].properties
    assert question is not None

    for body in (b"1", b"2"):
        asking.publish("", "q", body)
        asking.send(1, m.BasicGet(queue="q"))
        other.publish("", question["reply_to"], b"reply")
    tags = [
        each.method.delivery_tag
        for each in asking.received()
        if isinstance(each.method, m.BasicGetOk | m.BasicDeliver)
    ]
    asking.send(1, m.BasicReject(1, requeue=True))
    again = asking.ask(m.BasicGet(queue="q"))

    assert tags == [1, 2, 2, 3]
    assert isinstance(again, m.BasicGetOk)
    assert again.delivery_tag == 3
    assert isinstance(asking.ask(m.BasicAck(4)), m.ChannelClose)


@pytest.mark.parametrize("passive", [False, True])
def test_the_address_of_replies_is_declared_without_a_consumer(passive, broker):
    client = RawClient(broker)

    declared = client.ask(m.QueueDeclare(queue=REPLY_TO, passive=passive, durable=True))
    consumed = client.ask(m.BasicConsume(queue="", consumer_tag="c", no_ack=True))

    assert declared == m.QueueDeclareOk(REPLY_TO, 0, 1)
    assert consumed == m.BasicConsumeOk("c")


@pytest.mark.parametrize("passive", [False, True])
def test_an_address_of_replies_that_nobody_has_is_not_declared(passive, broker):
    closed = RawClient(broker).ask(m.QueueDeclare(queue=f"{REPLY_TO}.none", passive=passive))

    assert isinstance(closed, m.ChannelClose)
    assert closed.reply_code == 404


def test_a_consumer_of_a_queue_may_have_the_tag_of_that_of_replies(broker):
    client = _asking(broker)
    client.ask(m.QueueDeclare(queue="q"))

    assert client.ask(m.BasicConsume(queue="q", consumer_tag="replies")) == m.BasicConsumeOk(
        "replies"
    )
    assert client.ask(m.BasicCancel(consumer_tag="replies")) == m.BasicCancelOk("replies")
    client.publish("", "q", b"x")
    (delivered,) = client.received()
    client.publish("", "q", b"question", reply_to=REPLY_TO)
    closed = client.received()[-1]

    assert isinstance(delivered.method, m.BasicDeliver)
    assert closed.method == m.ChannelClose(
        406, "PRECONDITION_FAILED - fast reply consumer does not exist", 60, 40
    )
