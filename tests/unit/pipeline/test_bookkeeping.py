"""The books are closed when enough has happened, and closings leave the processor to batches."""

import logging

import pytest

from streaming.config import TablesSettings
from streaming.contents.closer import Closer
from streaming.ledger.schema.table_setup import Retention
from streaming.pipeline import bookkeeping
from streaming.pipeline.bookkeeping import Bookkeeping
from streaming.queries.closings import list_closings
from streaming.queries.duckdb_tables import Tables
from tests.unit.queries.recording import recording_of_one_order

EVENTS = 1_000


@pytest.fixture
def recording(tmp_path):
    return recording_of_one_order(tmp_path)


@pytest.fixture(autouse=True)
def _free_first_closing(monkeypatch):
    monkeypatch.setattr(bookkeeping, "EVENT_COST_S", 0)


def books_of(recording):
    settings = TablesSettings(closing_interval_rows=EVENTS)
    return Bookkeeping(recording.place, settings, Retention(), is_wall=True)


def close(books, recording, events=EVENTS):
    """Add a batch, close the books if that is due, and return how many closings there are."""
    recording.brokers[0].publish("", "work", "another")
    recording.commit()
    books.add(events)
    books.start_if_due(is_busy=False)
    books.stop()
    return len(list_closings(Tables(str(recording.root))))


def test_the_books_are_closed_once_there_are_enough_events(recording):
    books = books_of(recording)

    assert close(books, recording, EVENTS - 1) == 0
    assert close(books, recording, 1) == 1


@pytest.mark.parametrize(("cost_s", "closings"), [(0, 1), (1_000, 0)])
def test_the_first_closing_that_events_make_due_waits_for_what_it_may_cost(
    recording, monkeypatch, cost_s, closings
):
    monkeypatch.setattr(bookkeeping, "EVENT_COST_S", cost_s)

    assert close(books_of(recording), recording) == closings


@pytest.mark.parametrize(("share", "closings"), [(1, 2), (1_000_000, 1)])
def test_a_closing_that_events_make_due_waits_for_its_share_of_time(
    recording, monkeypatch, share, closings
):
    monkeypatch.setattr(bookkeeping, "CPU_SHARE", share)
    books = books_of(recording)
    close(books, recording)

    assert close(books, recording) == closings


def test_a_closing_that_fails_is_reported_and_a_later_one_covers_it(recording, monkeypatch, caplog):
    monkeypatch.setattr(bookkeeping, "CPU_SHARE", 1)
    books = books_of(recording)
    with monkeypatch.context() as before, caplog.at_level(logging.ERROR):
        before.setattr(Closer, "close", lambda _closer: 1 / 0)
        assert close(books, recording) == 0

    assert "the books could not be closed" in caplog.text
    assert close(books, recording) == 1
