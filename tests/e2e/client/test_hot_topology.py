"""Queues, bindings and policies change while messages flow: no restart, nothing lost."""

import threading
from typing import Any

from tests.fixtures.jobs import get_when_there
from tests.fixtures.waiting import WAIT_S, join


def bodies(channel: Any, queue: str) -> list[bytes]:
    """Everything in a queue, taken out."""
    return [one.body for one in channel.get_many(queue, 10_000, auto_ack=True)]


def test_a_policy_that_shortens_max_length_trims_at_once(channel, publisher, name):
    queue, dead, graveyard = name("work"), name("dead"), name("graveyard")
    channel.declare_exchange(dead, "fanout")
    channel.declare_queue(graveyard)
    channel.bind_queue(graveyard, dead)
    channel.declare_queue(queue, arguments={"x-dead-letter-exchange": dead})
    for future in [publisher.publish("", queue, str(number)) for number in range(50)]:
        future.result(WAIT_S)
    assert channel.queue_depth(queue) == 50

    channel.set_policy(name("short"), f"^{queue}$", {"max-length": 10}, apply_to="queues")

    assert channel.queue_depth(queue) == 10
    trimmed = channel.get_many(graveyard, 100, auto_ack=True)
    assert [one.body for one in trimmed] == [str(number).encode() for number in range(40)]
    assert {death.reason for one in trimmed for death in one.x_death} == {"maxlen"}

    channel.clear_policy(name("short"))
    for future in [publisher.publish("", queue, "more") for _ in range(20)]:
        future.result(WAIT_S)
    assert channel.queue_depth(queue) == 30


def test_a_policy_that_shortens_the_time_to_live(channel, publisher, name):
    # R-POL-8 and R-TTL: what is in the queue keeps its deadline; what arrives gets the new one.
    queue, graveyard = name("work"), name("graveyard")
    channel.declare_queue(graveyard)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": graveyard}
    channel.declare_queue(queue, arguments=arguments)
    channel.set_policy(name("ttl"), f"^{queue}$", {"message-ttl": 200}, apply_to="queues")
    publisher.publish("", queue, b"brief").result(WAIT_S)

    dead = get_when_there(channel, graveyard, auto_ack=True)

    assert (dead.body, dead.x_death[0].reason) == (b"brief", "expired")


def test_bindings_move_under_traffic_and_nothing_is_lost(
    channel, publisher, name, shared_connection
):
    exchange, first, second = name("exchange"), name("first"), name("second")
    channel.declare_exchange(exchange, "topic")
    for queue in (first, second):
        channel.declare_queue(queue)
    channel.bind_queue(first, exchange, "order.#")
    futures = []
    enough = threading.Event()

    def publish() -> None:
        number = 0
        while not enough.is_set() and number < 5_000:
            futures.append(publisher.publish(exchange, f"order.{number}", str(number)))
            number += 1
            enough.wait(0.002)

    traffic = threading.Thread(target=publish)
    traffic.start()
    changing = shared_connection.channel()
    for _ in range(3):
        changing.bind_queue(second, exchange, "order.#")  # both, for a moment
        changing.unbind_queue(first, exchange, "order.#")
        changing.bind_queue(first, exchange, "order.#")
        changing.unbind_queue(second, exchange, "order.#")
    enough.set()
    join(traffic)
    changing.close()
    for future in futures:
        future.result(WAIT_S)

    found = [*bodies(channel, first), *bodies(channel, second)]
    assert {int(body) for body in found} == set(range(len(futures)))
    assert len(futures) > 10


def test_a_permission_that_is_taken_away_counts_from_the_next_message(channel, name, running_job):
    exchange, queue = name("exchange"), name("queue")
    channel.declare_exchange(exchange, "fanout")
    channel.declare_queue(queue)
    channel.bind_queue(queue, exchange)
    with running_job.connect("clerk") as connection:
        publisher = connection.publisher()
        channel.set_permissions("clerk", configure="", write=f"^{exchange}$", read="")
        publisher.publish(exchange, "", b"in time").result(WAIT_S)
        channel.clear_permissions("clerk")
        assert publisher.publish(exchange, "", b"too late").exception(WAIT_S) is not None
    assert bodies(channel, queue) == [b"in time"]
