"""A get or consume without an answer in time runs later and takes nothing away."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from streaming.client import ClientError, Connection
from tests.fixtures.jobs import get_when_there
from tests.fixtures.waiting import WAIT_S

BODIES = [b"1", b"2", b"3"]


@pytest.fixture
def connection(running_job):
    """A connection that one test makes impatient."""
    with running_job.connect() as connection:
        yield connection


@pytest.fixture
def queue(channel, publisher, name):
    queue: str = name("work")
    channel.declare_queue(queue)
    for body in BODIES:
        publisher.publish("", queue, body).result(WAIT_S)
    return queue


@contextmanager
def given_up(connection: Connection) -> Iterator[None]:
    """What is asked here is not waited for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection._link.commands, "_timeout_s", 0)  # noqa: SLF001 (from now on)
        with pytest.raises(ClientError, match=r"may (still )?take effect"):
            yield


def settled(channel, queue: str) -> list[tuple[bytes, bool]]:
    """What is in the queue: bodies, and whether they were handed out before."""
    deliveries = [get_when_there(channel, queue) for _ in BODIES]
    channel.ack(deliveries)
    assert channel.get(queue) is None
    return [(each.body, each.redelivered) for each in deliveries]


def test_deliveries_of_a_get_after_its_timeout_are_requeued(connection, channel, queue):
    late = connection.channel()
    with given_up(connection):
        late.get_many(queue, 4)

    assert late.sync() == []  # by now both have happened; that there were but 3 is nobody's matter
    assert settled(channel, queue) == [(b"1", True), (b"2", True), (b"3", True)]


def test_what_a_get_was_handed_after_its_process_had_gone_is_requeued(running_job, channel, queue):
    with running_job.connect() as connection:
        late = connection.channel()
        with given_up(connection):
            late.get_many(queue, 2)
        late.detach()  # as `dlx get` does

    assert settled(channel, queue) == [(b"1", True), (b"2", True), (b"3", False)]


@pytest.mark.parametrize("callback", [None, print])
def test_a_consumer_that_starts_after_the_timeout_is_cancelled(
    connection, channel, queue, callback: Callable[..., None] | None
):
    late = connection.channel()
    with given_up(connection):
        late.consume(queue, callback, prefetch=2)

    late.sync()
    assert channel.declare_queue(queue, passive=True).consumers == 0
    assert settled(channel, queue) == [(b"1", True), (b"2", True), (b"3", False)]
    late.consume(queue, callback)  # the channel is as good as ever
