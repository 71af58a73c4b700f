"""The Delta tables have the columns and properties for a stream of small commits."""

import json
import os
import time

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from streaming.ledger.errors import TableMismatchError
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import (
    Retention,
    delta_schema,
    load_table,
    open_table,
    table_exists,
)
from tests.unit.ledger.builders import a_place

NAMES = list(TABLES)


@pytest.mark.parametrize("name", NAMES)
def test_a_new_table_has_columns_with_comments_and_needs_no_new_reader_version(tmp_path, name):
    table = open_table(a_place(tmp_path), name)

    spec = TABLES[name]
    fields = table.schema().fields
    assert pa.schema(table.schema().to_arrow()).names == spec.schema.names
    assert all(field.metadata["comment"] for field in fields)
    assert [field.nullable for field in fields] == [field.nullable for field in spec.schema]
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)


def test_every_row_names_its_batch():
    assert all(spec.schema.names[:2] == ["query_id", "batch_id"] for spec in TABLES.values())


def test_statistics_are_of_existing_top_level_columns():
    for spec in TABLES.values():
        assert set(spec.stats_columns) <= set(spec.schema.names)
        assert set(spec.order) <= set(spec.stats_columns)


def test_the_properties_are_those_of_a_ledger(tmp_path):
    table = open_table(a_place(tmp_path), "events", Retention(log_ms=90_000, removed_file_ms=1_000))

    assert table.metadata().configuration == {
        "delta.appendOnly": "false",
        "delta.dataSkippingStatsColumns": "batch_id,vhost,lane,seq,at,kind",
        "delta.setTransactionRetentionDuration": "interval 36500 days",
        "delta.logRetentionDuration": "interval 90000 milliseconds",
        "delta.deletedFileRetentionDuration": "interval 1000 milliseconds",
        "delta.enableExpiredLogCleanup": "false",
        "delta.checkpointInterval": "100",
    }


def test_only_the_quarantine_never_loses_rows(tmp_path):
    append_only = {
        name: open_table(a_place(tmp_path), name).metadata().configuration["delta.appendOnly"]
        for name in NAMES
    }

    assert append_only == {**dict.fromkeys(NAMES, "false"), "quarantine": "true"}


def test_opening_again_changes_nothing(tmp_path):
    open_table(a_place(tmp_path), "messages")

    assert open_table(a_place(tmp_path), "messages").version() == 0


def test_an_existing_table_takes_over_another_retention(tmp_path):
    open_table(a_place(tmp_path), "messages")

    table = open_table(a_place(tmp_path), "messages", Retention(log_ms=120_000))

    properties = table.metadata().configuration
    assert properties["delta.logRetentionDuration"] == "interval 120000 milliseconds"
    assert properties["delta.appendOnly"] == "false"


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (
            pa.schema([f for f in TABLES["events"].schema if f.name != "kind"]),
            "'kind'",
        ),
        (
            pa.schema(
                [
                    f.with_type(pa.int64()) if f.name == "lane" else f
                    for f in TABLES["events"].schema
                ]
            ),
            "'lane' .*int64.*int32",
        ),
        (
            TABLES["events"].schema.append(pa.field("colour", pa.string())),
            "'colour'",
        ),
    ],
)
def test_a_table_of_another_kind_is_refused(tmp_path, schema, named):
    place = a_place(tmp_path)
    DeltaTable.create((place / "events").url, schema)

    with pytest.raises(TableMismatchError, match=named):
        open_table(place, "events")


def test_a_folder_with_other_files_is_not_a_table(tmp_path):
    place = a_place(tmp_path) / "events"
    (tmp_path / "tables" / "events").mkdir(parents=True)
    (tmp_path / "tables" / "events" / "notes.txt").write_text("mine")

    before = table_exists(place)
    open_table(a_place(tmp_path), "events")

    assert (before, table_exists(place)) == (False, True)


def test_the_clean_up_obeys_the_log_retention(tmp_path):
    place = a_place(tmp_path)
    table = open_table(place, "quarantine", Retention(log_ms=50))
    for note in ("a", "b", "c"):
        table.alter.set_table_description(note)
    table.create_checkpoint()
    log = tmp_path / "tables" / "quarantine" / "_delta_log"
    a_little_ago_s = time.time() - 10
    for path in log.iterdir():
        os.utime(path, (a_little_ago_s, a_little_ago_s))

    load_table(place / "quarantine").cleanup_metadata()

    assert sorted(path.name for path in log.iterdir()) == [
        "00000000000000000003.checkpoint.parquet",
        "00000000000000000003.json",
        "_last_checkpoint",
    ]


def test_the_schema_survives_the_log(tmp_path):
    open_table(a_place(tmp_path), "dead_letters")

    log = tmp_path / "tables" / "dead_letters" / "_delta_log" / f"{0:020}.json"
    (metadata,) = [
        json.loads(line)["metaData"]
        for line in log.read_text().splitlines()
        if "metaData" in line and "schemaString" in json.loads(line).get("metaData", {})
    ]
    assert json.loads(metadata["schemaString"]) == json.loads(
        delta_schema(TABLES["dead_letters"]).to_json()
    )
