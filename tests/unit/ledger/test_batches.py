"""Every committed batch has one row of kind batch, which is found fast."""

import json

import pytest

from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.errors import DataFileConflictError
from streaming.ledger.write.batch_row import batch_rows, last_batch_row, write_batch_row
from streaming.ledger.write.table_writer import TableWriter
from tests.unit.ledger.builders import (
    QUERY,
    a_batch_row,
    a_place,
    events,
    local,
    publish,
    rows_of,
)


@pytest.fixture
def root(tmp_path):
    return a_place(tmp_path)


@pytest.fixture
def writer(root):
    return TableWriter(root, "events")


def commit(root, writer, row):
    some_events = publish(
        root, "events", events([1, 2], batch_id=row.batch_id, query_id=row.query_id)
    )
    files = [some_events, write_batch_row(writer.storage, row)]
    writer.commit_batch(row.query_id, row.batch_id, files)


def test_a_batch_row_is_an_event_that_belongs_to_no_shard(root, writer):
    row = a_batch_row(
        4,
        now_ms=1_700_000_000_123,
        offsets={"orders": {"0": 10}},
        resident={10: (1, 68), 9: (0, 0)},
    )
    writer.commit_batch(QUERY, 4, [write_batch_row(writer.storage, row)])

    (found,) = rows_of(root, "events")
    given = {name: value for name, value in found.items() if value is not None}
    assert given.pop("at").isoformat() == "2023-11-14T22:13:20.123000+00:00"
    detail = json.loads(given.pop("detail"))
    assert given == {"query_id": QUERY, "batch_id": 4, "kind": "batch"}
    assert detail["offsets"] == {"orders": {"0": 10}}
    assert list(detail["resident"].items()) == [("10", [1, 68]), ("9", [0, 0])]


def test_the_last_batch_row_is_read(root, writer):
    for batch in range(3):
        commit(root, writer, a_batch_row(batch, mean_bytes=float(batch)))
    commit(root, writer, a_batch_row(9, query_id="other-query"))

    last = last_batch_row(writer.table(), writer.storage, QUERY)

    assert last == BatchRow(QUERY, 2, 2_000, BatchDetail(mean_bytes=2.0))


def test_a_query_without_batches_has_no_last_batch(writer):
    assert last_batch_row(writer.table(), writer.storage, QUERY) is None


def test_a_row_that_is_not_committed_is_not_read(root, writer):
    commit(root, writer, a_batch_row(0))
    write_batch_row(writer.storage, a_batch_row(1))

    assert last_batch_row(writer.table(), writer.storage, QUERY) == a_batch_row(0)


def test_a_replay_keeps_the_row_of_the_first_attempt(root, writer):
    first = write_batch_row(writer.storage, a_batch_row(0, configuration="first"))

    second = write_batch_row(writer.storage, a_batch_row(0, configuration="second"))

    writer.commit_batch(QUERY, 0, [second])
    assert first == second
    assert last_batch_row(writer.table(), writer.storage, QUERY) == a_batch_row(
        0, configuration="first"
    )


@pytest.mark.parametrize(
    ("totals", "again"),
    [
        ({"rows": {"events": 7}}, {"rows": {"events": 8}}),
        ({"last_seq": [["/", 0, 7]]}, {"last_seq": [["/", 0, 8]]}),
        ({"rows": {"events": 7, "messages": 1}}, {"rows": {"events": 7}}),
    ],
)
def test_a_batch_that_has_other_rows_when_it_runs_again_is_refused(writer, totals, again):
    write_batch_row(writer.storage, a_batch_row(1, core_version=1, **totals))

    with pytest.raises(DataFileConflictError, match=r"by core version 1, .* again, by 2"):
        write_batch_row(writer.storage, a_batch_row(1, core_version=2, **again))


def test_records_that_kafka_lost_are_quarantined_once_although_the_batch_runs_again(writer):
    first = a_batch_row(1, rows={"events": 7, "quarantine": 2})
    written = write_batch_row(writer.storage, first)

    assert write_batch_row(writer.storage, a_batch_row(1, rows={"events": 7})) == written


def test_a_row_of_the_same_batch_at_another_instant_is_refused(writer):
    write_batch_row(writer.storage, a_batch_row(0, now_ms=1))

    with pytest.raises(DataFileConflictError):
        write_batch_row(writer.storage, a_batch_row(0, now_ms=2))


def test_another_file_under_the_name_of_a_row_is_refused(root, writer):
    file = write_batch_row(writer.storage, a_batch_row(0))
    (local(root, "events").root / file.path).write_bytes(b"no Parquet")

    with pytest.raises(DataFileConflictError, match="Parquet"):
        write_batch_row(writer.storage, a_batch_row(0))


def test_rows_of_a_range_of_batches_are_sorted(root, writer):
    for batch in (0, 1, 2, 3, 5):
        commit(root, writer, a_batch_row(batch))
    commit(root, writer, a_batch_row(2, query_id="other-query"))

    found = list(batch_rows(writer.table(), writer.storage, QUERY, 1, 4))

    assert found == [a_batch_row(batch) for batch in (1, 2, 3)]


def test_an_empty_table_has_no_rows(writer):
    assert list(batch_rows(writer.table(), writer.storage, QUERY, 0, 9)) == []
