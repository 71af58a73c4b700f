"""Permissions: 403, an event, and no effect; vhosts and users are separate."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from deltalake import DeltaTable

from streaming.client import AccessRefusedError, Connection, NotFoundError
from tests.fixtures.jobs import RunningJob
from tests.fixtures.waiting import WAIT_S


@pytest.fixture(scope="module")
def clerk_connection(running_job: RunningJob) -> Iterator[Connection]:
    with running_job.connect("clerk") as connection:
        yield connection


@pytest.fixture
def clerk(clerk_connection: Connection, channel: Any) -> Iterator[Any]:
    """Makes channels of a user without any rights, since each refusal closes one."""
    opened = []

    def new() -> Any:
        opened.append(clerk_connection.channel())
        return opened[-1]

    yield new
    for one in opened:
        one.close()
    channel.clear_permissions("clerk")


def refused_events(job: RunningJob, word: str) -> list[tuple[str, str, int]]:
    """The refusals in the ledger that name something, as (kind, user, code)."""
    events = DeltaTable(str(job.root / "tables" / "events")).to_pyarrow_table()
    return [
        (row["kind"], row["user"], json.loads(row["detail"])["code"])
        for row in events.select(["kind", "user", "detail"]).to_pylist()
        if row["kind"] in {"command_error", "publish_error"} and word in row["detail"]
    ]


def test_declare_needs_configure(channel, clerk, name, running_job, shared_connection):
    queue, exchange = name("theirs"), name("exchange")
    with pytest.raises(AccessRefusedError, match="403"):
        clerk().declare_queue(queue)
    with pytest.raises(AccessRefusedError, match="403"):
        clerk().declare_exchange(exchange)
    with shared_connection.channel() as asking, pytest.raises(NotFoundError):
        asking.declare_queue(queue, passive=True)
    assert refused_events(running_job, queue) == [("command_error", "clerk", 403)]

    channel.set_permissions("clerk", configure=f"^{queue}$", write="", read="")
    clerk().declare_queue(queue)
    with pytest.raises(AccessRefusedError, match="403"):
        clerk().declare_exchange(exchange)


def test_publish_needs_write_on_the_exchange(channel, clerk, clerk_connection, name, running_job):
    exchange, queue = name("exchange"), name("queue")
    channel.declare_exchange(exchange, "fanout")
    channel.declare_queue(queue)
    channel.bind_queue(queue, exchange)

    refused = clerk_connection.publisher().publish(exchange, "", b"not allowed")
    with pytest.raises(AccessRefusedError, match="403"):
        refused.result(WAIT_S)
    assert channel.queue_depth(queue) == 0
    assert refused_events(running_job, exchange) == [("publish_error", "clerk", 403)]

    channel.set_permissions("clerk", configure="", write=f"^{exchange}$", read="")
    assert clerk_connection.publisher().publish(exchange, "", b"allowed").result(WAIT_S) is None
    assert channel.get(queue, auto_ack=True).body == b"allowed"


def test_get_and_consume_need_read_on_the_queue(channel, clerk, publisher, name):
    queue = name("queue")
    channel.declare_queue(queue)
    publisher.publish("", queue, b"secret").result(WAIT_S)

    with pytest.raises(AccessRefusedError, match="403"):
        clerk().get(queue)
    with pytest.raises(AccessRefusedError, match="403"):
        clerk().consume(queue)
    assert channel.queue_depth(queue) == 1

    channel.set_permissions("clerk", configure="", write="", read=f"^{queue}$")
    assert clerk().get(queue, auto_ack=True).body == b"secret"


def test_only_administrators_set_policies_and_permissions(clerk):
    with pytest.raises(AccessRefusedError, match="403"):
        clerk().set_policy("p", ".*", {"max-length": 1})
    with pytest.raises(AccessRefusedError, match="403"):
        clerk().set_permissions("clerk")


def test_a_user_cannot_settle_the_deliveries_of_another_user(channel, clerk, publisher, name):
    queue = name("queue")
    channel.declare_queue(queue)
    publisher.publish("", queue, b"mine").result(WAIT_S)
    channel.set_permissions("clerk", configure="", write="", read=f"^{queue}$")
    theirs = clerk()
    delivery = theirs.get(queue)

    channel.ack(delivery.delivery_id)
    assert channel.sync() == [delivery.delivery_id]
    delivery.reject(requeue=True)
    assert theirs.sync() == []
    assert channel.get(queue, auto_ack=True).body == b"mine"


def test_a_vhost_never_sees_messages_of_another(channel, publisher, name, running_job):
    queue = name("queue")
    channel.declare_queue(queue)
    with running_job.connect(vhost="other") as connection:
        other = connection.channel()
        other.declare_queue(queue)
        connection.publisher().publish("", queue, b"of the other").result(WAIT_S)
        publisher.publish("", queue, b"of this").result(WAIT_S)

        assert channel.queue_depth(queue) == other.queue_depth(queue) == 1
        mine, theirs = channel.get(queue), other.get(queue)
        assert (mine.body, theirs.body) == (b"of this", b"of the other")
        other.ack(mine.delivery_id)
        other.ack(theirs)
        other.sync()
        assert other.queue_depth(queue) == 0
        mine.reject(requeue=True)
        assert channel.get(queue, auto_ack=True).body == b"of this"
