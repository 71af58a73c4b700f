"""Documents 002 and 004: dead letter exchanges, through real Kafka with the client library."""

import time

import pytest

from streaming.client import AccessRefusedError, Message, UnroutableError
from tests.fixtures.jobs import get_when_there
from tests.fixtures.waiting import WAIT_S, wait_until

DLX_NAME = "MyDeadLetterExchange"
EXCHANGE = "Direct_Test"
CONSUMER_QUEUE_1 = "Consumer_1"
DLX_QUEUE = "Dead_Letter_Queue"
DLX_KEY = "New_Key_For_DLX_Msg"
DIRECT_EXC_KEY = "Key_1"


@pytest.fixture
def queues_of_004(channel):
    """Document 004, initializeQueues: fanout exchanges, auto-delete queues."""
    for queue in (CONSUMER_QUEUE_1, DLX_QUEUE):
        channel.delete_queue(queue)
    channel.declare_exchange(DLX_NAME, "fanout")
    channel.declare_exchange(EXCHANGE, "fanout")
    channel.declare_queue(DLX_QUEUE, durable=False, auto_delete=True)
    channel.bind_queue(DLX_QUEUE, DLX_NAME, "")
    arguments = {"x-dead-letter-exchange": DLX_NAME, "x-dead-letter-routing-key": DLX_KEY}
    channel.declare_queue(CONSUMER_QUEUE_1, durable=False, auto_delete=True, arguments=arguments)
    channel.bind_queue(CONSUMER_QUEUE_1, EXCHANGE, DIRECT_EXC_KEY)


def until_depth(channel, queue, depth):
    wait_until(
        lambda: channel.queue_depth(queue) == depth, lambda: f"queue {queue} had {depth} messages"
    )


class CountingConsumer:
    """Counts deliveries by their text, like the article's; its latch ends `start_consuming`."""

    def __init__(self, channel, stats):
        self.channel = channel
        self.stats = stats

    def __call__(self, delivery):
        message = delivery.body.decode()
        self.stats[message] = self.stats.get(message, 0) + 1
        self.channel.stop_consuming()


def test_document_004_should_move_message_to_dlx_because_of_rejecting(
    queues_of_004, channel, publisher
):
    message = "Rejected_message"
    stats: dict[str, int] = {}
    rejected = []
    publisher.publish(EXCHANGE, DIRECT_EXC_KEY, message).result(WAIT_S)

    def reject(delivery):
        delivery.nack(requeue=False)
        rejected.append(delivery.body.decode())
        channel.stop_consuming()

    channel.consume(CONSUMER_QUEUE_1, reject)
    channel.start_consuming(WAIT_S)
    channel.consume(DLX_QUEUE, CountingConsumer(channel, stats), auto_ack=True)
    channel.start_consuming(WAIT_S)

    assert rejected == [message]
    assert stats == {message: 1}


@pytest.fixture
def expired_message(queues_of_004, channel, publisher):
    """A message that expired in Consumer_1 before that queue had a consumer."""
    message = "Test_300_ms"
    stats: dict[str, int] = {}
    publisher.publish(EXCHANGE, DIRECT_EXC_KEY, message, {"expiration": "300"}).result(WAIT_S)
    time.sleep(0.55)  # from the article: the message expires before it is consumed
    channel.consume(CONSUMER_QUEUE_1, CountingConsumer(channel, stats), auto_ack=True)
    channel.start_consuming(1)
    assert stats.get(message) is None
    return message, stats


def test_document_004_should_move_message_to_dlx_because_of_expiration(expired_message, channel):
    message, stats = expired_message

    channel.consume(DLX_QUEUE, CountingConsumer(channel, stats), auto_ack=True)
    channel.start_consuming(WAIT_S)

    assert stats.get(message) == 1


