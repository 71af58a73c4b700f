"""The client with a real Kafka and job: publish, get, settle, consume."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from streaming.client import (
    AccessRefusedError,
    ChannelClosedError,
    ClientError,
    Connection,
    Message,
    NackedError,
    NotAllowedError,
    NotFoundError,
    PreconditionFailedError,
    QuarantinedError,
    Returned,
    UnroutableError,
)
from tests.fixtures.jobs import get_when_there
from tests.fixtures.waiting import WAIT_S


def test_a_published_message_arrives_complete_and_is_acked(channel, publisher, name):
    queue = name("work")
    assert channel.declare_queue(queue) == (queue, 0, 0)
    publisher.publish(
        "",
        queue,
        "hé".encode(),
        {"message_id": "m-1", "priority": 3},
        {"kind": "order", "raw": b"\xff", "list": [1, 2.5, None]},
        kafka_headers=[("traceparent", b"00-ab"), ("raw", b"\x00\xff")],
    ).result(WAIT_S)

    delivery = channel.get(queue)

    assert delivery is not None
    assert (delivery.body, delivery.exchange, delivery.routing_key, delivery.queue) == (
        "hé".encode(),
        "",
        queue,
        queue,
    )
    assert delivery.properties == {"message_id": "m-1", "priority": 3}
    assert delivery.headers == {"kind": "order", "raw": b"\xff", "list": [1, 2.5, None]}
    assert dict(delivery.kafka_headers) == {"traceparent": b"00-ab", "raw": b"\x00\xff"}
    assert (delivery.redelivered, delivery.delivery_count, delivery.x_death) == (False, 0, [])
    delivery.ack()
    assert channel.sync() == []
    assert channel.get(queue) is None
    delivery.ack()
    assert channel.sync() == [delivery.delivery_id]


def test_the_largest_body_that_the_job_takes_can_be_published(
    running_job, channel, publisher, name
):
    queue = name("large")
    channel.declare_queue(queue)
    body = b"x" * running_job.config.flow.max_body_bytes

    publisher.publish("", queue, body).result(WAIT_S)

    assert channel.get(queue, auto_ack=True).body == body


def test_a_rejected_message_has_its_death_and_a_requeued_one_its_count(channel, publisher, name):
    queue, dead = name("work"), name("dead")
    channel.declare_queue(dead)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.declare_queue(queue, arguments=arguments)
    before = datetime.now(UTC).replace(microsecond=0)
    publisher.publish("", queue, "text").result(WAIT_S)

    channel.get(queue).nack()
    again = channel.get(queue)
    assert (again.redelivered, again.delivery_count) == (True, 1)
    again.reject(requeue=False)

    [death] = get_when_there(channel, dead).x_death
    assert (death.queue, death.reason, death.count) == (queue, "rejected", 1)
    assert (death.exchange, death.routing_keys) == ("", (queue,))
    assert death.time >= before


def test_several_are_settled_at_once_and_recover_returns_the_rest(channel, publisher, name):
    queue = name("work")
    channel.declare_queue(queue)
    batch = [Message("", queue, f"{number}") for number in range(5)]
    for confirmed in publisher.publish_many(batch):
        confirmed.result(WAIT_S)
    publisher.wait_for_confirms(0)

    first, second, third, fourth = channel.get_many(queue, 4)
    channel.ack(second, multiple=True)

    assert channel.recover() == 2
    assert channel.sync() == []
    assert [each.body for each in channel.get_many(queue, 9)] == [b"2", b"3", b"4"]
    assert (first.body, third.body, fourth.body) == (b"0", b"2", b"3")


def test_a_consumer_iterates_within_its_prefetch_until_nothing_comes(channel, publisher, name):
    queue = name("work")
    channel.declare_queue(queue)
    publisher.publish_many(Message("", queue, f"{number}") for number in range(30))
    publisher.wait_for_confirms(WAIT_S)

    consumer = channel.consume(queue, prefetch=7)
    seen = []
    for delivery in consumer:
        seen.append(delivery.body)
        delivery.ack()
        if len(seen) == 30:
            break
    assert seen == [f"{number}".encode() for number in range(30)]
    consumer.cancel()
    assert channel.sync() == []
    publisher.publish("", queue, "later").result(WAIT_S)
    assert consumer.next(0.2) is None
    assert channel.get(queue).body == b"later"


def test_callbacks_run_where_start_consuming_was_called(channel, publisher, name):
    queue = name("work")
    channel.declare_queue(queue)
    publisher.publish_many(Message("", queue, f"{number}") for number in range(3))
    seen = []

    def on_message(delivery):
        seen.append(delivery.body)
        delivery.ack()
        if len(seen) == 3:
            channel.stop_consuming()

    channel.consume(queue, on_message)
    channel.start_consuming(WAIT_S)

    assert seen == [b"0", b"1", b"2"]
    assert channel.sync() == []


def test_what_a_cancelled_consumer_did_not_look_at_is_requeued(channel, publisher, name):
    queue = name("work")
    channel.declare_queue(queue)
    consumer = channel.consume(queue, prefetch=2)
    publisher.publish_many(Message("", queue, f"{number}") for number in range(3))
    seen = consumer.next(WAIT_S)

    consumer.cancel()
    channel.sync()

    assert seen.body == b"0"
    assert {each.body for each in channel.get_many(queue, 9)} == {b"1", b"2"}


def test_closing_a_channel_requeues_what_is_unacked(channel, publisher, shared_connection, name):
    queue = name("work")
    channel.declare_queue(queue)
    publisher.publish("", queue, "once").result(WAIT_S)
    with shared_connection.channel() as other:
        assert other.get(queue).body == b"once"
        assert channel.queue_depth(queue) == 0

    assert get_when_there(channel, queue).redelivered
    with pytest.raises(ChannelClosedError, match="is closed"):
        other.get(queue)


@pytest.mark.parametrize(
    ("expected", "text", "do"),
    [
        (
            NotFoundError,
            "404 NOT_FOUND - no queue 'nothing' in vhost '/'",
            lambda channel: channel.get("nothing"),
        ),
        (
            NotFoundError,
            "404 NOT_FOUND - no queue 'nothing'",
            lambda channel: channel.declare_queue("nothing", passive=True),
        ),
        (
            NotFoundError,
            "404 NOT_FOUND - no exchange 'nothing'",
            lambda channel: channel.bind_exchange("amq.topic", "nothing"),
        ),
        (
            AccessRefusedError,
            "403 ACCESS_REFUSED - ",
            lambda channel: channel.declare_queue("amq.mine"),
        ),
        (
            PreconditionFailedError,
            "406 PRECONDITION_FAILED - inequivalent arg 'type'",
            lambda channel: channel.declare_exchange("amq.topic", "fanout"),
        ),
    ],
)
def test_a_refusal_is_rabbitmqs_error_and_closes_the_channel(channel, expected, text, do):
    with pytest.raises(expected, match=text):
        do(channel)

    assert not channel.is_open
    with pytest.raises(ChannelClosedError, match="after an error"):
        channel.queue_depth("whatever")


def test_a_consumer_tag_is_used_once_and_the_error_ends_the_consumers(
    channel, shared_connection, name
):
    queue = name("work")
    channel.declare_queue(queue)
    consumer = channel.consume(queue, consumer_tag="mine")
    with pytest.raises(
        NotAllowedError, match="530 NOT_ALLOWED - attempt to reuse consumer tag 'mine'"
    ):
        channel.consume(queue, consumer_tag="mine")
    with pytest.raises(NotFoundError):
        channel.get("nothing")

    with pytest.raises(NotFoundError):
        consumer.next(WAIT_S)


def test_callbacks_of_the_reader_cannot_send_commands(shared_connection, name):
    told: list[ClientError] = []

    def ask(_returned: Returned) -> None:
        with pytest.raises(ClientError, match="from another thread") as error:
            shared_connection.channel()
        told.append(error.value)

    confirm = shared_connection.publisher(on_return=ask).publish(
        "", name("nowhere"), b"x", mandatory=True
    )

    with pytest.raises(UnroutableError):
        confirm.result(WAIT_S)
    assert len(told) == 1
    shared_connection.channel().close()


def test_a_mandatory_message_is_returned_and_a_full_queue_refuses(channel, shared_connection, name):
    queue = name("small")
    came_back: list[Returned] = []
    publisher = shared_connection.publisher(on_return=came_back.append)
    channel.declare_queue(queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})

    unroutable = publisher.publish("amq.direct", "nowhere", "lost", mandatory=True)
    too_early = publisher.publish("", queue, "nobody waits", immediate=True)
    fits = publisher.publish("", queue, "fits")
    refused = publisher.publish("", queue, "does not fit")
    nowhere = publisher.publish("no-such-exchange", "", "x")
    dropped = publisher.publish("amq.direct", "nowhere", "dropped and confirmed")

    with pytest.raises(UnroutableError, match=r"312 NO_ROUTE.*'amq.direct'.*'nowhere'"):
        unroutable.result(WAIT_S)
    with pytest.raises(UnroutableError, match="313 NO_CONSUMERS"):
        too_early.result(WAIT_S)
    assert fits.result(WAIT_S) is None
    with pytest.raises(NackedError):
        refused.result(WAIT_S)
    with pytest.raises(NotFoundError, match="no exchange 'no-such-exchange'"):
        nowhere.result(WAIT_S)
    assert dropped.result(WAIT_S) is None
    assert [each.body for each in came_back] == [b"lost", b"nobody waits"]
    assert list(publisher.returned) == came_back


def test_a_quarantined_record_fails_when_the_next_is_confirmed(running_job):
    most = running_job.config.flow.max_body_bytes
    unaware = structs.replace(running_job.address(), max_body_bytes=2 * most)

    with Connection(unaware, timeout_s=WAIT_S) as connection:
        publisher = connection.publisher()
        passed_over = publisher.publish("", "q", b"x" * (most + 1))
        publisher.publish("", "q", "fine").result(WAIT_S)
        with pytest.raises(QuarantinedError, match="quarantine"):
            passed_over.result(0)


def test_a_quarantined_record_fails_although_nothing_follows_it(running_job):
    most = running_job.config.flow.max_body_bytes
    unaware = structs.replace(running_job.address(), max_body_bytes=2 * most)

    with Connection(unaware, timeout_s=10) as connection:
        passed_over = connection.publisher().publish("", "q", b"x" * (most + 1))
        with pytest.raises(QuarantinedError, match="quarantine"):
            passed_over.result(WAIT_S)


def test_an_invalid_message_is_not_sent(publisher):
    with pytest.raises(ClientError, match="expiration: expected a string"):
        publisher.publish("", "q", "x", {"expiration": 5})
    with pytest.raises(ClientError, match="did you mean 'priority'"):
        publisher.publish("", "q", "x", {"priorty": 5})
    with pytest.raises(ClientError, match="begins with 'dlx-'"):
        publisher.publish("", "q", "x", kafka_headers=[("dlx-op", b"")])

    assert publisher.unconfirmed == 0


def test_another_user_may_do_what_its_permissions_say(channel, running_job, name):
    queue = name("secret")
    channel.declare_queue(queue)
    channel.set_permissions("clerk", configure="", write="", read="^public")
    with running_job.connect("clerk") as clerk:
        with pytest.raises(AccessRefusedError, match=f"queue '{queue}'"):
            clerk.channel().get(queue)
        with pytest.raises(AccessRefusedError):
            clerk.channel().declare_queue(name("mine"))
        with pytest.raises(AccessRefusedError, match="administrator"):
            clerk.channel().set_policy("p", ".*", {"max-length": 1})


def test_a_consumer_ends_when_its_queue_is_deleted(channel, shared_connection, name):
    queue = name("work")
    channel.declare_queue(queue)
    consumer = channel.consume(queue)
    other = shared_connection.channel()
    other.consume(queue, print)

    shared_connection.channel().delete_queue(queue)

    other.start_consuming()  # returns, since nobody is left to call
    assert list(consumer) == []
