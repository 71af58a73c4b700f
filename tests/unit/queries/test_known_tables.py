"""Tables that stay loaded from one question to the next."""

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from streaming.queries import known_tables
from streaming.queries.duckdb_tables import NoTableError, Tables
from streaming.queries.known_tables import KnownTables


@pytest.fixture
def root(tmp_path):
    write(tmp_path, [1, 2])
    return tmp_path


@pytest.fixture
def loads(monkeypatch):
    """The URLs of tables whose whole log is read from now on."""
    found = []

    def load(url, **options):
        found.append(url)
        return DeltaTable(url, **options)

    monkeypatch.setattr(known_tables, "DeltaTable", load)
    return found


def write(root, ids, **options):
    write_deltalake(root / "orders", pa.table({"id": ids}), mode="append", **options)


def ids(root, known):
    """What a question finds: its rows, and what the log says of its files."""
    with Tables(str(root), known=known) as tables:
        tables.view("orders")
        rows = sorted(one for (one,) in tables.values("SELECT id FROM orders"))
        return rows, sum(tables.of_files("orders", "num_records") or ())


def test_the_next_question_reads_what_was_committed_since(root, loads):
    known = KnownTables()

    assert ids(root, known) == ([1, 2], 2)
    assert ids(root, known) == ([1, 2], 2)
    write(root, [3])
    write(root, [4, 5])
    assert ids(root, known) == ([1, 2, 3, 4, 5], 5)
    assert len(loads) == 1


def test_a_question_stays_at_the_version_it_began_with(root):
    with Tables(str(root), known=KnownTables()) as tables:
        assert tables.table("orders").version() == 0
        write(root, [3])

        assert tables.table("orders").version() == 0
        tables.view("orders")
        assert tables.values("SELECT count(*) FROM orders") == [(2,)]


def test_another_table_in_the_same_place_is_loaded_anew(root, loads):
    known = KnownTables()
    assert ids(root, known) == ([1, 2], 2)
    shutil.rmtree(root / "orders")
    write(root, [7, 8])

    assert ids(root, known) == ([7, 8], 2)
    assert len(loads) == 2


def test_a_table_that_was_removed_is_not_known_any_more(root):
    known = KnownTables()
    ids(root, known)
    shutil.rmtree(root / "orders")

    with pytest.raises(NoTableError):
        ids(root, known)


def test_a_table_whose_last_commit_was_cleaned_up_is_loaded_anew(root, loads):
    known = KnownTables()
    ids(root, known)
    DeltaTable(root / "orders").create_checkpoint()
    (root / "orders" / "_delta_log" / f"{0:020}.json").unlink()

    assert ids(root, known) == ([1, 2], 2)
    assert len(loads) == 2


def test_a_new_column_of_a_later_commit_is_there(root):
    known = KnownTables()
    ids(root, known)
    more = pa.table({"id": [3], "note": ["late"]})
    write_deltalake(root / "orders", more, mode="append", schema_mode="merge")

    with Tables(str(root), known=known) as tables:
        tables.view("orders")
        assert tables.values("SELECT id, note FROM orders ORDER BY id") == [
            (1, None),
            (2, None),
            (3, "late"),
        ]