def test_document_004_should_correctly_get_information_about_message_routed_to_dead_letter(
    expired_message, channel
):
    header_data = []

    def read(delivery):
        header_data.append(str("x-death" in delivery.headers).lower())
        dead_letter_data = delivery.headers["x-death"]
        header_data.append(dead_letter_data[0]["reason"])
        header_data.append(dead_letter_data[0]["exchange"])
        header_data.append(delivery.routing_key)
        channel.stop_consuming()

    channel.consume(DLX_QUEUE, read)
    channel.start_consuming(WAIT_S)

    assert ";".join(header_data) == "true;expired;Direct_Test;New_Key_For_DLX_Msg"


@pytest.fixture
def dead(channel, name):
    """An exchange some.exchange.name for dead letters, with a queue."""
    exchange, queue = name("some.exchange.name"), name("dead")
    channel.declare_exchange(exchange, "fanout")
    channel.declare_queue(queue)
    channel.bind_queue(queue, exchange)
    return exchange, queue


def test_document_002_the_events_that_dead_letter_a_message(channel, publisher, dead, name):
    exchange, dead_queue = dead
    rejecting, expiring, short = name("rejecting"), name("expiring"), name("short")
    limited = name("limited")
    to_dead = {"x-dead-letter-exchange": exchange}
    channel.declare_queue(rejecting, arguments=to_dead)
    channel.declare_queue(expiring, arguments={**to_dead, "x-message-ttl": 100})
    channel.declare_queue(short, arguments={**to_dead, "x-max-length": 1})
    quorum = {"x-queue-type": "quorum", "x-delivery-limit": 1}
    channel.declare_queue(limited, arguments={**to_dead, **quorum})
    batch = [Message("", queue, queue) for queue in (rejecting, expiring, short, short, limited)]
    publisher.publish_many(batch)
    publisher.wait_for_confirms(WAIT_S)

    channel.get(rejecting).reject(requeue=False)
    channel.get(limited).nack(requeue=True)
    assert channel.get(limited).delivery_count == 1
    channel.recover()
    until_depth(channel, dead_queue, 4)

    deaths = {each.x_death[0] for each in channel.get_many(dead_queue, 9)}
    assert {(death.queue, death.reason, death.count) for death in deaths} == {
        (rejecting, "rejected", 1),
        (expiring, "expired", 1),
        (short, "maxlen", 1),
        (limited, "delivery_limit", 1),
    }


def test_document_002_if_an_entire_queue_expires_its_messages_are_not_dead_lettered(
    channel, publisher, dead, shared_connection, name
):
    exchange, dead_queue = dead
    queue = name("short-lived")
    arguments = {"x-dead-letter-exchange": exchange, "x-expires": 500}
    channel.declare_queue(queue, arguments=arguments)
    publisher.publish("", queue, b"gone").result(WAIT_S)

    def is_gone():
        """Asking for the depth would count as a use of the queue; a publish does not."""
        returned = publisher.publish("", queue, b"there?", mandatory=True)
        return isinstance(returned.exception(WAIT_S), UnroutableError)

    wait_until(is_gone, lambda: f"queue {queue} is there")
    assert channel.queue_depth(dead_queue) == 0


def test_document_002_the_queues_arguments_override_a_dead_letter_exchange_by_policy(
    channel, publisher, dead, name
):
    exchange, dead_queue = dead
    by_policy, by_argument, kept = name("by-policy"), name("by-argument"), name("kept")
    channel.declare_queue(kept)
    channel.declare_queue(by_policy)
    own = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": kept}
    channel.declare_queue(by_argument, arguments=own)
    definition = {"dead-letter-exchange": exchange, "dead-letter-routing-key": "from-policy"}
    channel.set_policy("DLX", "^by-", definition, apply_to="queues")
    for queue in (by_policy, by_argument):
        publisher.publish("", queue, queue).result(WAIT_S)
        channel.get(queue).reject(requeue=False)

    from_policy = get_when_there(channel, dead_queue)
    from_argument = get_when_there(channel, kept)

    assert (from_policy.body.decode(), from_policy.routing_key) == (by_policy, "from-policy")
    assert (from_argument.body.decode(), from_argument.routing_key) == (by_argument, kept)
    channel.clear_policy("DLX")


