"""Transactions with a real Kafka and job: everything takes effect, or nothing."""

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from msgspec import structs

from streaming.client import (
    AccessRefusedError,
    ClientError,
    Connection,
    KafkaUnreachableError,
    NotFoundError,
    PreconditionFailedError,
    TransactionAbortedError,
)
from tests.fixtures.waiting import WAIT_S

HOLD_UP_S = 3


class ShopClosedError(Exception):
    pass


def test_what_is_committed_takes_effect_what_is_aborted_does_not(
    shared_connection, channel, publisher, name
):
    orders, invoices = name("orders"), name("invoices")
    channel.declare_queue(orders)
    channel.declare_queue(invoices)
    for body in (b"first", b"second"):
        publisher.publish("", orders, body).result(WAIT_S)
    first, second = channel.get_many(orders, 2)

    started = []

    def fail_inside():
        with shared_connection.transaction() as transaction:
            started.append(transaction.publish("", invoices, b"never"))
            transaction.ack(channel, first)
            raise ShopClosedError

    with pytest.raises(ShopClosedError):
        fail_inside()
    [never] = started
    with pytest.raises(TransactionAbortedError):
        never.result(0)
    with shared_connection.transaction() as transaction:
        confirmed = transaction.publish("", invoices, b"invoice")
        transaction.ack(channel, second)
        unpaid = transaction.publish("", invoices, b"reminder")
        assert not confirmed.done()

    assert confirmed.result(WAIT_S) is None
    assert unpaid.result(WAIT_S) is None
    assert [each.body for each in channel.get_many(invoices, 9)] == [b"invoice", b"reminder"]
    channel.ack([first, second])
    assert channel.sync() == [second.delivery_id]


@pytest.fixture
def first(channel, publisher, name):
    """An unacked delivery of a queue of its own, which holds nothing else."""
    queue = name("orders")
    channel.declare_queue(queue)
    publisher.publish("", queue, b"first").result(WAIT_S)
    return channel.get(queue)


def test_one_refused_publish_aborts_the_other_publishes_and_the_acks(
    shared_connection, channel, first, name
):
    queue, missing = first.queue, name("missing")
    started = []

    def publish_to(exchange):
        with shared_connection.transaction() as transaction:
            started.append(transaction.publish("", queue, b"second"))
            transaction.ack(channel, first)
            started.append(transaction.publish(exchange, "key", b"third"))

    with pytest.raises(NotFoundError, match=f"NOT_FOUND - no exchange '{missing}' in vhost '/'"):
        publish_to(missing)
    for confirm in started:
        with pytest.raises(TransactionAbortedError, match=missing):
            confirm.result(0)
    assert channel.queue_depth(queue) == 0

    channel.declare_exchange(missing)
    publish_to(missing)
    assert [confirm.result(WAIT_S) for confirm in started[2:]] == [None, None]
    assert channel.get(queue).body == b"second"
    channel.ack(first)
    assert channel.sync() == [first.delivery_id]


def test_a_message_that_only_the_broker_finds_malformed_aborts_the_transaction(
    shared_connection, channel, first
):
    def publish_with(properties, headers):
        with shared_connection.transaction() as transaction:
            transaction.ack(channel, first)
            transaction.publish("", first.queue, b"x", properties, headers)

    with pytest.raises(PreconditionFailedError, match="invalid expiration 'tomorrow'"):
        publish_with({"expiration": "tomorrow"}, None)
    with pytest.raises(PreconditionFailedError, match="unacceptable_type_in_header"):
        publish_with({"expiration": "5"}, {"CC": "no list"})

    first.ack()
    assert channel.sync() == []
    assert channel.queue_depth(first.queue) == 0


def test_without_the_permission_to_publish_nothing_is_acked(running_job, channel, first):
    channel.set_permissions("clerk", configure="", write="", read=f"^{first.queue}$")
    first.nack(requeue=True)
    with running_job.connect("clerk") as connection, connection.channel() as theirs:
        delivery = theirs.get(first.queue)

        def publish_and_ack():
            with connection.transaction() as transaction:
                transaction.ack(theirs, delivery)
                transaction.publish("", first.queue, b"not allowed")

        with pytest.raises(AccessRefusedError, match="user 'clerk'"):
            publish_and_ack()

        delivery.ack()
        assert theirs.sync() == []
    assert channel.queue_depth(first.queue) == 0


