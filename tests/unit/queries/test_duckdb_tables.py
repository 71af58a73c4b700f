"""Delta tables as DuckDB views."""

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake

from streaming.queries.audit.balance import balance
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.dead_letters.letters import list_dead_letters
from streaming.queries.duckdb_tables import QueryError, Tables, iso, quoted, text


@pytest.fixture
def orders(tmp_path):
    """A table of two files; the second has an additional column."""
    write_deltalake(tmp_path / "orders", pa.table({"id": [1, 2]}))
    more = pa.table({"id": [3], "note": ["late"]})
    write_deltalake(tmp_path / "orders", more, mode="append", schema_mode="merge")
    return Tables(str(tmp_path))


def test_a_column_missing_from_a_file_is_null(orders):
    orders.view("orders")

    assert orders.rows("SELECT * FROM orders ORDER BY id") == [
        {"id": 1, "note": None},
        {"id": 2, "note": None},
        {"id": 3, "note": "late"},
    ]


def test_a_view_can_have_selected_columns_and_files(orders):
    files = orders.files("orders", {"id": 2})
    orders.view("orders", files=files, columns=["note"], view="late ones")

    assert orders.rows('FROM "late ones"') == [{"note": "late"}]


@pytest.mark.parametrize(("above", "count"), [(0, 2), (1, 2), (2, 1), (3, 0)])
def test_files_are_skipped_by_their_greatest_value(orders, above, count):
    assert len(orders.files("orders", {"id": above})) == count


def test_the_bound_can_be_inclusive(orders):
    assert len(orders.files("orders", {"id": 3}, inclusive=True)) == 1


@pytest.mark.parametrize(("most", "count"), [(0, 0), (1, 1), (2, 1), (3, 2)])
def test_files_are_skipped_by_their_least_value(orders, most, count):
    assert len(orders.files("orders", up_to={"id": most})) == count
    assert len(orders.files("orders", up_to={"unknown": most})) == 2


def test_files_are_skipped_that_cannot_have_a_kind(tmp_path):
    for kinds in (["acked", "enqueued"], ["enqueued", "topology"], [None]):
        table = pa.table({"kind": pa.array(kinds, pa.string())})
        write_deltalake(tmp_path / "events", table, mode="append")
    tables = Tables(str(tmp_path))

    assert len(tables.files("events", kinds=["died"])) == 2
    assert len(tables.files("events", kinds=["redriven", "republished"])) == 2
    assert len(tables.files("events", kinds=["unknown"])) == 1  # of that file nothing is known
    assert len(tables.files("events")) == 3


def test_a_table_without_files_is_an_empty_view(tmp_path):
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("names", pa.list_(pa.string())),
            (
                "place",
                pa.struct([("on", pa.int32()), ("by name", pa.map_(pa.string(), pa.binary()))]),
            ),
        ]
    )
    DeltaTable.create(tmp_path / "none", schema)
    tables = Tables(str(tmp_path))

    tables.view("none")

    assert tables.rows("FROM none") == []
    assert tables.values("SELECT column_type FROM (DESCRIBE none)") == [
        ("BIGINT",),
        ("TIMESTAMP WITH TIME ZONE",),
        ("VARCHAR[]",),
        ('STRUCT("on" INTEGER, "by name" MAP(VARCHAR, BLOB))',),
    ]


def test_a_snapshot_stays_at_its_version(orders, tmp_path):
    orders.view("orders")
    write_deltalake(tmp_path / "orders", pa.table({"id": [4]}), mode="append", schema_mode="merge")

    assert orders.values("SELECT count(*) FROM orders") == [(3,)]
    orders.view("orders")
    assert orders.values("SELECT count(*) FROM orders") == [(3,)]


def test_deltalake_reads_tables_that_duckdb_cannot(shop_root, tmp_path):
    """A table with the deletion vectors feature, without deleted rows."""
    root = tmp_path / "tables"
    shutil.copytree(shop_root, root)
    for name in ("events", "dead_letters"):
        table = DeltaTable(root / name)
        table.alter.add_feature(
            TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
        )
    tables = Tables(str(root))

    assert tables.paths("events", []) is None
    assert balance(tables).findings == []
    assert len(list_dead_letters(tables, DeadLetterFilter(queue="mail"))) == 1


def test_a_path_may_contain_spaces_quotes_and_other_letters(shop_root, tmp_path):
    root = tmp_path / 'it\'s a "tést" folder'
    shutil.copytree(shop_root, root)

    assert balance(Tables(str(root))).findings == []
    assert balance(Tables(root.as_uri())).findings == []


def test_an_error_names_a_folder_that_is_no_delta_table(tmp_path):
    (tmp_path / "events" / "_delta_log").mkdir(parents=True)
    (tmp_path / "events" / "_delta_log" / f"{0:020}.json").write_text("{")

    with pytest.raises(QueryError, match=r"0\.json: this entry of the log is damaged "):
        Tables(str(tmp_path)).table("events")


def test_instants_have_milliseconds():
    tables = Tables("nowhere")
    [row] = tables.rows("SELECT TIMESTAMPTZ '2026-03-01 13:00:00.5+01' AS at_, NULL AS never")

    assert (iso(row["at_"]), iso(row["never"])) == ("2026-03-01T12:00:00.500Z", None)


def test_names_and_texts_are_quoted():
    value, name = text("it's"), quoted('a "name"')

    assert Tables("nowhere").rows(f"SELECT {value} AS {name}") == [{'a "name"': "it's"}]