def test_document_002_the_key_foo_is_kept_unless_the_queue_sets_bar(channel, publisher, dead, name):
    exchange, dead_queue = dead
    source, plain, keyed = name("source"), name("plain"), name("keyed")
    channel.declare_exchange(source, "fanout")
    channel.declare_queue(plain, arguments={"x-dead-letter-exchange": exchange})
    bar = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "bar"}
    channel.declare_queue(keyed, arguments=bar)
    for queue in (plain, keyed):
        channel.bind_queue(queue, source)
    publisher.publish(source, "foo", b"x", None, {"CC": ["copy"], "BCC": ["hidden"]}).result(WAIT_S)
    for queue in (plain, keyed):
        channel.get(queue).reject(requeue=False)
        until_depth(channel, dead_queue, 1 if queue == plain else 2)

    from_plain, from_keyed = channel.get_many(dead_queue, 2)

    assert (from_plain.routing_key, from_keyed.routing_key) == ("foo", "bar")
    assert (from_plain.exchange, from_keyed.exchange) == (exchange, exchange)
    assert from_plain.headers["CC"] == ["copy"]
    assert from_keyed.headers["CC"] == ["copy"], "3.10 removes it, 4.x does not (R-DLX-2)"
    assert from_keyed.x_death[0].routing_keys == ("foo", "copy")
    assert "BCC" not in from_plain.headers
    assert "BCC" not in from_keyed.headers
    death = from_plain.x_death[0]
    assert (death.exchange, death.routing_keys) == (source, ("foo", "copy"))
    assert from_plain.headers["x-first-death-reason"] == "rejected"
    assert from_plain.headers["x-first-death-queue"] == plain
    assert from_plain.headers["x-first-death-exchange"] == source


def test_document_002_dead_letters_are_routed_by_all_their_original_keys(channel, publisher, name):
    exchange, queue = name("direct"), name("work")
    by_key = {key: name(key) for key in ("foo", "copy", "hidden", "other")}
    channel.declare_exchange(exchange, "direct")
    for key, dead_queue in by_key.items():
        channel.declare_queue(dead_queue)
        channel.bind_queue(dead_queue, exchange, key)
    channel.declare_queue(queue, arguments={"x-dead-letter-exchange": exchange})
    source = name("source")
    channel.declare_exchange(source, "fanout")
    channel.bind_queue(queue, source)
    publisher.publish(source, "foo", b"x", None, {"CC": ["copy"], "BCC": ["hidden"]}).result(WAIT_S)

    channel.get(queue).reject(requeue=False)

    for key in ("foo", "copy", "hidden"):
        assert get_when_there(channel, by_key[key]).body == b"x"
    assert channel.get(by_key["other"]) is None


def test_document_002_a_cycle_without_a_rejection_drops_the_message(channel, publisher, name):
    queue = name("cycle")
    arguments = {"x-message-ttl": 100, "x-dead-letter-exchange": ""}
    channel.declare_queue(queue, arguments=arguments)

    publisher.publish("", queue, b"round and round").result(WAIT_S)
    until_depth(channel, queue, 0)

    assert channel.get(queue) is None


def test_document_002_a_cycle_with_a_rejection_continues_and_is_counted(channel, publisher, name):
    work, waiting = name("work"), name("waiting")
    channel.declare_queue(
        work, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": waiting}
    )
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": work, "x-message-ttl": 50}
    channel.declare_queue(waiting, arguments=back)
    publisher.publish("", work, b"again").result(WAIT_S)
    for _ in range(2):
        get_when_there(channel, work).reject(requeue=False)

    third = get_when_there(channel, work)

    assert [(each.queue, each.reason, each.count) for each in third.x_death] == [
        (waiting, "expired", 2),
        (work, "rejected", 2),
    ]
    assert third.headers["x-first-death-queue"] == work
    assert third.headers["x-first-death-reason"] == "rejected"
    assert third.headers["x-first-death-exchange"] == ""


