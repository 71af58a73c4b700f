"""What is in force for a queue is remembered, and never for longer than it is true."""

import pytest

from streaming.broker.vhost import Declared
from topology.declarations import Policy, Queue


@pytest.fixture
def declared():
    made = Declared("4.0")
    made.add_queue(Queue("work"))
    return made


def lengths(declared):
    _number, queue = declared.queues["work"]
    return declared.settings(queue).max_length


def a_policy(max_length):
    return Policy("short", "^work$", {"max-length": max_length}, 0, "queues")


@pytest.mark.parametrize("operator", [False, True])
def test_policies_that_come_change_and_go_are_seen_at_once(declared, operator):
    seen = [lengths(declared)]
    for change in (5, 7):
        declared.policies.set(a_policy(change), operator=operator)
        seen.append(lengths(declared))
    declared.policies.clear("short", operator=operator)

    assert [*seen, lengths(declared)] == [None, 5, 7, None]


def test_a_queue_that_is_declared_again_has_its_own_settings(declared):
    seen = [lengths(declared)]
    declared.remove_queue("work")

    declared.add_queue(Queue("work", arguments={"x-max-length": 3}))

    assert [*seen, lengths(declared)] == [None, 3]


def test_another_default_delivery_limit_is_seen_at_once(declared):
    declared.add_queue(Queue("safe", arguments={"x-queue-type": "quorum"}))
    _number, queue = declared.queues["safe"]
    before = declared.settings(queue).delivery_limit

    declared.default_delivery_limit = 3

    assert (before, declared.settings(queue).delivery_limit) == (20, 3)


def test_what_is_known_is_not_worked_out_again(declared):
    _number, queue = declared.queues["work"]

    assert declared.settings(queue) is declared.settings(queue)
