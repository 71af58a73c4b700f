import tracemalloc

import pytest

from streaming.amqp import methods as m
from streaming.amqp import transactions
from streaming.amqp.frames import BODY, HEADER, METHOD, frame
from streaming.amqp.method_codec import write_method
from tests.amqp_client import RawClient, Received
from tests.delayed_broker import DelayedBroker
from topology.values import Table


def test_a_message_is_published_and_got_with_its_properties_untouched(client):
    client.ask(m.QueueDeclare(queue="q"))

    client.publish("", "q", b"body", message_id="m1", headers={"a": 1}, priority=3)
    client.send(1, m.BasicGet(queue="q"))
    (got,) = client.received()

    assert got == Received(
        1,
        m.BasicGetOk(1, redelivered=False, exchange="", routing_key="q", message_count=0),
        {"message_id": "m1", "headers": {"a": 1}, "priority": 3},
        b"body",
    )
    assert client.ask(m.BasicGet(queue="q")) == m.BasicGetEmpty()


def test_a_large_body_travels_in_frames_of_the_negotiated_size(broker):
    client = RawClient(broker, frame_max=4096)
    client.ask(m.QueueDeclare(queue="q"))
    body = bytes(range(256)) * 40

    client.send(1, m.BasicPublish(exchange="", routing_key="q"))
    client.raw(frame(HEADER, 1, b"\0\x3c\0\0" + len(body).to_bytes(8) + b"\0\0"))
    for start in range(0, len(body), 1000):
        client.raw(frame(BODY, 1, body[start : start + 1000]))
    client.send(1, m.BasicGet(queue="q", no_ack=True))

    assert client.received()[0].body == body


