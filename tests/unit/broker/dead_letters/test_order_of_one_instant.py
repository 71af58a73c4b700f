"""The order of what happens at one instant in several queues (R-QUEUE-5, R-QUEUE-7)."""

from itertools import pairwise

import pytest

from streaming.broker.dead_letters import planning
from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])


@CUT
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_r_queue_7_queues_that_are_due_at_one_instant_expire_before_their_dead_letters_arrive(
    cut, kind
):
    """The dead letter of `a` would push m2 out of `b`, whose time is up as well."""
    broker = Broker(cut=cut)
    broker.exchange("dlx", "fanout")
    broker.exchange("late", "fanout")
    for name, target in (("a", "dlx"), ("b", "late")):
        broker.queue(
            name, queue_type=kind, message_ttl=100, max_length=1, dead_letter_exchange=target
        )
    broker.bind("dlx", "b")
    broker.queue("end")
    broker.bind("late", "end")
    broker.publish("", "a", "m1")
    broker.publish("", "b", "m2")
    broker.story()

    broker.at(100)

    assert broker.story() == [
        "m1 died in a, expired, to b",
        "m2 died in b, expired, to end",
        "m1 enqueued in b",
        "m2 enqueued in end",
    ]


@CUT
def test_r_queue_7_classic_queues_that_are_due_at_the_same_instant_dead_letter_before_quorum_queues(
    cut,
):
    broker = Broker(cut=cut)
    to_end = {"dead_letter_exchange": "", "dead_letter_routing_key": "end"}
    broker.quorum("a", message_ttl=100, **to_end)
    broker.queue("b", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="c")
    broker.queue("c", max_length=0, **to_end)
    broker.queue("end")
    broker.publish("", "a", "quorum")
    broker.publish("", "b", "classic")

    broker.at(100)

    assert broker.drain("end") == ["classic", "quorum"]


@CUT
def test_r_queue_7_dead_letters_of_quorum_queues_follow_a_whole_cascade_of_classic_queues(cut):
    broker = Broker(cut=cut)
    broker.exchange("x", "fanout")
    broker.quorum("a", max_length=0, dead_letter_exchange="", dead_letter_routing_key="end")
    for name, key in (("b", "c"), ("c", "d"), ("d", "end")):
        broker.queue(name, max_length=0, dead_letter_exchange="", dead_letter_routing_key=key)
    broker.queue("end")
    broker.bind("x", "a")
    broker.bind("x", "b")

    broker.publish("x", "", "m1")

    assert [line for line in broker.story() if "died" in line] == [
        "m1 died in a, maxlen, to end",
        "m1 died in b, maxlen, to c",
        "m1 died in c, maxlen, to d",
        "m1 died in d, maxlen, to end",
    ]
    given = broker.get("end", count=2, auto_ack=True)
    deaths = [[death.queue for death in one.copy.envelope.deaths] for one in given]
    assert deaths == [["d", "c", "b"], ["a"]]


@CUT
def test_the_dead_letter_of_a_quorum_queue_follows_a_death_that_goes_nowhere(cut):
    broker = Broker(cut=cut)
    broker.exchange("x", "fanout")
    broker.queue("a", max_length=0)
    broker.quorum("b", max_length=0, dead_letter_exchange="", dead_letter_routing_key="end")
    broker.queue("end")
    broker.bind("x", "a")
    broker.bind("x", "b")

    broker.publish("x", "", "m1")

    assert [line for line in broker.story() if "died" in line] == [
        "m1 died in a, maxlen, to nowhere: no_exchange",
        "m1 died in b, maxlen, to end",
    ]
    assert broker.drain("end") == ["m1"]


@CUT
def test_dead_letters_that_wait_for_classic_queues_count_towards_the_limit_of_descendants(
    cut, monkeypatch
):
    """D11."""
    monkeypatch.setattr(planning, "MAX_DESCENDANTS", 3)
    broker = Broker(cut=cut)
    broker.exchange("x", "fanout")
    names = ["a", "b", "c", "d", "end"]
    for number, (name, key) in enumerate(pairwise(names)):
        broker.queue(
            name,
            queue_type="classic" if number % 2 else "quorum",
            max_length=0,
            dead_letter_exchange="",
            dead_letter_routing_key=key,
        )
    broker.queue("end")

    broker.publish("", "a", "m1")

    assert [line for line in broker.story() if "died" in line][-2:] == [
        "m1 died in c, maxlen, to d",
        "m1 died in d, maxlen, to nowhere: cascade_limit",
    ]
