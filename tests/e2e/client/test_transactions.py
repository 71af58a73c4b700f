"""Transactions on real Kafka and a real job: all takes effect, or nothing does."""

import pytest
from msgspec import structs

from streaming.client import ClientError, Connection, TransactionAbortedError
from tests.fixtures.jobs import WAIT_S


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
        with pytest.raises(ClientError, match="open on this thread already"):
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
