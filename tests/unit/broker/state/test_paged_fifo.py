"""The paging of copies: which are in memory, and which pages are read and written."""

from collections.abc import Callable

import pytest

from streaming.broker.message import NEVER, Copy, Envelope, Message
from streaming.broker.queues.requeued_copies import RequeuedCopies
from streaming.broker.state import paged_fifo as pages
from streaming.broker.state.paged_fifo import Fifo
from streaming.broker.state.schema import FifoRecord, PageRef
from streaming.broker.state.store import MemoryStore
from tests.fixtures.steps import lines_run

ENVELOPE = Envelope("", ("work",))


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_COPIES", 3)
    monkeypatch.setattr(pages, "MIN_PAGE_COPIES", 2)


def a_copy(position: int) -> Copy:
    return Copy(position, Message(0, 0, position, 0, 0, 1), ENVELOPE, position, NEVER, -1)


def a_fifo(*positions: int, store: MemoryStore | None = None) -> Fifo[Copy]:
    fifo: Fifo[Copy] = Fifo(store or MemoryStore(), "p")
    for position in positions:
        fifo.append(a_copy(position))
    return fifo


def positions(fifo: Fifo[Copy]) -> list[int]:
    return [copy.position for copy in fifo.take_all()]


def reopened(store: MemoryStore, fifo: Fifo[Copy]) -> Fifo[Copy]:
    return Fifo(store, "p", fifo.save())


@pytest.mark.parametrize("count", range(15))
def test_copies_leave_in_the_order_of_arrival(count):
    fifo = a_fifo(*range(count))

    assert len(fifo) == count
    assert bool(fifo) == bool(count)
    assert positions(fifo) == list(range(count))


@pytest.mark.parametrize("count", range(15))
def test_saved_copies_leave_in_order_and_no_page_remains(count):
    store = MemoryStore()
    fifo = reopened(store, a_fifo(*range(count), store=store))

    assert len(fifo) == count
    assert positions(fifo) == list(range(count))
    record = fifo.save()
    assert record is None or record.pages == []
    assert store.values == {}


@pytest.mark.parametrize("taken", range(12))
def test_saving_in_the_middle_of_a_page_keeps_the_number_of_taken_copies(taken):
    store = MemoryStore()
    fifo = reopened(store, a_fifo(*range(12), store=store))
    first = [fifo.popleft().position for _ in range(taken)]
    fifo = reopened(store, fifo)

    assert len(fifo) == 12 - taken
    assert first + positions(fifo) == list(range(12))
    assert store.values == {}


def test_a_page_is_not_rewritten_while_copies_are_taken_from_it():
    store = MemoryStore()
    fifo = reopened(store, a_fifo(*range(9), store=store))
    before = dict(store.values)
    fifo.popleft()

    record = fifo.save()

    assert record == FifoRecord(3, [PageRef(1, 3, 1), PageRef(0, 3), PageRef(2, 3)], None, None)
    assert store.values == before


def test_a_few_copies_are_stored_in_the_record_itself():
    store = MemoryStore()
    record = a_fifo(1, store=store).save()

    assert record is not None
    assert (record.pages, record.front) == ([], None)
    assert record.back is not None
    assert store.values == {}


@pytest.mark.parametrize("count", range(12))
@pytest.mark.parametrize("rest", [False, True])
def test_copies_put_in_front_leave_first(count, rest):
    store = MemoryStore()
    fifo = a_fifo(*range(100, 112), store=store)
    if rest:
        fifo = reopened(store, fifo)
    taken = [fifo.popleft().position for _ in range(2)]
    for position in range(count):
        fifo.appendleft(a_copy(99 - position))
    fifo = reopened(store, fifo)

    assert taken == [100, 101]
    assert positions(fifo) == [*range(100 - count, 100), *range(102, 112)]
    assert store.values == {}


def test_copies_can_be_put_in_front_of_an_empty_fifo():
    fifo = a_fifo()
    for position in (3, 2, 1):
        fifo.appendleft(a_copy(position))

    assert positions(fifo) == [1, 2, 3]


def test_many_copies_put_in_front_are_stored_in_pages():
    store = MemoryStore()
    fifo = a_fifo(store=store)
    for position in reversed(range(10)):
        fifo.appendleft(a_copy(position))

    assert store.values != {}
    assert positions(fifo) == list(range(10))


def test_copies_can_be_appended_after_all_were_taken():
    store = MemoryStore()
    fifo = reopened(store, a_fifo(*range(7), store=store))
    taken = [fifo.popleft().position for _ in range(7)]
    for position in range(7, 20):
        fifo.append(a_copy(position))

    assert taken + positions(fifo) == list(range(20))


