"""Copies are found and removed wherever they are in their queue's order."""

import pytest

from streaming.broker.message import NEVER, Copy, Envelope, Message
from streaming.broker.queues.ready_order import ClassicOrder, PriorityOrder
from streaming.broker.state.store import MemoryStore


def a_copy(number, priority=0):
    envelope = Envelope("", ("q",), priority=priority)
    return Copy(number, Message(0, 0, number, 0, number, 1), envelope, number, NEVER, -1)


def numbers(copies):
    return [copy.copy_id for copy in copies]


def classic():
    order = ClassicOrder(MemoryStore(), "p")
    for number in range(6):
        order.push(a_copy(number))
    for copy in (order.pop(), order.pop()):
        order.put_back(copy, 1)
    return order


def by_priority():
    order = PriorityOrder(MemoryStore(), "p", 9, [])
    for number in range(6):
        order.push(a_copy(number, priority=number % 3))
    return order


@pytest.mark.parametrize(
    ("order", "everything"),
    [(classic, [0, 1, 2, 3, 4, 5]), (by_priority, [2, 5, 1, 4, 0, 3])],
)
def test_matching_copies_stay_and_removed_ones_are_gone(order, everything):
    order = order()
    wanted = {0, 3, 4}

    def is_wanted(copy):
        return copy.copy_id in wanted

    assert numbers(order.matching(is_wanted)) == [each for each in everything if each in wanted]
    assert order.remove(is_wanted, 4) == 1
    assert numbers(order.take_all()) == [each for each in everything if each not in wanted]


@pytest.mark.parametrize("order", [classic, by_priority])
def test_no_more_copies_are_removed_than_asked_for(order):
    order = order()

    assert order.remove(lambda _copy: True, 2) == 0

    assert len(list(order.take_all())) == 4


def test_a_level_that_lost_its_last_copy_is_empty():
    order = by_priority()

    order.remove(lambda copy: copy.envelope.priority == 2, 2)

    assert order.pop().envelope.priority == 1
