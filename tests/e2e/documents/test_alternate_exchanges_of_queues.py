"""Document 003 (MRG, Qpid): a queue's own alternate exchange, with the client library."""

import pytest

from tests.fixtures.jobs import get_when_there
from tests.fixtures.waiting import WAIT_S


@pytest.fixture
def alternate(channel, name):
    """An exchange for what a queue could not deliver, with a queue."""
    exchange, queue = name("alternate"), name("unroutable")
    channel.declare_exchange(exchange, "fanout")
    channel.declare_queue(queue)
    channel.bind_queue(queue, exchange)
    return exchange, queue


def test_document_003_an_acquired_and_rejected_message_goes_to_the_alternate_exchange(
    channel, publisher, alternate, name
):
    exchange, unroutable = alternate
    queue = name("work")
    channel.declare_queue(queue, arguments={"x-alternate-exchange": exchange})
    publisher.publish("", queue, b"rejected").result(WAIT_S)

    channel.get(queue).reject(requeue=False)

    arrived = get_when_there(channel, unroutable)
    assert (arrived.body, arrived.x_death) == (b"rejected", [])


def test_document_003_unacknowledged_messages_of_a_deleted_queue_go_to_the_alternate_exchange(
    channel, publisher, alternate, name
):
    exchange, unroutable = alternate
    queue = name("work")
    channel.declare_queue(queue, arguments={"x-alternate-exchange": exchange})
    for body in (b"acquired", b"ready"):
        publisher.publish("", queue, body).result(WAIT_S)
    acquired = channel.get(queue)

    channel.delete_queue(queue)

    assert acquired.body == b"acquired"
    assert [each.body for each in channel.get_many(unroutable, 9)] == [b"acquired", b"ready"]


def test_document_003_a_message_is_rerouted_only_once(channel, publisher, alternate, name):
    exchange, unroutable = alternate
    first, second = name("first"), name("second")
    channel.declare_queue(first, arguments={"x-alternate-exchange": exchange})
    channel.declare_queue(second, arguments={"x-alternate-exchange": exchange})
    channel.bind_queue(second, exchange)
    publisher.publish("", first, b"once").result(WAIT_S)
    channel.get(first).reject(requeue=False)
    rejected_again = get_when_there(channel, second)
    assert channel.get(unroutable).body == b"once"

    rejected_again.reject(requeue=False)
    channel.delete_queue(second)

    assert channel.sync() == []
    assert channel.get(unroutable) is None


def test_document_003_an_alternate_exchange_without_a_match_fails_over_to_its_own(
    channel, publisher, alternate, name
):
    exchange, unroutable = alternate
    strict, queue = name("strict"), name("work")
    channel.declare_exchange(strict, "direct", arguments={"alternate-exchange": exchange})
    channel.declare_queue(queue, arguments={"x-alternate-exchange": strict})
    publisher.publish("", queue, b"fails over").result(WAIT_S)

    channel.get(queue).reject(requeue=False)

    assert get_when_there(channel, unroutable).body == b"fails over"


def test_document_003_an_exchange_sends_unmatched_messages_to_its_alternate(
    channel, publisher, alternate, name
):
    exchange, unroutable = alternate
    topical = name("topical")
    channel.declare_exchange(topical, "topic", arguments={"alternate-exchange": exchange})

    publisher.publish(topical, "no.binding", b"x").result(WAIT_S)

    assert channel.get(unroutable).body == b"x"