def test_document_002_the_exchange_must_exist_only_when_messages_are_dead_lettered(
    channel, publisher, name
):
    queue, exchange, dead_queue = name("early"), name("late"), name("dead")
    channel.declare_queue(queue, arguments={"x-dead-letter-exchange": exchange})
    for body in (b"dropped", b"kept"):
        publisher.publish("", queue, body).result(WAIT_S)
    channel.get(queue).reject(requeue=False)
    assert channel.sync() == []

    channel.declare_exchange(exchange, "direct")
    channel.declare_queue(dead_queue)
    channel.bind_queue(dead_queue, exchange, queue)
    channel.get(queue).reject(requeue=False)

    assert get_when_there(channel, dead_queue).body == b"kept"
    assert channel.get(dead_queue) is None


def test_document_002_the_expiration_is_removed_and_kept_in_the_header(
    channel, publisher, dead, name
):
    exchange, dead_queue = dead
    queue = name("expiring")
    channel.declare_queue(queue, arguments={"x-dead-letter-exchange": exchange})
    before_s = time.time()
    publisher.publish("", queue, b"x", {"expiration": "50"}).result(WAIT_S)

    arrived = get_when_there(channel, dead_queue)

    (death,) = arrived.x_death
    assert "expiration" not in arrived.properties
    assert death.original_expiration == "50"
    assert before_s - 2 < death.time.timestamp() < time.time() + 2


def test_document_002_declaring_needs_read_on_the_queue_and_write_on_the_exchange(
    channel, running_job, dead, name
):
    exchange, _queue = dead
    queue = name("mine")
    arguments = {"x-dead-letter-exchange": exchange}
    with running_job.connect("clerk") as clerk:
        for read, write, refused in (("", ".*", queue), (".*", "", exchange)):
            channel.set_permissions("clerk", configure=".*", write=write, read=read)
            with pytest.raises(AccessRefusedError, match=refused):
                clerk.channel().declare_queue(queue, arguments=arguments)
        needed = {"read": f"^{queue}$", "write": f"^{exchange}$"}
        channel.set_permissions("clerk", configure=".*", **needed)
        assert clerk.channel().declare_queue(queue, arguments=arguments).queue == queue


def test_document_002_permissions_are_verified_only_when_the_queue_is_declared(
    channel, running_job, dead, name
):
    exchange, dead_queue = dead
    queue = name("mine")
    channel.set_permissions("clerk", configure=".*", write=".*", read=".*")
    with running_job.connect("clerk") as clerk:
        mine = clerk.channel()
        mine.declare_queue(queue, arguments={"x-dead-letter-exchange": exchange})
        channel.set_permissions("clerk", configure="", write="^amq.default$", read=f"^{queue}$")
        clerk.publisher().publish("", queue, b"x").result(WAIT_S)

        mine.get(queue).reject(requeue=False)

        assert get_when_there(channel, dead_queue).body == b"x"


def test_document_002_a_quorum_queue_dead_letters_at_least_once(channel, publisher, dead, name):
    exchange, dead_queue = dead
    queue = name("safe")
    arguments = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": exchange,
        "x-dead-letter-strategy": "at-least-once",
    }
    channel.declare_queue(queue, arguments=arguments)
    publisher.publish("", queue, b"confirmed").result(WAIT_S)

    channel.get(queue).reject(requeue=False)

    arrived = get_when_there(channel, dead_queue)
    assert (arrived.body, arrived.x_death[0].reason) == (b"confirmed", "rejected")
    assert channel.queue_depth(queue) == 0
