"""Answers as rows, Arrow and files."""

import csv
import io
import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streaming.ledger.schema.schemas import DEAD_LETTERS
from streaming.queries import DeadLetterFilter, QueryError, open_tables
from streaming.queries.dead_letters.export import export, format_of


@pytest.fixture
def queries(shop_root):
    with open_tables(shop_root) as opened:
        yield opened


def test_an_answer_is_an_arrow_table_with_the_types_of_the_delta_table(queries):
    found = queries.dead_letters().to_arrow()

    assert found.num_rows == 2
    assert found.schema.names == DEAD_LETTERS.names
    assert found.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert found.schema.field("body").type == pa.binary()
    assert min(found["body"].to_pylist()) == b"order 0"


def test_an_answer_is_a_relation_that_can_be_asked_further(queries):
    found = queries.dead_letters().relation().filter("queue = 'mail'").select("reason")

    assert found.fetchall() == [("expired",)]


def test_answers_of_one_folder_do_not_disturb_each_other(queries):
    rejected = queries.dead_letters(DeadLetterFilter(reason="rejected"))
    queries.dead_letters(DeadLetterFilter(where="false")).rows()

    assert [row["queue"] for row in rejected] == ["billing"]


@pytest.mark.parametrize(
    ("as_of", "queues"),
    [
        ("0/0/0", []),
        (0, ["billing", "mail"]),
        (datetime(2020, 9, 13, 12, 26, 40, 499_000, tzinfo=UTC), ["billing"]),
    ],
    ids=str,
)
def test_answers_can_be_of_an_earlier_instant(shop_root, as_of, queues):
    with open_tables(shop_root, as_of=as_of) as past:
        assert sorted(row["queue"] for row in past.dead_letters()) == queues


@pytest.mark.parametrize("as_of", ["soon", "2020-09-13", 99])
def test_an_instant_that_is_not_understood_is_refused(shop_root, as_of):
    with pytest.raises(QueryError), open_tables(shop_root, as_of=as_of):
        pass


def test_queues_contents_history_and_sql_are_answered(queries):
    assert ("billing", 1) in [(one.queue, one.ready) for one in queries.queues()]
    assert queries.contents().count() == 4
    assert queries.history("first").message_id == "0/0/0"
    assert queries.sql("SELECT queue FROM dead_letters ORDER BY queue;").rows() == [
        {"queue": "billing"},
        {"queue": "mail"},
    ]


@pytest.mark.parametrize("sql", ["", "DROP VIEW dead_letters", "SELECT 1; SELECT 2", "SELECT x"])
def test_anything_but_one_query_is_refused(queries, sql):
    with pytest.raises(QueryError):
        queries.sql(sql)


def test_an_export_of_text_has_what_a_list_prints(queries, tmp_path):
    listed = [row["message_id"] for row in queries.dead_letters()]
    for form in ("csv", "jsonl"):
        assert export(queries.dead_letters(), str(tmp_path / f"x.{form}"), form) == 2
    lines = (tmp_path / "x.jsonl").read_text().splitlines()
    rows = list(csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text())))

    assert [json.loads(line)["message_id"] for line in lines] == listed
    assert [row["message_id"] for row in rows] == listed
    assert json.loads(rows[0]["x_death"]) == json.loads(lines[0])["x_death"]


def test_an_export_of_columns_is_what_the_table_holds(queries, tmp_path):
    expected = queries.dead_letters().to_arrow()
    reported: list[int] = []
    for form in ("parquet", "arrow"):
        export(
            queries.dead_letters(), f"file://{tmp_path}/x.{form}", form, progress=reported.append
        )

    assert pq.read_table(tmp_path / "x.parquet").equals(expected)
    with pa.OSFile(str(tmp_path / "x.arrow")) as file:
        assert pa.ipc.open_file(file).read_all().equals(expected)
    assert reported == [2, 2]


