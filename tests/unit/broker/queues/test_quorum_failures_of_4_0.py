"""R-DLV-7: how 4.0 counts a message's failures in quorum queues, as recorded on 4.0.5."""

import pytest

from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])
TO_DEAD = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}


def a_broker(cut, compat="4.0", **arguments):
    broker = Broker(cut=cut, compat=compat)
    broker.quorum("q", **{**TO_DEAD, **arguments})
    broker.quorum("dead")
    broker.publish("", "q", "m")
    return broker


def count_in(broker, queue="dead"):
    """The delivery count in the first get of a queue."""
    return next(iter(broker.get(queue, "seen"))).delivery_count


@CUT
@pytest.mark.parametrize(("compat", "counts"), [("4.0", [1, 2]), ("3.10", [0, 0])])
def test_every_rejection_in_a_quorum_queue_is_counted_even_across_a_classic_queue(
    cut, compat, counts
):
    broker = Broker(cut=cut, compat=compat)
    broker.quorum("q", dead_letter_exchange="", dead_letter_routing_key="between")
    broker.queue("between", dead_letter_exchange="", dead_letter_routing_key="q")
    broker.publish("", "q", "m")
    seen = []
    for _ in counts:
        broker.get("q", "g")
        broker.reject("g/0")
        (between,) = broker.get("between", "b")
        assert between.delivery_count == 0
        broker.reject("b/0")
        (again,) = broker.get("q", "h")
        seen.append(again.delivery_count)
        broker.reject("h/0", requeue=True)

    assert seen == counts


@CUT
@pytest.mark.parametrize(("compat", "count"), [("4.0", 1), ("3.10", 0)])
@pytest.mark.parametrize(
    ("reason", "arguments"),
    [
        ("expired", {"message_ttl": 50}),
        ("maxlen", {"max_length": 1}),
        ("delivery_limit", {"delivery_limit": 0}),
    ],
)
def test_a_lost_channel_is_counted_whatever_the_reason_of_death(
    cut, compat, count, reason, arguments
):
    broker = a_broker(cut, compat, **arguments)
    broker.get("q", "g")
    broker.close_channel()
    broker.publish("", "q", "n")
    broker.at(50)
    (dead,) = broker.get("dead", "seen")

    assert (dead.copy.envelope.deaths[0].reason, dead.delivery_count) == (reason, count)


@CUT
def test_a_requeue_is_not_counted(cut):
    broker = a_broker(cut, message_ttl=50)
    broker.get("q", "g")
    broker.reject("g/0", requeue=True)
    broker.at(50)

    assert count_in(broker) == 0


@CUT
def test_a_lost_channel_and_a_rejection_count_as_two(cut):
    broker = a_broker(cut)
    broker.get("q", "g")
    broker.close_channel()
    broker.get("q", "h")
    broker.reject("h/0")

    assert count_in(broker) == 2


@CUT
def test_at_least_once_dead_letters_keep_the_count(cut):
    broker = a_broker(cut, dead_letter_strategy="at-least-once", overflow="reject-publish")
    broker.get("q", "g")
    broker.reject("g/0")

    assert count_in(broker) == 1


@CUT
def test_a_message_refused_by_a_full_queue_keeps_its_count(cut):
    broker = Broker(cut=cut)
    broker.quorum("q", dead_letter_exchange="", dead_letter_routing_key="full")
    broker.queue("full", max_length=0, overflow="reject-publish-dlx", **TO_DEAD)
    broker.quorum("dead")
    broker.publish("", "q", "m")
    broker.get("q", "g")
    broker.reject("g/0")

    assert count_in(broker) == 1
