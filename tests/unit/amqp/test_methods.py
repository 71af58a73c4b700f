import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame

from streaming.amqp import methods as m
from streaming.amqp.errors import AmqpError
from streaming.amqp.method_codec import read_method, write_method

EXAMPLES = [
    (
        m.QueueDeclare(0, "q", passive=True, durable=False, exclusive=True, auto_delete=False),
        commands.Queue.Declare(queue="q", passive=True, exclusive=True),
    ),
    (
        m.ExchangeDeclare(0, "x", "topic", durable=True, arguments={"alternate-exchange": "a"}),
        commands.Exchange.Declare(
            exchange="x",
            exchange_type="topic",
            durable=True,
            arguments={"alternate-exchange": "a"},
        ),
    ),
    (m.BasicQos(0, 500, is_global=True), commands.Basic.Qos(prefetch_count=500, global_=True)),
    (
        m.BasicConsume(0, "q", "tag", no_ack=True, exclusive=True),
        commands.Basic.Consume(queue="q", consumer_tag="tag", no_ack=True, exclusive=True),
    ),
    (
        m.BasicNack(7, multiple=True, requeue=False),
        commands.Basic.Nack(delivery_tag=7, multiple=True, requeue=False),
    ),
    (
        m.ChannelClose(404, "NOT_FOUND - no queue", 50, 10),
        commands.Channel.Close(
            reply_code=404, reply_text="NOT_FOUND - no queue", class_id=50, method_id=10
        ),
    ),
    (m.ConnectionTuneOk(10, 4096, 60), commands.Connection.TuneOk(10, 4096, 60)),
]


@pytest.mark.parametrize(("ours", "theirs"), EXAMPLES)
def test_methods_are_written_as_another_library_writes_them(ours, theirs):
    payload = frame.marshal(theirs, 1)[7:-1]

    assert write_method(ours) == payload
    assert read_method(payload) == ours


@pytest.mark.parametrize("kind", m.METHODS.values(), ids=lambda kind: kind.__name__)
def test_every_method_survives_the_wire(kind):
    method = kind()

    assert read_method(write_method(method)) == method


def test_the_methods_are_those_of_another_library():
    known = {(number >> 16, number & 0xFFFF) for number in commands.INDEX_MAPPING}

    assert known - m.METHODS.keys() == set()


@given(st.sampled_from(list(m.METHODS)), st.binary(max_size=40))
def test_fields_that_cannot_be_read_are_an_error_of_the_protocol(ids, fields):
    payload = bytes((0, ids[0], 0, ids[1])) + fields
    refused = None
    try:
        read_method(payload)
    except AmqpError as failure:
        refused = failure

    assert refused is None or refused.code in {501, 502}


def test_an_unknown_method_is_a_syntax_error():
    with pytest.raises(AmqpError, match=r"502 SYNTAX_ERROR - unknown method 60\.99"):
        read_method(b"\0\x3c\0\x63")
