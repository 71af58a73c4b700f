"""Tables whose files are missing or damaged: the error names the file and what to do."""

import re
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from streaming.contents.updater import ContentsUpdater
from streaming.ledger.errors import DamagedLogError
from streaming.queries.audit.balance import balance
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.dead_letters.letters import list_dead_letters
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.message_history import history_of
from streaming.queries.sql import ask, create_all_views
from streaming.queries.vhosts.listings import queue_rows
from streaming.storage.location import Location


@pytest.fixture
def root(shop_root, tmp_path):
    """A copy of the shop's tables."""
    return Path(shutil.copytree(shop_root, tmp_path / "tables"))


def data_file(root, table):
    """The first data file of a table."""
    return min((root / table).glob("*.parquet"))


def fails(root, question):
    """What the error of a question says."""
    with pytest.raises(QueryError) as failed, Tables(str(root)) as tables:
        question(tables)
    return str(failed.value)


def every_letter(tables):
    return list_dead_letters(tables, DeadLetterFilter())


def with_condition(tables):
    return list_dead_letters(tables, DeadLetterFilter(where="count > 0"))


def with_sql(tables):
    create_all_views(tables)
    return list(ask(tables, "FROM dead_letters"))


@pytest.mark.parametrize("question", [every_letter, with_condition, with_sql])
def test_a_missing_file_is_named(root, question):
    file = data_file(root, "dead_letters")
    file.unlink()

    said = fails(root, question)

    assert said.startswith(f"{file}: this file of the table dead_letters is missing: ")
    assert "restore tables and checkpoint from a backup" in said


@pytest.mark.parametrize("question", [every_letter, with_condition, with_sql])
def test_a_damaged_file_is_named(root, question):
    file = data_file(root, "dead_letters")
    file.write_bytes(b"rubbish" * 10)

    said = fails(root, question)

    assert said.startswith(f"{file}: this file of the table dead_letters is damaged (")


def test_a_damaged_file_is_found_where_duckdb_does_not_name_it(root):
    file = data_file(root, "messages")
    content = bytearray(file.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[footer : footer + 200] = b"\xff" * 200  # the footer is Thrift: no reader knows this
    file.write_bytes(content)
    tables = Tables(str(root))
    with pytest.raises(duckdb.Error) as raised:
        history_of(tables, "first")

    assert str(file) not in str(raised.value)
    assert fails(root, lambda one: history_of(one, "first")).startswith(f"{file}: this file of")


def test_the_table_that_can_be_made_again_says_how(root):
    file = data_file(root, "queue_contents")
    file.unlink()

    said = fails(root, queue_rows)
    ContentsUpdater(Location(str(root))).rebuild()

    assert "`dlx tables rebuild` makes the table again" in said
    with Tables(str(root)) as tables:
        assert queue_rows(tables)


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda entry: entry.unlink(), "missing"),
        (lambda entry: entry.write_text('{"add": rubbish'), "damaged"),
        (lambda entry: entry.write_bytes(b'{"a": "\xff\xfe"}'), "damaged"),
    ],
)
def test_a_faulty_entry_of_a_log_is_named_without_a_trace_of_rust(root, damage, what):
    entry = root / "events" / "_delta_log" / f"{1:020}.json"
    damage(entry)

    said = fails(root, balance)

    assert said.startswith(f"{entry}: this entry of the log is {what}")
    assert "the table events cannot be read: restore tables and checkpoint" in said
    assert "\n" not in said


def test_a_damaged_table_is_not_taken_for_none(root):
    (root / "snapshots" / "_delta_log").mkdir(parents=True)
    (root / "snapshots" / "_delta_log" / f"{0:020}.json").write_text("rubbish")

    with Tables(str(root)) as tables:
        assert not tables.has("snapshot_contents")
    assert "snapshots cannot be read" in fails(root, lambda one: one.has("snapshots"))


def test_a_rebuild_of_a_table_with_a_damaged_log_says_what_to_remove(root):
    log = root / "queue_contents" / "_delta_log"
    for entry in log.iterdir():
        entry.write_text("{")

    with pytest.raises(DamagedLogError, match=re.escape(f"remove {root / 'queue_contents'}")):
        ContentsUpdater(Location(str(root))).rebuild()
    shutil.rmtree(root / "queue_contents")

    assert ContentsUpdater(Location(str(root))).rebuild().rows == 4


@pytest.mark.parametrize(
    ("table", "column", "question"),
    [
        ("events", "queue", queue_rows),
        ("messages", "properties", lambda tables: history_of(tables, "first")),
        ("dead_letters", "reason", balance),
    ],
)
def test_a_missing_column_is_named(root, table, column, question):
    rows = pa.table(DeltaTable(str(root / table)).to_pyarrow_table()).drop_columns([column])
    shutil.rmtree(root / table)
    write_deltalake(root / table, rows)

    said = fails(root, question)

    assert said.startswith(f"{root / table}: the table lacks the column {column}: start the job")


def test_a_mistake_in_a_question_is_not_blamed_on_a_file(root):
    data_file(root, "messages").unlink()

    assert "nosuch" in fails(root, lambda one: list(ask(one, "SELECT nosuch FROM range(3)")))
    with pytest.raises(KeyError, match="nothing to do with it"):
        fails(root, lambda tables: {"events": tables.table("events")}["nothing to do with it"])