def test_a_lost_delivery_aborts_the_publishes(shared_connection, channel, first):
    def publish_and_ack():
        with shared_connection.transaction() as transaction:
            transaction.publish("", first.queue, b"the work's result")
            transaction.ack(channel, first)

    channel.recover()
    again = channel.get(first.queue)

    with pytest.raises(PreconditionFailedError, match=f"unknown delivery.*{first.delivery_id}"):
        publish_and_ack()

    assert channel.queue_depth(first.queue) == 0
    again.ack()
    assert channel.sync() == []


def test_a_delivery_is_settled_once_in_a_transaction(shared_connection, channel, first):
    def ack_twice():
        with shared_connection.transaction() as transaction:
            transaction.ack(channel, first, multiple=True)
            transaction.reject(channel, first)

    with pytest.raises(PreconditionFailedError, match="unknown delivery tag"):
        ack_twice()


class HoldUp:
    """Open transactions on every partition, which hold up everything behind them until aborted."""

    def __init__(self, address):
        self.topic = address.transactions
        self.producer = Producer(
            {"bootstrap.servers": address.bootstrap, "transactional.id": "hold-up"}
        )
        self.producer.init_transactions(WAIT_S)
        self.is_open = False

    def begin(self):
        self.producer.begin_transaction()
        self.is_open = True
        for partition in (
            self.producer.list_topics(self.topic, WAIT_S).topics[self.topic].partitions
        ):
            self.producer.produce(self.topic, b"never read", partition=partition)
        self.producer.flush(WAIT_S)

    def end(self):
        if self.is_open:
            self.is_open = False
            self.producer.abort_transaction(WAIT_S)


@pytest.fixture
def hold_up(running_job):
    held = HoldUp(running_job.address())
    yield held
    held.end()


@pytest.mark.parametrize("multiple", [False, True])
def test_a_delivery_is_settled_once_in_transactions_that_the_job_has_yet_to_read(
    shared_connection, channel, publisher, first, name, hold_up, multiple
):
    other = name("results")
    channel.declare_queue(other)
    publisher.publish("", first.queue, b"later").result(WAIT_S)
    later = channel.get(first.queue)

    def settle(delivery, body):
        with shared_connection.transaction() as transaction:
            confirm = transaction.publish("", other, body)
            transaction.ack(channel, delivery, multiple=multiple)
        return confirm

    hold_up.begin()
    settled = settle(later if multiple else first, b"once")
    assert not settled.done()
    end = threading.Timer(HOLD_UP_S, hold_up.end)
    end.start()

    with pytest.raises(PreconditionFailedError, match=first.delivery_id):
        settle(first, b"twice")

    end.join()
    settled.result(WAIT_S)
    assert [each.body for each in channel.get_many(other, 9)] == [b"once"]


class LosesTheAnswer:
    """A producer that does not learn how its commit ended."""

    def __init__(self, producer):
        self._producer = producer

    def __getattr__(self, name):
        return getattr(self._producer, name)

    def commit_transaction(self, timeout_s):
        self._producer.commit_transaction(timeout_s)
        raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, retriable=True))


def test_a_transaction_that_may_have_been_committed_is_waited_for(
    running_job, channel, publisher, name, hold_up
):
    work, other = name("work"), name("results")
    channel.declare_queue(work)
    channel.declare_queue(other)
    publisher.publish("", work, b"x").result(WAIT_S)

    def settle(body):
        with connection.transaction() as transaction:
            transaction.publish("", other, body)
            transaction.ack(consuming, delivery)

    with running_job.connect() as connection, connection.channel() as consuming:
        delivery = consuming.get(work)
        with connection.transaction():
            sender = connection._transactions._sender  # noqa: SLF001 - Kafka's answer is lost there
        sender.producer = LosesTheAnswer(sender.producer)
        hold_up.begin()
        with pytest.raises(KafkaUnreachableError, match="may or may not"):
            settle(b"once")
        end = threading.Timer(HOLD_UP_S, hold_up.end)
        end.start()

        with pytest.raises(PreconditionFailedError, match=delivery.delivery_id):
            settle(b"twice")

        end.join()
    assert [each.body for each in channel.get_many(other, 9)] == [b"once"]


