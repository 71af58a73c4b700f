"""Which publish a confirm is for, and what happens to skipped ones."""

import time

import pytest

from streaming.client import (
    ClientError,
    NackedError,
    QuarantinedError,
    Returned,
    TransactionAbortedError,
    UnroutableError,
)
from streaming.client._transport.confirms import Confirm, Confirms


def a_return() -> Returned:
    return Returned(
        body=b"x",
        exchange="e",
        routing_key="k",
        properties={},
        headers={},
        reply_code=312,
        reply_text="NO_ROUTE",
    )


def begun(confirms, *, in_transaction=False):
    """A publish for which there is room."""
    made = Confirm(in_transaction=in_transaction)
    assert confirms.add(made, 0)
    return made


def placed(confirms, count):
    """Publishes that Kafka has at offsets 0, 1, ... of partition 0."""
    futures = []
    for offset in range(count):
        pending = begun(confirms)
        confirms.stored(pending, (0, offset))
        futures.append(pending)
    return futures


def test_a_confirm_ends_the_publish_it_names():
    confirms = Confirms(10)
    first, second = placed(confirms, 2)

    confirms.confirmed((0, 0), None)

    assert (first.result(0), second.done(), len(confirms)) == (None, False, 1)


def test_a_confirm_before_the_delivery_report_is_kept():
    confirms = Confirms(10)
    pending = begun(confirms)
    confirms.returned((0, 7), a_return())
    confirms.confirmed((0, 7), None)
    assert not pending.done()

    confirms.stored(pending, (0, 7))

    with pytest.raises(UnroutableError, match="312 NO_ROUTE"):
        pending.result(0)


def test_a_skipped_publish_is_quarantined():
    confirms = Confirms(10)
    first, second, third = placed(confirms, 3)

    confirms.confirmed((0, 1), NackedError("full"))

    with pytest.raises(QuarantinedError, match="quarantine"):
        first.result(0)
    with pytest.raises(NackedError):
        second.result(0)
    assert not third.done()


def test_partitions_are_independent():
    confirms = Confirms(10)
    (first,) = placed(confirms, 1)
    other = begun(confirms)
    confirms.stored(other, (1, 5))

    confirms.confirmed((1, 5), None)

    assert (first.done(), other.result(0)) == (False, None)


def test_a_failed_publish_makes_room_and_its_late_confirm_is_ignored():
    confirms = Confirms(1)
    pending = begun(confirms)
    confirms.stored(pending, (0, 0))
    confirms.failed(pending, NackedError("given up"))
    confirms.confirmed((0, 0), None)

    second = begun(confirms)

    assert isinstance(pending.exception(0), NackedError)
    assert not second.done()
    assert not confirms.wait_for_none(0)


def test_at_the_limit_a_publish_waits_until_its_timeout():
    confirms = Confirms(1)
    (first,) = placed(confirms, 1)

    assert not confirms.add(Confirm(in_transaction=False), 0.01)

    confirms.confirmed((0, 0), None)
    assert first.result(0) is None
    assert confirms.add(Confirm(in_transaction=False), 0)


def test_publishes_that_the_job_read_without_a_confirm_are_quarantined():
    confirms = Confirms(9)
    publishes = [begun(confirms) for _ in range(4)]
    for pending, place in zip(publishes[:3], ((0, 8), (0, 9), (1, 10)), strict=True):
        confirms.stored(pending, place)
    one, two, three, four = publishes
    places = confirms.stored_before(time.monotonic() + 1)
    confirms.confirmed((0, 8), None)

    confirms.skipped(places[0])

    assert places == {0: publishes[:2], 1: publishes[2:3]}
    assert confirms.stored_before(publishes[0].sent_s) == {}
    assert one.result(0) is None
    assert isinstance(two.exception(0), QuarantinedError)
    assert not three.done()
    assert not four.done()


def test_a_publish_in_a_transaction_cannot_be_waited_for_until_it_ends_or_fails():
    confirms = Confirms(10)
    [committed] = placed(confirms, 1)
    first, second = [begun(confirms, in_transaction=True) for _ in range(2)]
    for wait in (first.result, first.exception):
        with pytest.raises(ClientError, match="after the commit"):
            wait(0)

    confirms.fail_transaction(TransactionAbortedError("aborted"))

    for pending in (first, second):
        assert isinstance(pending.exception(0), TransactionAbortedError)
    assert not committed.done()


def test_after_the_transaction_its_publishes_can_be_waited_for():
    confirms = Confirms(10)
    pending = begun(confirms, in_transaction=True)

    confirms.end_transaction()

    with pytest.raises(TimeoutError):
        pending.result(0)
    confirms.stored(pending, (0, 0))
    confirms.confirmed((0, 0), None)
    assert pending.exception(0) is None


def test_lanes_confirm_in_any_order():
    confirms = Confirms(10, in_order=False)
    futures = placed(confirms, 3)

    for offset in (2, 0, 1):
        confirms.confirmed((0, offset), None)

    assert [each.result(0) for each in futures] == [None, None, None]
