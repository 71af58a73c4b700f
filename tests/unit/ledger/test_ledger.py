"""A batch is committed to four tables in order."""

import pytest

from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.schema.table_setup import Retention
from streaming.ledger.write.ledger import Ledger
from tests.unit.ledger.builders import (
    QUERY,
    a_batch_row,
    a_place,
    messages,
    publish,
    rows_of,
    tables_of,
)


@pytest.fixture
def root(tmp_path):
    return a_place(tmp_path)


def test_a_batch_is_committed_to_every_table_in_order(root):
    with Ledger(root) as ledger:
        files = [publish(root, name, rows) for name, rows in tables_of(0).items()]

        committed = ledger.commit(reversed(files), a_batch_row(0))

        assert list(committed.outcomes.items()) == [(name, "committed") for name in LEDGER]
        assert list(committed.seconds) == list(LEDGER)
        assert ledger.last_batch(QUERY) == a_batch_row(0)


def test_tables_without_rows_are_not_committed(root):
    with Ledger(root) as ledger:
        files = [publish(root, "messages", messages([1]))]

        committed = ledger.commit(files, a_batch_row(0))

        assert committed.outcomes == {
            "messages": "committed",
            "quarantine": "skipped",
            "dead_letters": "skipped",
            "events": "committed",
        }
    assert [row["kind"] for row in rows_of(root, "events")] == ["batch"]


def test_a_batch_without_input_or_events_commits_nothing(root):
    with Ledger(root) as ledger:
        committed = ledger.commit([], a_batch_row(1))

        assert set(committed.outcomes.values()) == {"skipped"}
        assert (ledger.last_batch(QUERY), ledger.query_ids()) == (None, set())


def test_a_ledger_whose_settings_were_changed_has_no_queries(root):
    with Ledger(root):
        pass

    with Ledger(root, Retention(log_ms=90_000)) as ledger:
        assert ledger.query_ids() == set()


def test_the_first_batch_is_recorded_even_if_empty(root):
    with Ledger(root) as ledger:
        ledger.commit([], a_batch_row(0, configuration="first"))

        assert ledger.last_batch(QUERY) == a_batch_row(0, configuration="first")
        assert (ledger.query_ids(), ledger.last_batches(QUERY)) == ({QUERY}, {"events": 0})


def test_a_partly_committed_batch_is_detected(root):
    with Ledger(root) as ledger:
        file = publish(root, "messages", messages([1]))
        ledger.writers["messages"].commit_batch(QUERY, 0, [file])

        assert (ledger.query_ids(), ledger.last_batch(QUERY)) == ({QUERY}, None)
        assert set(ledger.last_batches(QUERY).values()) == {0}