def test_transactions_that_settle_different_deliveries_do_not_wait_for_each_other(
    shared_connection, channel, publisher, first, hold_up
):
    publisher.publish("", first.queue, b"later").result(WAIT_S)
    later = channel.get(first.queue)

    def settle(delivery):
        with shared_connection.transaction() as transaction:
            confirm = transaction.publish("", first.queue, b"x")
            transaction.ack(channel, delivery)
        return confirm

    hold_up.begin()
    confirms = [settle(first), settle(later)]
    assert not any(confirm.done() for confirm in confirms)
    hold_up.end()

    for confirm in confirms:
        confirm.result(WAIT_S)
    channel.ack([first, later])
    assert channel.sync() == [first.delivery_id, later.delivery_id]


def test_a_confirm_cannot_be_waited_for_inside(shared_connection, channel, name):
    queue = name("q")
    channel.declare_queue(queue)
    with shared_connection.transaction() as transaction:
        confirm = transaction.publish("", queue, b"x")
        for wait in (confirm.result, confirm.exception):
            with pytest.raises(ClientError, match="after the commit"):
                wait(0)

    assert confirm.exception(WAIT_S) is None
    assert confirm.result() is None


def test_a_transaction_too_large_for_one_check_is_checked_completely(
    running_job, channel, publisher, name
):
    queue, count = name("many"), 600
    channel.declare_queue(queue)
    for number in range(count):
        publisher.publish("", queue, str(number).encode())
    publisher.wait_for_confirms(WAIT_S)
    address = structs.replace(running_job.address(), max_message_bytes=4_000)
    deliveries = channel.get_many(queue, count)
    deliveries[-1].ack()
    channel.sync()

    def ack(chosen):
        with connection.transaction() as transaction:
            for delivery in chosen:
                transaction.ack(channel, delivery)

    with Connection(address, timeout_s=WAIT_S) as connection:
        with pytest.raises(PreconditionFailedError, match=deliveries[-1].delivery_id):
            ack(deliveries)
        ack(deliveries[:-1])
        with connection.transaction() as transaction:
            last = transaction.publish("", queue, b"behind the acks")
        last.result(WAIT_S)

    channel.ack(deliveries)
    assert len(channel.sync()) == count


def test_document_001_what_an_alternate_exchange_gets_in_a_transaction_comes_with_its_commit(
    shared_connection, channel, name
):
    """'... it will only appear in the queues when that tx is committed.'"""
    exchange, alternate, unrouted = name("my-direct"), name("my-ae"), name("unrouted")
    channel.declare_exchange(exchange, arguments={"alternate-exchange": alternate})
    channel.declare_exchange(alternate, "fanout")
    channel.declare_queue(unrouted)
    channel.bind_queue(unrouted, alternate)

    with shared_connection.transaction() as transaction:
        confirmed = transaction.publish(exchange, "nowhere", b"unroutable", mandatory=True)
        assert channel.queue_depth(unrouted) == 0
    confirmed.result(WAIT_S)

    assert channel.get(unrouted).body == b"unroutable"


def test_transactions_do_not_nest_and_take_nothing_after_their_end(shared_connection, name):
    with shared_connection.transaction() as transaction:
        nested = shared_connection.transaction()
        with pytest.raises(ClientError, match="do not nest"):
            nested.__enter__()

    with pytest.raises(ClientError, match="the transaction has ended"):
        transaction.publish("", name("q"), b"late")
    with shared_connection.transaction():
        pass


def test_without_a_topic_for_it_the_error_says_what_to_do(running_job):
    address = structs.replace(running_job.address(), transactions=None)
    with Connection(address) as connection:
        transaction = connection.transaction()

        with pytest.raises(ClientError, match='source = "transactions"'):
            transaction.__enter__()