def test_requeued_copies_leave_by_position_whatever_the_order_of_requeueing():
    """R-SET-2."""
    store = MemoryStore()
    returned = RequeuedCopies(store, "p")
    for position in (5, 3, 9, 4, 1, 7, 8, 2, 6):
        returned.insert(a_copy(position), position)
    returned = RequeuedCopies(store, "p", returned.save())
    first = [returned.pop().position for _ in range(3)]
    returned.insert(a_copy(2), 2)
    returned = RequeuedCopies(store, "p", returned.save())

    assert first == [1, 2, 3]
    assert returned.head().position == 2
    assert [copy.position for copy in returned.take_all()] == [2, 4, 5, 6, 7, 8, 9]
    assert not returned
    assert store.values == {}


def at(position: int) -> Callable[[Copy], bool]:
    return lambda copy: copy.position == position


@pytest.mark.parametrize("wanted", range(14))
@pytest.mark.parametrize("at_rest", [False, True])
def test_a_copy_is_extracted_from_any_place_and_no_page_remains(wanted, at_rest):
    store = MemoryStore()
    fifo = a_fifo(*range(14), store=store)
    taken = [fifo.popleft().position for _ in range(2)]
    if at_rest:
        fifo = reopened(store, fifo)

    extracted = fifo.extract(at(wanted))
    again = fifo.extract(at(wanted))
    fifo = reopened(store, fifo)

    assert taken == [0, 1]
    assert (extracted.position if extracted else None) == (wanted if wanted > 1 else None)
    assert again is None
    assert len(fifo) == (11 if wanted > 1 else 12)
    assert positions(fifo) == [each for each in range(2, 14) if each != wanted]
    assert store.values == {}


def test_a_page_whose_last_copy_is_extracted_is_deleted(monkeypatch):
    monkeypatch.setattr(pages, "PAGE_COPIES", 1)
    store = MemoryStore()
    fifo = reopened(store, a_fifo(0, 1, 2, 3, store=store))

    extracted = fifo.extract(at(2))

    assert extracted is not None
    assert positions(fifo) == [0, 1, 3]
    assert store.values == {}


@pytest.mark.parametrize("first", [1, 5, 9])
def test_requeued_copies_are_extracted_from_any_run(first):
    store = MemoryStore()
    returned = RequeuedCopies(store, "p")
    for position in (5, 3, 9, 4, 1, 7, 8, 2, 6):
        returned.insert(a_copy(position), position)

    extracted = [returned.extract(at(each)) for each in (first, 20)]
    for position in (10, 0):
        returned.insert(a_copy(position), 20 + position)
    returned = RequeuedCopies(store, "p", returned.save())

    assert [each and each.position for each in extracted] == [first, None]
    expected = [each for each in range(11) if each != first]
    assert [copy.position for copy in returned.take_all()] == expected
    assert store.values == {}


def test_a_run_that_lost_its_only_copy_is_removed():
    returned = RequeuedCopies(MemoryStore(), "p")
    returned.insert(a_copy(5), 5)

    assert returned.extract(at(5)) is not None
    assert not returned


def test_a_run_extended_at_its_head_is_found_only_by_its_new_head():
    returned = RequeuedCopies(MemoryStore(), "p")
    for position in (5, 3):
        returned.insert(a_copy(position), position)
    both = [returned.pop().position for _ in range(2)]
    returned.insert(a_copy(7), 7)

    assert both == [3, 5]
    assert returned.head().position == 7


def test_copies_requeued_in_order_or_in_reverse_make_one_run():
    for order in (range(10), reversed(range(10))):
        returned = RequeuedCopies(MemoryStore(), "p")
        for position in order:
            returned.insert(a_copy(position), position)

        assert len(returned.save()) == 1


def test_a_missing_page_is_an_error():
    store = MemoryStore()
    fifo = reopened(store, a_fifo(*range(9), store=store))
    store.values.clear()

    with pytest.raises(AssertionError, match="page p/1 is missing from the state"):
        fifo.popleft()


@pytest.mark.parametrize("ends", ["alternating", "inwards"])
def test_requeueing_from_both_ends_is_not_quadratic(ends):
    def lines(count: int) -> int:
        order = [
            number // 2 if number % 2 == 0 else count - 1 - number // 2 for number in range(count)
        ]
        if ends == "inwards":
            order.reverse()
        requeued = RequeuedCopies(MemoryStore(), "p")

        def insert_all() -> None:
            for position in order:
                requeued.insert(a_copy(position), position)

        run = lines_run(insert_all)
        assert [copy.position for copy in requeued.take_all()] == list(range(count))
        return run

    assert lines(2_000) < 3 * lines(1_000)


def test_removing_copies_rewrites_or_drops_their_pages_and_no_other():
    store = MemoryStore()
    fifo = reopened(store, a_fifo(*range(12), store=store))
    wanted = {4, 5, 6, 7, 10}  # a whole page, and one copy of the last

    left = fifo.remove(lambda copy: copy.position in wanted, 6)

    assert left == 1
    assert len(fifo) == 12 - len(wanted)
    assert positions(fifo) == [place for place in range(12) if place not in wanted]
    assert store.values == {}