def test_publishes_in_a_row_are_confirmed_together(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.ask(m.ConfirmSelect())

    for number in range(3):
        client.publish("", "q", b"%d" % number)

    assert [each.method for each in client.received()] == [m.BasicAck(3, multiple=True)]


def test_a_mandatory_message_without_a_queue_comes_back_before_its_confirm(client):
    client.ask(m.ConfirmSelect())

    client.publish("", "nowhere", b"lost", mandatory=True, app_id="a")

    assert client.received() == [
        Received(1, m.BasicReturn(312, "NO_ROUTE", "", "nowhere"), {"app_id": "a"}, b"lost"),
        Received(1, m.BasicAck(1, multiple=False)),
    ]


def test_a_full_queue_is_told_by_a_nack(client):
    limits: Table = {"x-max-length": 1, "x-overflow": "reject-publish"}
    client.ask(m.QueueDeclare(queue="q", arguments=limits))
    client.ask(m.ConfirmSelect())

    client.publish("", "q", b"1")
    client.publish("", "q", b"2")

    assert [each.method for each in client.received()] == [
        m.BasicAck(1, multiple=False),
        m.BasicNack(2, multiple=False, requeue=True),
    ]
    client.publish("", "q", b"3")
    assert client.received()[0].method == m.BasicNack(3, multiple=True, requeue=True)


def test_a_message_that_one_full_queue_hands_to_its_dead_letters_stays_in_the_others(client):
    limits: Table = {
        "x-max-length": 0,
        "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "",
    }
    for queue, arguments in (("full", limits), ("other", {})):
        client.ask(m.QueueDeclare(queue=queue, arguments=arguments))
        client.ask(m.QueueBind(queue=queue, exchange="amq.fanout"))

    client.publish("amq.fanout", "k", b"1")
    client.send(1, m.BasicGet(queue="other"))

    assert client.received()[0].body == b"1"


def test_consumers_get_what_their_prefetch_allows(client):
    client.ask(m.QueueDeclare(queue="q"))
    for number in range(4):
        client.publish("", "q", b"%d" % number)
    client.ask(m.BasicQos(prefetch_count=2))
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    started, *first = client.received()

    client.send(1, m.BasicAck(2, multiple=True))
    second = client.received()

    assert started.method == m.BasicConsumeOk("c")
    assert [each.body for each in first] == [b"0", b"1"]
    assert [each.body for each in second] == [b"2", b"3"]
    assert second[0].method == m.BasicDeliver("c", 3, redelivered=False, routing_key="q")


def test_a_rejected_message_is_dead_lettered_with_its_history(client):
    to_failed: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"}
    client.ask(m.QueueDeclare(queue="failed"))
    client.ask(m.QueueDeclare(queue="work", arguments=to_failed))
    client.publish("", "work", b"1", headers={"own": True}, expiration="60000")
    client.ask(m.BasicGet(queue="work"))

    client.send(1, m.BasicReject(1, requeue=False))
    client.send(1, m.BasicGet(queue="failed"))
    (dead,) = client.received()

    assert dead.properties is not None
    headers = dead.properties["headers"]
    assert "expiration" not in dead.properties
    assert headers["own"] is True
    assert headers["x-death"][0]["reason"] == "rejected"
    assert headers["x-death"][0]["original-expiration"] == "60000"


def test_a_routing_key_from_arguments_is_cut_to_what_a_delivery_has_room_for(client):
    client.ask(m.ExchangeDeclare(exchange="dlx", type="fanout"))
    client.ask(m.QueueDeclare(queue="dead"))
    client.ask(m.QueueBind(queue="dead", exchange="dlx"))
    arguments: Table = {
        "x-dead-letter-exchange": "dlx",
        "x-dead-letter-routing-key": "k" * 300,
        "x-message-ttl": 0,
    }
    client.ask(m.QueueDeclare(queue="q", arguments=arguments))
    client.publish("", "q", b"1")

    got = client.ask(m.BasicGet(queue="dead"))

    assert isinstance(got, m.BasicGetOk)
    assert got.routing_key == "k" * 255


def test_requeued_messages_are_redelivered(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.publish("", "q", b"1")
    client.ask(m.BasicGet(queue="q"))

    client.send(1, m.BasicNack(1, requeue=True))
    again = client.ask(m.BasicGet(queue="q"))

    assert isinstance(again, m.BasicGetOk)
    assert again.redelivered


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (
            m.QueueDeclare(queue="none", passive=True),
            404,
            "NOT_FOUND - no queue 'none' in vhost '/'",
        ),
        (m.BasicConsume(queue="none"), 404, "NOT_FOUND - no queue 'none' in vhost '/'"),
        (m.BasicGet(queue="none"), 404, "NOT_FOUND - no queue 'none' in vhost '/'"),
        (m.QueueBind(), 404, "NOT_FOUND - no previously declared queue"),
        (m.BasicAck(7), 406, "PRECONDITION_FAILED - unknown delivery tag 7"),
        (m.BasicReject(7), 406, "PRECONDITION_FAILED - unknown delivery tag 7"),
        (m.TxCommit(), 406, "PRECONDITION_FAILED - channel is not transactional"),
        (m.ExchangeDeclare(exchange="amq.x"), 403, "contains reserved prefix"),
    ],
)
def test_an_error_closes_the_channel_and_the_number_can_be_used_again(client, method, code, text):
    closed = client.ask(method)

    assert isinstance(closed, m.ChannelClose)
    assert (closed.reply_code, closed.class_id, closed.method_id) == (code, *method.ids)
    assert text in closed.reply_text
    client.send(1, m.QueueDeclare(queue="ignored"))
    client.send(1, m.ChannelCloseOk())
    assert client.ask(m.ChannelOpen()) == m.ChannelOpenOk()
    assert client.ask(m.QueueDeclare(queue="q")) == m.QueueDeclareOk("q", 0, 0)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (m.BasicQos(prefetch_size=1), "NOT_IMPLEMENTED - prefetch_size!=0 (1)"),
        (m.BasicRecover(requeue=False), "NOT_IMPLEMENTED - requeue=false"),
        (m.ChannelFlow(active=False), "NOT_IMPLEMENTED - active=false"),
    ],
)
def test_what_rabbitmq_does_not_implement_ends_the_connection(client, method, text):
    closed = client.ask(method)

    assert isinstance(closed, m.ConnectionClose)
    assert (closed.reply_code, closed.reply_text) == (540, text)


def test_a_publish_to_no_exchange_closes_the_channel_with_the_method_of_the_publish(client):
    client.publish("none", "k", b"1")
    (closed,) = client.received()

    assert closed.method == m.ChannelClose(
        404, "NOT_FOUND - no exchange 'none' in vhost '/'", 60, 40
    )


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"expiration": "\udcff\udcfe"}, "invalid expiration '\u00ff\u00fe': no_integer"),
        (
            {"user_id": "\udcff\udcfe"},
            "user_id property set to '\u00ff\u00fe' but authenticated user was 'guest'",
        ),
    ],
    ids=["expiration", "user"],
)
def test_a_property_that_is_not_utf8_is_refused_for_what_it_says(client, properties, text):
    client.publish("", "q", b"1", **properties)
    (closed,) = client.received()

    assert closed.method == m.ChannelClose(406, f"PRECONDITION_FAILED - {text}", 60, 40)