def test_an_existing_file_stays_unless_it_may_be_replaced(queries, tmp_path):
    target = tmp_path / "x.csv"
    target.write_text("mine")

    with pytest.raises(QueryError, match="--force"):
        export(queries.dead_letters(), str(target), "csv")
    assert target.read_text() == "mine"
    export(queries.dead_letters(), str(target), "csv", replace=True)
    assert target.read_text() != "mine"


@pytest.mark.parametrize("target", ["other://bucket/x.csv", "s3:///x.csv", "a" * 300 + ".csv"])
def test_a_place_that_cannot_be_written_is_a_mistake(queries, target):
    with pytest.raises(QueryError, match="cannot be written"):
        export(queries.dead_letters(), target, "csv")


def test_a_failed_export_leaves_no_file(queries, tmp_path):
    bad = DeadLetterFilter(where="CAST(queue AS INT) = 1")
    with pytest.raises(QueryError, match="Could not convert"):
        export(queries.dead_letters(bad), str(tmp_path / "x.jsonl"), "jsonl")
    with pytest.raises(QueryError, match="cannot be written"):
        export(queries.dead_letters(), str(tmp_path / "missing" / "x.csv"), "csv")
    with pytest.raises(QueryError, match="is a folder"):
        export(queries.dead_letters(), str(tmp_path), "csv", replace=True)

    assert list(tmp_path.iterdir()) == []


def test_an_export_to_stdout_goes_to_the_given_stream(queries):
    stream = io.BytesIO()

    assert export(queries.dead_letters(DeadLetterFilter(limit=1)), "-", "jsonl", stdout=stream) == 1
    assert json.loads(stream.getvalue())["message_id"] == "0/0/2"


def test_the_format_is_in_the_name_of_the_file():
    assert format_of("s3://bucket/letters.parquet") == "parquet"
    assert format_of("x.JSON") == "jsonl"
    assert format_of("letters") is None


LISTS = (
    *("queue_settings", "exchanges", "bindings", "policies", "permissions", "channels"),
    *("consumers", "connections", "quarantine"),
)
NONE = ("policies", "permissions", "consumers", "quarantine")
"""What the recorded shop has none of."""


@pytest.mark.parametrize("name", LISTS)
def test_every_listing_is_an_answer_that_arrow_and_duckdb_take(queries, name):
    found = getattr(queries, name)()

    assert found.to_arrow().to_pylist() != [] or name in NONE
    assert found.count() == len(found) == len(found.rows()) == found.to_arrow().num_rows
    if found.columns:
        assert found.relation().count("*").fetchall() == [(len(found),)]


def test_peek_and_changes_of_a_queue_are_asked_from_python(queries):
    [resting] = queries.peek("dead")
    since_start = queries.queue_changes("dead", "2020-09-13T12:26:40Z")
    since_batch = queries.queue_changes("dead", 0, 0)

    assert (resting["message_id"], resting["body"][:7]) == ("0/0/2", "order 2")
    assert {row["message_id"] for row in since_start} >= {"0/0/0", "0/0/2"}
    assert since_batch.rows() == []
    assert queries.tables.cut is None


def test_the_rest_of_the_command_line_is_asked_from_python(queries):
    assert queries.balance().unexplained == 0
    assert queries.snapshots() == []
    assert {one.name for one in queries.table_sizes()} >= {"events", "messages", "dead_letters"}
    assert [row["vhost"] for row in queries.overview().vhosts] == ["/"]
    assert [copy.queue for copy in queries.copies("0/0/0")] == ["billing", "dead"]
    assert queries.scenario("0/0/0").is_same


def test_another_topology_is_tried_from_python(queries):
    document = b'{"vhosts": [{"name": "/"}], "queues": []}'

    found = queries.topology_replay(document, since=0)

    assert (found.resident, found.unlisted) == (1, [])
    assert {one.reason for one in found.fates if one.fate == "lost" and one.replayed} == {
        "no_queue"
    }


def test_the_package_has_the_names_that_it_lists_and_no_others():
    import streaming.queries as package

    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = package.nothing_like_it
