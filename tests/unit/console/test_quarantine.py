"""Quarantine: the records that could not be understood, for administrators."""

import re
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Constant, build_table
from streaming.ledger.write.data_file import DataFileName, write_data_file
from streaming.ledger.write.table_writer import TableWriter
from streaming.queries.quarantine import NAME
from tests.unit.queries.recording import QUERY_ID
from tests.unit.queries.shop import a_shop

COUNT = 120


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The folder of tables with many records in quarantine."""
    recording = a_shop(tmp_path_factory.mktemp("quarantine") / "tables")
    recording.close()
    at = pa.array([datetime(2020, 9, 13, 12, 26, tzinfo=UTC)] * COUNT, pa.timestamp("us", tz="UTC"))
    numbers = np.zeros(COUNT, np.int32)
    offsets = np.arange(COUNT)
    columns = {
        "query_id": Constant(QUERY_ID),
        "batch_id": Constant(1),
        "topic_number": numbers,
        "partition": numbers,
        "offset": offsets,
        "origin.topic": Constant("dlx.publishes"),
        "origin.topic_number": numbers,
        "origin.partition": numbers,
        "origin.offset": offsets,
        "origin.timestamp": at,
        "cause": ["no_exchange" if number else "bad_header" for number in range(COUNT)],
        "detail": [f"record <{number}> has none" for number in range(COUNT)],
        "record_key": [b"k"] * COUNT,
        "record_value": [b"<script>x</script>"] * COUNT,
        "kafka_headers": [[]] * COUNT,
    }
    table = build_table(TABLES[NAME].schema, columns, COUNT)
    name = DataFileName(QUERY_ID, 1, NAME, "test", 0)
    file = write_data_file((recording.place / NAME).storage(), TABLES[NAME], name, table)
    assert file is not None
    TableWriter(recording.place, NAME).commit_batch(QUERY_ID, 2, [file])
    return recording.root


def test_the_records_are_listed_the_latest_first_and_paged(make_client, tables):
    client = make_client(tables)
    pages = [client.get(f"/quarantine?page={page}").text for page in (1, 2)]
    shown = [re.findall(r'<td class="nowrap">(0/0/\d+)</td>', page) for page in pages]

    assert [len(one) for one in shown] == [100, 20]
    assert shown[0][0] == "0/0/119"
    assert shown[1][-1] == "0/0/0"
    assert "record &lt;119&gt; has none" in pages[0]
    assert "<script>x" not in pages[0]
    assert "100 of 120" in pages[0]


def test_a_cause_is_chosen(make_client, tables):
    page = make_client(tables).get("/quarantine?cause=bad_header").text

    assert re.findall(r'<td class="nowrap">(0/0/\d+)</td>', page) == ["0/0/0"]
    assert "dlx quarantine list --cause bad_header" in page


def test_none_is_said_and_the_balance_leads_there(shop_console):
    assert "No record is in quarantine." in shop_console.get("/quarantine").text
    assert 'href="/quarantine"' in shop_console.get("/health").text


def test_a_user_of_some_vhosts_sees_none(make_client_of_anna, tables):
    anna = make_client_of_anna(tables)

    answer = anna.get("/quarantine")

    assert answer.status_code == 403
    assert "dlx.publishes" not in answer.text
    assert "/quarantine" not in anna.get("/health").text
