"""Published headers by message: a headers exchange asks for them when it is reached (D12)."""

import json

import pytest

from streaming.broker.config import ShardConfig
from streaming.broker.message import NO_FILE, Message, PublishedHeaders
from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.errors import BodyMismatchError
from streaming.ledger.read import table_files
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import compact, small_files
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.intake.stage import Intake
from streaming.pipeline.rows import stored
from streaming.pipeline.rows.messages import body_file_number
from streaming.pipeline.rows.stored import published_rows, stored_rows
from streaming.pipeline.task import BatchContext, OutboundTask, TaskSettings, TopicTask
from streaming.storage.location import Location
from tests.builders import START_MS
from tests.property.pipeline.records import arrow_batch

QUERY = "query"
ROWS = 30


@pytest.fixture
def place(tmp_path):
    """Two batches of publishes, each with a header of its own."""
    root = Location(str(tmp_path))
    settings = TaskSettings(
        tables=root,
        topics={"log": TopicTask(1, "guest")},
        vhosts={"/": (1,)},
        shards={1: ShardConfig()},
        outbound=OutboundTask({}),
        max_body_bytes=16,
        max_header_bytes=1 << 10,
    )
    with Ledger(root) as ledger:
        for batch_id in range(2):
            intake = Intake(settings, BatchContext(QUERY, batch_id, START_MS))
            numbers = range(batch_id * ROWS, (batch_id + 1) * ROWS)
            publishes = [
                {
                    "value": b"",
                    "dlx-headers": json.dumps({"n": number, "t": {"$bytes": "/w=="}}).encode(),
                    "foreign": [("trace", b"%d" % number)],
                }
                for number in numbers
            ]
            intake.add(arrow_batch(publishes, "log", numbers.start))
            ledger.commit(intake.close(), BatchRow(QUERY, batch_id, START_MS, BatchDetail()))
    return root


def message(number):
    batch_id, row = divmod(number, ROWS)
    return Message(1, 0, number, body_file_number(batch_id, 0), row, 0)


def expected(number):
    return PublishedHeaders({"n": number, "t": b"\xff"}, {"trace": str(number)})


def test_the_headers_of_any_message_are_read_in_any_order(place, monkeypatch):
    monkeypatch.setattr(stored, "_PORT_BYTES", 1)  # one row group stays in memory

    with published_rows(place, QUERY, 1, "s1") as published:
        for number in (3, 59, 0, 31, 3):
            assert published(message(number)) == expected(number)


def test_headers_of_compacted_messages_are_found(place):
    table = place / "messages"
    files = small_files(TABLES["messages"], ActiveFiles(load_table(table)))
    compacted = compact(table, TABLES["messages"], files)
    assert compacted is not None
    for file in files:
        table.storage().delete(file.path)

    with published_rows(place, QUERY, 1, "s1") as published:
        assert published(message(42)) == expected(42)


def test_headers_are_found_after_their_file_was_closed_compacted_and_removed(place, monkeypatch):
    monkeypatch.setattr(stored, "_PORT_BYTES", 1)
    monkeypatch.setattr(table_files, "OPEN_FILES", 1)
    table = place / "messages"
    files = small_files(TABLES["messages"], ActiveFiles(load_table(table)))

    with published_rows(place, QUERY, 1, "s1") as published:
        assert [published(message(number)) for number in (3, 59)] == [expected(3), expected(59)]
        assert compact(table, TABLES["messages"], files) is not None
        for file in files:
            table.storage().delete(file.path)

        assert published(message(0)) == expected(0)


@pytest.mark.parametrize("file", [NO_FILE, 0])
def test_a_message_without_a_place_is_found_by_its_key_or_missing(place, file):
    with published_rows(place, QUERY, 1, "s1") as published:
        assert published(Message(1, 0, 42, file, 0, 0)) == expected(42)
        with pytest.raises(LookupError):
            published(Message(1, 0, 1_000, NO_FILE, 0, 0))


def test_a_place_with_another_message_is_an_error(place):
    wrong = Message(1, 0, 4, body_file_number(0, 1), 3, 0)  # row 3 of the file has offset 3

    with pytest.raises(BodyMismatchError), published_rows(place, QUERY, 1, "s1") as published:
        published(wrong)


def test_a_reader_stays_open_for_the_next_batch_but_not_after_an_error(place):
    with stored_rows(place) as first:
        pass
    with stored_rows(place) as again:
        pass
    assert again is first

    with pytest.raises(ValueError, match="batch"), stored_rows(place):
        raise ValueError("the batch failed")
    with stored_rows(place) as fresh:
        assert fresh is not first
