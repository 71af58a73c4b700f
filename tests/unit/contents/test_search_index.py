"""The index of `[tables] search` has every value once, from when a path is set."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from streaming.contents import search_index
from streaming.contents.erasure import erase
from streaming.contents.retention import Periods, retain
from streaming.contents.search_index import SearchIndexer
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.maintenance import Schedule, TableMaintenance
from streaming.ledger.write.parquet_layout import write_row_groups
from streaming.ledger.write.table_writer import TableWriter
from streaming.protocol.search_keys import key_of
from streaming.queries.duckdb_tables import Tables
from streaming.queries.search_index import indexed_paths, messages_with
from tests.builders import START_MS, Broker
from tests.unit.queries.recording import QUERY_ID, Recording

NOW = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(days=9)
PATHS = ("body:$.order", "header:tenant", "property:message_id")


@pytest.fixture
def shop(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("orders")
    return broker, recording


def publish(broker, order, tenant="acme"):
    body = order if isinstance(order, str) else json.dumps({"order": order})
    broker.publish("", "orders", body, headers={"tenant": tenant}, message_id=f"shop-{order}"[:20])


def found(recording, value):
    """The offsets and paths of the messages that have a value."""
    with Tables(recording.root) as tables:
        return [(one.message_id.offset, one.path) for one in messages_with(tables, value, 10)]


def keys(recording):
    return DeltaTable(f"{recording.root}/search_keys").to_pyarrow_table().num_rows


def test_a_message_is_found_by_each_chosen_value(shop):
    broker, recording = shop
    publish(broker, 17)
    publish(broker, 170)
    recording.commit()

    done = SearchIndexer(recording.place, PATHS).update(QUERY_ID)

    assert done == (0, 6, False)
    assert found(recording, "17") == [(0, "body:$.order")]
    assert found(recording, "shop-170") == [(1, "property:message_id")]
    assert found(recording, "acme") == [(1, "header:tenant"), (0, "header:tenant")]
    assert found(recording, "7") == []


def test_a_body_that_cannot_be_read_is_not_indexed(shop):
    broker, recording = shop
    for body in ("no JSON", "[[[[", '{"order": {"id": 17}}', '{"order": null}', "", "\ud7ff" * 9):
        publish(broker, body)
    recording.commit()

    SearchIndexer(recording.place, ("body:$.order",)).update(QUERY_ID)

    assert keys(recording) == 0


def test_each_batch_is_indexed_once_whoever_goes_on(shop):
    broker, recording = shop
    for number in range(3):
        publish(broker, number)
        recording.commit()
        SearchIndexer(recording.place, PATHS).update(QUERY_ID)
    late = SearchIndexer(recording.place, PATHS)

    assert late.update(QUERY_ID) is None
    publish(broker, 3)
    recording.commit()
    assert late.update(QUERY_ID) == (3, 3, False)
    assert keys(recording) == 12


def test_an_update_that_ended_before_its_commit_is_repeated(shop, monkeypatch):
    broker, recording = shop
    publish(broker, 17)
    recording.commit()
    indexer = SearchIndexer(recording.place, PATHS)
    with monkeypatch.context() as patched:
        patched.setattr(TableWriter, "commit_batch", _fail)
        with pytest.raises(OSError, match="no room"):
            indexer.update(QUERY_ID)

    assert SearchIndexer(recording.place, PATHS).update(QUERY_ID) == (0, 3, False)
    assert found(recording, "17") == [(0, "body:$.order")]


def _fail(*_arguments, **_named):
    raise OSError("no room")


def test_a_long_backlog_is_indexed_in_parts(shop, monkeypatch):
    monkeypatch.setattr(search_index, "UPDATE_ROWS", 2)
    monkeypatch.setattr(search_index, "FILE_KEYS", 2)
    broker, recording = shop
    for number in range(5):
        publish(broker, number)
        recording.commit()
    indexer = SearchIndexer(recording.place, PATHS)

    parts = []
    while (done := indexer.update(QUERY_ID)) is not None:
        parts.append(done)

    assert [one.batch_id for one in parts] == [1, 3, 4]
    assert [one.is_behind for one in parts] == [True, True, False]
    assert keys(recording) == 15


def test_a_path_holds_from_when_it_is_set(shop):
    broker, recording = shop
    publish(broker, 1)
    first = recording.commit()
    SearchIndexer(recording.place, ("body:$.order",), -1).update(QUERY_ID)
    publish(broker, 2, tenant="other")
    recording.commit()

    SearchIndexer(recording.place, PATHS, 1).update(QUERY_ID)

    with Tables(recording.root) as tables:
        known = indexed_paths(tables)
    assert [(one.path, one.after_batch) for one in known] == [
        ("body:$.order", -1),
        ("header:tenant", first),
        ("property:message_id", first),
    ]
    assert known[0].since == ""
    assert known[1].since
    assert found(recording, "other") == [(1, "header:tenant")]
    assert found(recording, "acme") == []


def test_paths_that_are_set_again_do_not_claim_what_lay_between(shop):
    broker, recording = shop
    publish(broker, 1)
    recording.commit()
    SearchIndexer(recording.place, PATHS, -1).update(QUERY_ID)
    SearchIndexer(recording.place, (), 0).update(QUERY_ID)
    publish(broker, 2)
    recording.commit()
    assert SearchIndexer(recording.place, (), 1).update(QUERY_ID) is None

    SearchIndexer(recording.place, PATHS, 1).update(QUERY_ID)

    with Tables(recording.root) as tables:
        assert {one.after_batch for one in indexed_paths(tables)} == {1}
    assert found(recording, "2") == []
    assert found(recording, "1") == [(0, "body:$.order")]


def test_without_paths_there_is_no_table(shop):
    broker, recording = shop
    publish(broker, 1)
    recording.commit()

    assert SearchIndexer(recording.place, ()).update(QUERY_ID) is None
    with Tables(recording.root) as tables:
        assert not tables.has("search_keys")
        assert messages_with(tables, "1", 10) == []
        assert indexed_paths(tables) == []


def test_an_erasure_removes_the_values_too(shop):
    broker, recording = shop
    publish(broker, 17, tenant="anna")
    publish(broker, 18)
    recording.commit()
    SearchIndexer(recording.place, PATHS).update(QUERY_ID)
    broker.drain("orders")
    recording.commit()

    erase(recording.place, "contains(decode(body), '17')", "asked", NOW)

    assert found(recording, "17") == found(recording, "anna") == []
    assert found(recording, "18") == [(1, "body:$.order")]
    assert keys(recording) == 3


def test_what_is_erased_while_it_is_indexed_is_not_found(shop, monkeypatch):
    broker, recording = shop
    publish(broker, 17)
    publish(broker, 18)
    recording.commit()
    broker.drain("orders")
    recording.commit()
    indexer = SearchIndexer(recording.place, PATHS)

    def erased_meanwhile(*arguments):
        erase(recording.place, "contains(decode(body), '17')", "asked", NOW)
        return write_row_groups(*arguments)

    monkeypatch.setattr(search_index, "write_row_groups", erased_meanwhile)
    indexer.update(QUERY_ID)

    assert found(recording, "17") == []
    assert found(recording, "18") == [(1, "body:$.order")]


def test_values_leave_with_their_messages(shop):
    broker, recording = shop
    publish(broker, 17)
    recording.commit()
    broker.drain("orders")
    publish(broker, 18)
    recording.commit()
    SnapshotWriter(recording.place).write()
    broker.at(86_400_000)
    publish(broker, 19)
    recording.commit()
    SearchIndexer(recording.place, PATHS).update(QUERY_ID)

    [done] = retain(recording.place, Periods(messages_ms=1), NOW)

    assert (done.table, done.rows, done.kept) == ("messages", 1, 0)
    assert found(recording, "17") == []
    assert found(recording, "18") == [(1, "body:$.order")]
    assert found(recording, "19") == [(2, "body:$.order")]


def test_small_files_are_joined_and_sorted_by_key(shop):
    broker, recording = shop
    indexer = SearchIndexer(recording.place, PATHS)
    for number in range(4):
        publish(broker, number)
        recording.commit()
        indexer.update(QUERY_ID)
    upkeep = TableMaintenance(
        recording.place, "search_keys", Schedule(compaction_least_files=2, compaction_ms=0)
    )

    joined = [one for one in upkeep.step(1) if one.task == "compaction"]

    assert [one.count for one in joined] == [4]
    [path] = ActiveFiles(load_table(recording.place / "search_keys")).paths
    with (recording.place / "search_keys").storage().open(path) as file:
        rows = pq.read_table(file)
    assert rows["key"].to_pylist() == sorted(rows["key"].to_pylist())
    assert rows.num_rows == 12
    assert found(recording, "3") == [(3, "body:$.order")]
    assert key_of("3") in rows["key"].to_pylist()
    assert TABLES["search_keys"].sort == "key"