def test_a_reply_address_need_not_be_utf8(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.publish("", "q", b"1", reply_to="\udcff\udcfe")
    client.send(1, m.BasicGet(queue="q"))
    (got,) = client.received()

    assert (got.properties, got.body) == ({"reply_to": "\udcff\udcfe"}, b"1")


def test_a_missing_exchange_is_reported_before_a_user_id_that_is_not_the_users(client):
    client.publish("none", "k", b"1", user_id="other")
    (closed,) = client.received()

    assert closed.method == m.ChannelClose(
        404, "NOT_FOUND - no exchange 'none' in vhost '/'", 60, 40
    )


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (m.QueueDeclare(passive=True), 404, "NOT_FOUND - no queue '' in vhost '/'"),
        (
            m.ExchangeDeclare(passive=True),
            403,
            "ACCESS_REFUSED - operation not permitted on the default exchange",
        ),
    ],
)
def test_a_passive_declaration_without_a_name_is_refused(client, method, code, text):
    client.ask(m.QueueDeclare(queue="q"))

    assert client.ask(method) == m.ChannelClose(code, text, *method.ids)


def test_the_deletion_of_a_queue_is_answered_before_its_consumers_are_cancelled(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.ask(m.BasicConsume(queue="q", consumer_tag="c"))

    client.send(1, m.QueueDelete(queue="q"))

    assert [each.method for each in client.received()] == [
        m.QueueDeleteOk(0),
        m.BasicCancel("c", nowait=True),
    ]


@pytest.mark.parametrize("tag", [0, 2, 1])
def test_a_delivery_can_be_acked_only_once_in_a_transaction(client, tag):
    client.ask(m.QueueDeclare(queue="q"))
    client.publish("", "q", b"1")
    client.ask(m.BasicGet(queue="q"))
    client.ask(m.TxSelect())

    client.send(1, m.BasicAck(1))
    (closed,) = client.received() or [client.ask(m.BasicAck(tag))]

    text = f"PRECONDITION_FAILED - unknown delivery tag {tag}"
    assert closed == m.ChannelClose(406, text, 60, 80)


def test_a_transaction_may_not_take_any_amount_of_memory(client, monkeypatch):
    monkeypatch.setattr(transactions, "MAX_BYTES", 10_000)
    client.ask(m.QueueDeclare(queue="q"))
    client.ask(m.TxSelect())
    for _ in range(2):
        client.publish("", "q", bytes(4000))
        client.ask(m.TxRollback())
    client.publish("", "q", bytes(4000))
    client.publish("", "q", bytes(4000))
    client.publish("", "q", bytes(4000))

    (closed,) = client.received()

    text = "PRECONDITION_FAILED - publishes of a transaction take more than 10000 bytes"
    assert closed.method == m.ChannelClose(406, text, *m.BasicPublish.ids)
    assert client.broker.server.vhosts["/"].uncommitted_bytes == 0


@pytest.mark.parametrize(("most", "closes"), [(34, False), (33, True)])
def test_a_publish_in_a_transaction_has_as_many_queues_as_a_record_can_name(client, most, closes):
    client.broker.server.vhosts["/"].max_routed_bytes = most
    for queue in ("queue-one", "queue-two", "q"):
        client.ask(m.QueueDeclare(queue=queue))
    for queue in ("queue-one", "q"):
        client.ask(m.QueueBind(queue=queue, exchange="amq.fanout"))
    client.ask(m.TxSelect())
    client.publish("amq.fanout", "", b"x")
    client.publish("", "queue-two", b"x")
    client.publish("", "gone", b"x")

    found = client.received() or [client.ask(m.TxCommit())]

    text = f"PRECONDITION_FAILED - the names of its 2 queues take more than {most} bytes"
    if closes:
        assert found[0].method == m.ChannelClose(406, text, *m.BasicPublish.ids)
    else:
        assert found == [m.TxCommitOk()]


def test_a_rollback_takes_back_acks_and_a_commit_acks_what_was_delivered_before_them(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.ask(m.TxSelect())
    client.publish("", "q", b"1")
    client.publish("", "q", b"2")
    client.ask(m.TxCommit())
    client.ask(m.BasicGet(queue="q"))
    client.send(1, m.BasicAck(1))
    client.ask(m.TxRollback())

    client.send(1, m.BasicAck(0, multiple=True))
    client.ask(m.BasicGet(queue="q"))
    client.ask(m.TxCommit())
    client.ask(m.BasicRecover(requeue=True))

    assert client.ask(m.QueueDeclare(queue="q", passive=True)) == m.QueueDeclareOk("q", 1, 0)


def test_an_ack_of_tag_0_alone_is_an_ack_of_no_delivery(client):
    client.send(1, m.BasicAck(0))
    (closed,) = client.received()

    assert closed.method == m.ChannelClose(
        406, "PRECONDITION_FAILED - unknown delivery tag 0", 60, 80
    )


def test_recovery_is_answered_before_what_is_delivered_again(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.publish("", "q", b"1")
    client.ask(m.BasicConsume(queue="q", consumer_tag="c"))

    client.send(1, m.BasicRecover(requeue=True))

    assert [each.method for each in client.received()] == [
        m.BasicRecoverOk(),
        m.BasicDeliver("c", 2, redelivered=True, exchange="", routing_key="q"),
    ]


def test_what_a_transaction_has_settled_is_not_recovered(client):
    client.ask(m.QueueDeclare(queue="q"))
    for body in (b"1", b"2"):
        client.publish("", "q", body)
    client.ask(m.BasicConsume(queue="q", consumer_tag="c"))
    client.received()
    client.ask(m.TxSelect())
    client.send(1, m.BasicAck(1))

    client.send(1, m.BasicRecover(requeue=True))

    assert [each.method for each in client.received()] == [
        m.BasicRecoverOk(),
        m.BasicDeliver("c", 3, redelivered=True, exchange="", routing_key="q"),
    ]
    assert client.ask(m.TxCommit()) == m.TxCommitOk()


def test_a_user_id_that_is_not_the_users_is_refused_before_the_commit(client):
    client.ask(m.TxSelect())

    client.publish("", "q", b"1", user_id="other")
    (closed,) = client.received()

    assert isinstance(closed.method, m.ChannelClose)
    assert closed.method.reply_text == (
        "PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'guest'"
    )


def test_a_commit_that_is_incomplete_has_no_other_answer(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.ask(m.TxSelect())
    client.publish("", "q", b"1")
    client.publish("", "missing", b"2", mandatory=True)
    client.ask(m.QueueDelete(queue="q"))

    client.send(1, m.TxCommit())

    assert [each.method for each in client.received()] == [
        m.BasicReturn(312, "NO_ROUTE", "", "missing"),
        m.ChannelClose(406, "PRECONDITION_FAILED - partial tx completion", *m.TxCommit.ids),
    ]


def test_a_publish_in_a_transaction_goes_where_it_was_routed(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.ask(m.ExchangeDeclare(exchange="x", type="fanout"))
    client.ask(m.QueueBind(queue="q", exchange="x"))
    client.ask(m.TxSelect())
    client.publish("x", "k", b"1")
    client.ask(m.ExchangeDelete(exchange="x"))

    assert client.ask(m.TxCommit()) == m.TxCommitOk()
    assert client.ask(m.QueueDeclare(queue="q", passive=True)) == m.QueueDeclareOk("q", 1, 0)


def test_settlements_of_a_transaction_follow_its_publishes_in_the_order_of_deliveries(client):
    dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.ask(m.QueueDeclare(queue="q", arguments=dead))
    client.ask(m.QueueDeclare(queue="dead"))
    for body in (b"1", b"2", b"3"):
        client.publish("", "q", body)
        client.ask(m.BasicGet(queue="q"))
    client.ask(m.TxSelect())
    client.send(1, m.BasicReject(3, requeue=False))
    client.send(1, m.BasicNack(0, multiple=True, requeue=False))
    client.publish("", "dead", b"new")

    assert client.ask(m.TxCommit()) == m.TxCommitOk()
    client.received()
    for _ in range(4):
        client.send(1, m.BasicGet(queue="dead", no_ack=True))
    assert [one.body for one in client.received()] == [b"new", b"1", b"2", b"3"]


def test_content_where_a_method_must_be_ends_the_connection(client):
    client.raw(frame(BODY, 1, b"x"))
    (closed,) = client.received()

    assert isinstance(closed.method, m.ConnectionClose)
    assert closed.method.reply_code == 505


def test_a_message_that_is_too_large_closes_the_channel_before_it_is_read(client):
    client.send(1, m.BasicPublish(exchange="", routing_key="q"))
    client.raw(frame(HEADER, 1, b"\0\x3c\0\0" + (1 << 30).to_bytes(8) + b"\0\0"))
    (closed,) = client.received()

    assert isinstance(closed.method, m.ChannelClose)
    assert "is larger than configured max size 16777216" in closed.method.reply_text


@pytest.mark.parametrize(
    ("body", "properties", "text"),
    [
        (b"12345", {}, "message size 5 is larger than configured max size 4"),
        (
            b"1234",
            {"type": "x" * 20},
            "properties of 23 bytes are larger than configured max size 20",
        ),
    ],
)
def test_a_vhost_may_limit_messages_so_that_its_log_can_take_them(client, body, properties, text):
    vhost = client.broker.server.vhosts["/"]
    vhost.max_body_bytes, vhost.max_property_bytes = 4, 20
    client.ask(m.QueueDeclare(queue="q"))

    client.publish("", "q", b"1234", type="x" * 17)
    client.publish("", "q", body, **properties)

    [closed] = client.received()
    assert isinstance(closed.method, m.ChannelClose)
    assert (closed.method.reply_code, closed.method.reply_text) == (
        *(406, f"PRECONDITION_FAILED - {text}"),
    )
    assert vhost.ready_in("q") == 1


def test_a_committed_transaction_publishes_and_settles(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.publish("", "q", b"1")
    client.ask(m.BasicGet(queue="q"))
    client.ask(m.TxSelect())

    client.publish("", "q", b"2")
    client.send(1, m.BasicAck(1))
    before = client.ask(m.QueueDeclare(queue="q", passive=True))
    assert client.ask(m.TxCommit()) == m.TxCommitOk()
    after = client.ask(m.QueueDeclare(queue="q", passive=True))

    assert before == m.QueueDeclareOk("q", 0, 0)
    assert after == m.QueueDeclareOk("q", 1, 0)


def test_a_rolled_back_transaction_leaves_everything_as_it_was(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.publish("", "q", b"1")
    client.ask(m.BasicGet(queue="q"))
    client.ask(m.TxSelect())
    client.publish("", "q", b"2")
    client.send(1, m.BasicAck(1))

    client.ask(m.TxRollback())
    client.send(1, m.BasicAck(1))

    assert client.ask(m.TxCommit()) == m.TxCommitOk()
    assert client.ask(m.QueueDeclare(queue="q", passive=True)) == m.QueueDeclareOk("q", 0, 0)


def test_a_client_is_told_that_its_consumer_is_gone(client):
    other = RawClient(client.broker)
    client.ask(m.QueueDeclare(queue="q"))
    client.ask(m.BasicConsume(queue="q", consumer_tag="c"))

    other.ask(m.QueueDelete(queue="q"))

    assert [each.method for each in client.received()] == [m.BasicCancel("c", nowait=True)]


def test_the_last_declared_queue_needs_no_name(client):
    declared = client.ask(m.QueueDeclare())

    assert isinstance(declared, m.QueueDeclareOk)
    assert declared.queue.startswith("amq.gen-")
    assert client.ask(m.QueueBind(exchange="amq.fanout")) == m.QueueBindOk()
    client.publish("amq.fanout", "", b"1")
    assert isinstance(client.ask(m.BasicGet()), m.BasicGetOk)


def test_messages_are_dropped_when_no_queue_holds_them(client):
    client.ask(m.QueueDeclare(queue="q"))
    stored = client.broker.server.vhosts["/"].stored
    client.publish("", "q", b"1")
    client.publish("", "nowhere", b"2")

    client.ask(m.BasicGet(queue="q"))
    assert len(stored) == 1
    client.send(1, m.BasicAck(1))
    client.received()

    assert len(stored) == 0


def test_a_publisher_may_only_name_itself_in_the_user_id(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.publish("", "q", b"1", user_id="guest")
    client.publish("", "q", b"2", user_id="ann")
    (closed,) = client.received()

    assert closed.method == m.ChannelClose(
        406,
        "PRECONDITION_FAILED - user_id property set to 'ann' but authenticated user was 'guest'",
        60,
        40,
    )


def test_an_impersonator_may_name_others(client):
    client.connection.impersonates = True
    client.ask(m.QueueDeclare(queue="q"))

    client.publish("", "q", b"1", user_id="ann")

    assert isinstance(client.ask(m.BasicGet(queue="q")), m.BasicGetOk)


def test_what_a_refused_publish_returns_to_its_queue_reaches_another_consumer(client):
    other = RawClient(client.broker)
    client.ask(m.QueueDeclare(queue="q"))
    for body in (b"1", b"2"):
        client.publish("", "q", body)
        client.ask(m.BasicGet(queue="q"))
    other.ask(m.BasicConsume(queue="q", consumer_tag="c", no_ack=True))

    client.publish("none", "k", b"refused")
    (closed,) = client.received()
    delivered = other.received()

    assert isinstance(closed.method, m.ChannelClose)
    assert [each.body for each in delivered] == [b"1", b"2"]
    assert [each.method for each in delivered] == [
        m.BasicDeliver("c", tag, redelivered=True, routing_key="q") for tag in (1, 2)
    ]
    assert len(client.broker.server.vhosts["/"].stored) == 0


def test_a_publish_is_confirmed_although_the_channel_closes_in_the_same_breath(client):
    client.ask(m.ConfirmSelect())
    publish = frame(METHOD, 1, write_method(m.BasicPublish(exchange="", routing_key="none")))
    header = frame(HEADER, 1, b"\0\x3c\0\0" + bytes(8) + b"\0\0")

    client.raw(publish + header + frame(METHOD, 1, write_method(m.ChannelClose())))

    assert [each.method for each in client.received()] == [m.BasicAck(1), m.ChannelCloseOk()]


def test_qos_is_answered_before_what_it_lets_through(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.ask(m.BasicConsume(queue="q", consumer_tag="t"))
    client.ask(m.BasicQos(prefetch_count=1, is_global=True))
    client.publish("", "q", b"1")
    client.publish("", "q", b"2")
    client.received()

    client.send(1, m.BasicQos(prefetch_count=2, is_global=True))

    answer, delivery = client.received()
    assert answer.method == m.BasicQosOk()
    assert delivery.body == b"2"


@pytest.mark.parametrize(
    ("condition", "flag"), [({"if_unused": True}, "if-unused"), ({"if_empty": True}, "if-empty")]
)
def test_a_quorum_queue_is_not_deleted_on_a_condition(client, condition, flag):
    client.ask(m.QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "quorum"}))

    refused = client.ask(m.QueueDelete(queue="q", **condition))

    text = f"queue.delete operations with {flag} flag set are not supported by quorum queues"
    assert isinstance(refused, m.ConnectionClose)
    assert refused.reply_code == 540
    assert refused.reply_text == (f"NOT_IMPLEMENTED - cannot delete queue 'q' in vhost '/'. {text}")


def test_a_delivery_that_nobody_settles_closes_its_channel_and_others_get_it(broker, client):
    client.ask(m.QueueDeclare(queue="q"))
    client.ask(m.BasicConsume(queue="q", consumer_tag="slow"))
    client.publish("", "q", b"1")
    other = RawClient(broker)
    other.ask(m.BasicConsume(queue="q", consumer_tag="other"))
    client.received()

    broker.clock.move_to(broker.clock.now_ms() + 1_800_000)
    broker.server.vhosts["/"].advance()

    (closed,) = client.received()
    assert closed.method == m.ChannelClose(
        406,
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value "
        "used: 1800000 ms. This timeout value can be configured, see consumers doc guide to learn "
        "more",
        0,
        0,
    )
    (delivery,) = other.received()
    assert delivery.body == b"1"
    client.send(1, m.BasicAck(1))
    client.send(1, m.ChannelCloseOk())
    assert client.ask(m.ChannelOpen()) == m.ChannelOpenOk()


def test_the_timeout_of_a_queue_is_said_to_the_client_whose_channel_it_closes(broker, client):
    timeout: Table = {"x-consumer-timeout": 4_000}
    client.ask(m.QueueDeclare(queue="q", arguments=timeout))
    client.publish("", "q", b"x")
    client.ask(m.BasicConsume(queue="q"))

    broker.clock.move_to(broker.clock.now_ms() + 4_000)
    broker.server.vhosts["/"].advance()

    (closed,) = client.received()
    assert isinstance(closed.method, m.ChannelClose)
    assert "timed out. Timeout value used: 4000 ms. This timeout" in closed.method.reply_text


def test_a_queue_that_names_no_type_has_its_vhosts_default_if_it_can(broker):
    broker.load({"vhosts": [{"name": "/", "default_queue_type": "quorum"}]})
    client = RawClient(broker)
    durable = m.QueueDeclare(queue="durable", durable=True)
    classic = m.QueueDeclare(queue="classic", durable=True, arguments={"x-queue-type": "classic"})
    short = m.QueueDeclare(queue="short")
    passing = m.QueueDeclare(queue="passing", durable=True, auto_delete=True)
    own = m.QueueDeclare(queue="own", durable=True, exclusive=True)

    for method in (durable, durable, classic, short, passing, own):
        assert isinstance(client.ask(method), m.QueueDeclareOk)

    queues = broker.server.vhosts["/"].shard.vhost.queues
    types = {name: queue.queue_type for name, queue in queues.items()}
    others = dict.fromkeys(("classic", "short", "passing", "own"), "classic")
    assert types == {"durable": "quorum", **others}


def test_names_that_are_declared_are_on_one_line(client):
    client.ask(m.ExchangeDeclare(exchange="e\r\nx", type="fanout"))
    client.ask(m.ExchangeDeclare(exchange="f\n", type="fanout"))

    assert client.ask(m.QueueDeclare(queue="\nq\r\nu")) == m.QueueDeclareOk("qu", 0, 0)
    assert client.ask(m.QueueDeclare(queue="q\nu", passive=True)) == m.QueueDeclareOk("qu", 0, 0)
    assert client.ask(m.ExchangeDeclare(exchange="ex\n", passive=True)) == m.ExchangeDeclareOk()
    assert client.ask(m.ExchangeBind(destination="f\r", source="\nex")) == m.ExchangeBindOk()
    assert client.ask(m.QueueBind(queue="qu\n", exchange="f\n")) == m.QueueBindOk()
    client.publish("ex", "", b"1")
    assert isinstance(client.ask(m.BasicGet(queue="qu", no_ack=True)), m.BasicGetOk)
    assert client.ask(m.QueueUnbind(queue="q\nu", exchange="\nf")) == m.QueueUnbindOk()
    assert client.ask(m.ExchangeDelete(exchange="e\nx")) == m.ExchangeDeleteOk()
    assert client.ask(m.QueueDelete(queue="\rqu")) == m.QueueDeleteOk(0)


def test_a_purge_takes_the_name_of_its_queue_as_it_is(client):
    client.ask(m.QueueDeclare(queue="q"))

    assert isinstance(client.ask(m.QueuePurge(queue="q\n")), m.ChannelClose)


def test_what_empty_messages_take_in_many_queues_is_counted(client):
    vhost = client.broker.server.vhosts["/"]
    for number in range(20):
        client.ask(m.QueueDeclare(queue=f"q{number}"))
        client.ask(m.QueueBind(queue=f"q{number}", exchange="amq.fanout"))

    client.publish("", "q0", b"")
    client.received()
    one = vhost.resident_bytes
    client.publish("amq.fanout", "", b"")
    client.received()
    assert vhost.resident_bytes > 8 * one > 0

    for number in range(20):
        client.ask(m.QueuePurge(queue=f"q{number}"))
    assert vhost.resident_bytes == 0


def test_what_waits_for_a_client_that_does_not_read_shares_the_bodies_of_the_queue(broker):
    client = RawClient(broker)
    client.send(1, m.QueueDeclare(queue="q"))
    for _ in range(600):
        client.publish("", "q", bytes(4000))
    client.received()

    tracemalloc.start()
    client.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    if isinstance(broker, DelayedBroker):
        broker.settle()
    taken, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert client.connection.output.waiting_bytes > 600 * 4000
    assert taken < 600 * 4000
    assert [each.body for each in client.received()[-600:]] == [bytes(4000)] * 600


def test_what_a_transaction_returns_is_delivered_again_after_its_commit(client):
    client.ask(m.QueueDeclare(queue="q"))
    client.publish("", "q", b"x")
    client.ask(m.BasicConsume(queue="q", consumer_tag="c"))
    client.ask(m.TxSelect())
    client.send(1, m.BasicNack(1, requeue=True))

    client.send(1, m.TxCommit())
    client.publish("", "q", b"y")
    client.send(1, m.TxCommit())

    assert [type(each.method) for each in client.received()] == [
        m.TxCommitOk,
        m.BasicDeliver,
        m.BasicDeliver,
        m.TxCommitOk,
    ]
