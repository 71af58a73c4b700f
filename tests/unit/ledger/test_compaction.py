"""Compaction only changes how rows are stored, even with concurrent writers."""

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import CommitFailedError

from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import LEDGER, TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import (
    Compacted,
    commit_onto,
    compact,
    plan,
    replace_files,
    small_files,
)
from streaming.ledger.write.ledger import query_ids
from streaming.ledger.write.log_actions import add_action, removal
from streaming.ledger.write.table_writer import TableWriter
from tests.fixtures.waiting import join
from tests.unit.ledger.builders import (
    QUERY,
    a_place,
    events,
    local,
    messages,
    paths_of,
    publish,
    rows_of,
    tables_of,
)

EVENTS = TABLES["events"]


@pytest.fixture
def root(tmp_path):
    return a_place(tmp_path)


def some_batches(root, name, count, *, first=0):
    writer = TableWriter(root, name)
    for batch in range(first, first + count):
        rows = tables_of(batch, seqs=range(10 * batch, 10 * batch + 3))[name]
        writer.commit_batch(QUERY, batch, [publish(root, name, rows)])
    return writer


def files_of(root, name):
    return small_files(TABLES[name], ActiveFiles(load_table(root / name)))


@pytest.mark.parametrize("name", LEDGER)
def test_a_compacted_table_has_the_same_rows_in_one_file(root, name):
    some_batches(root, name, 5)
    before, paths = rows_of(root, name), paths_of(root, name)

    done = compact(root / name, TABLES[name], files_of(root, name))

    assert done is not None
    assert rows_of(root, name) == before
    assert (paths_of(root, name), sorted(done.replaced), done.rows) == ([done.path], paths, 15)


def test_compaction_rests_after_each_piece_of_its_work(root):
    some_batches(root, "events", 5)
    before = rows_of(root, "events")
    worked: list[float] = []

    done = compact(root / "events", EVENTS, files_of(root, "events"), worked.append)

    assert done is not None
    assert len(worked) == 5
    assert min(worked) > 0
    assert rows_of(root, "events") == before


def test_a_compacted_file_keeps_order_row_groups_and_statistics(root):
    writer = TableWriter(root, "messages")
    files = [
        publish(root, "messages", messages(range(first, first + 4000), batch_id=batch), first=first)
        for batch, first in enumerate(range(0, 20000, 4000))
    ]
    for batch in (3, 0, 4, 1, 2):
        writer.commit_batch(f"query-{batch}", 0, [files[batch]])

    group = plan(files_of(root, "messages"), 1 << 30, 2)
    done = compact(root / "messages", TABLES["messages"], group[0])

    assert done is not None
    parquet = pq.ParquetFile(local(root, "messages").root / done.path)
    sizes = [parquet.metadata.row_group(i).num_rows for i in range(parquet.num_row_groups)]
    assert parquet.read(columns=["offset"])["offset"].to_pylist() == list(range(20000))
    assert sizes == [10_000, 10_000]
    table = ActiveFiles(load_table(root / "messages"))
    assert (table.least("offset").tolist(), table.greatest("offset").tolist()) == ([0], [19999])
    assert (table.least("batch_id").tolist(), table.greatest("batch_id").tolist()) == ([0], [4])


def test_compaction_keeps_the_batch_numbers(root):
    writer = some_batches(root, "events", 3)
    compact(root / "events", EVENTS, files_of(root, "events"))

    again = publish(root, "events", events([20, 21, 22], batch_id=2))

    assert writer.commit_batch(QUERY, 2, [again]) == "skipped"
    assert TableWriter(root, "events").last_batch(QUERY) == 2


def test_batches_committed_during_a_compaction_are_kept(root):
    writer = some_batches(root, "events", 4)
    group = files_of(root, "events")
    some_batches(root, "events", 2, first=4)

    done = compact(root / "events", EVENTS, group)
    after = writer.commit_batch(QUERY, 6, [publish(root, "events", events([99], batch_id=6))])

    assert done is not None
    assert after == "committed"
    assert len(rows_of(root, "events")) == 6 * 3 + 1
    assert len(paths_of(root, "events")) == 1 + 2 + 1


def test_files_compacted_by_another_process_are_not_compacted_again(root):
    some_batches(root, "events", 4)
    group = files_of(root, "events")
    compact(root / "events", EVENTS, group[:2])
    before = rows_of(root, "events")

    assert compact(root / "events", EVENTS, group) is None
    assert rows_of(root, "events") == before


def test_an_uncommitted_rewrite_is_used_by_the_next_attempt(root):
    some_batches(root, "events", 4)
    group = files_of(root, "events")
    done = compact(root / "events", EVENTS, group)
    assert done is not None
    file = local(root, "events").root / done.path
    written = file.stat().st_ino
    (local(root, "events").root / "_delta_log" / f"{5:020}.json").unlink()  # as if never committed

    again = compact(root / "events", EVENTS, group)

    assert again == done
    assert (file.stat().st_ino, len(rows_of(root, "events"))) == (written, 12)


def test_rows_without_a_later_column_are_compacted_with_null(root):
    storage = local(root, "events")
    writer = TableWriter(root, "events")
    for batch in (0, 1):
        file = publish(root, "events", events([batch], batch_id=batch))
        if batch == 0:
            path = storage.root / file.path
            pq.write_table(pq.read_table(path).drop_columns(["channel"]), path)
        writer.commit_batch(QUERY, batch, [file])

    compact(root / "events", EVENTS, files_of(root, "events"))

    assert [(row["seq"], row["channel"]) for row in rows_of(root, "events")] == [
        (0, None),
        (1, None),
    ]


def a_rewrite(root, name, group):
    """Commit the rows of a group as one file, like another engine or like dlx."""
    folder = local(root, "events").root
    pq.write_table(
        pa.concat_tables([pq.read_table(folder / file.path) for file in group]), folder / name
    )
    added = add_action(
        EVENTS,
        path=name,
        size=(folder / name).stat().st_size,
        rows=sum(file.rows for file in group),
        ranges={},
        modified_ms=0,
        data_change=False,
    )
    return added, [removal(file.path, file.size, 0) for file in group]


def test_a_concurrent_foreign_rewrite_wins_without_duplicate_rows(root):
    some_batches(root, "events", 3)
    place = root / "events"
    before = rows_of(root, "events")
    group = files_of(root, "events")
    added, removed = a_rewrite(root, "joined-ours.parquet", group)
    foreign, _ = a_rewrite(root, "part-00000-foreign.parquet", group)
    seen = load_table(place)
    load_table(place).create_write_transaction([foreign, *removed], "append", EVENTS.schema)

    with pytest.raises(CommitFailedError):
        commit_onto(seen, EVENTS, [added, *removed])

    assert not replace_files(place, EVENTS, added, removed)
    assert rows_of(root, "events") == before
    assert paths_of(root, "events") == ["part-00000-foreign.parquet"]


def test_a_concurrent_batch_does_not_prevent_a_rewrite(root):
    some_batches(root, "events", 3)
    place = root / "events"
    seen = load_table(place)
    added, removed = a_rewrite(root, "joined-ours.parquet", files_of(root, "events"))
    some_batches(root, "events", 1, first=3)

    with pytest.raises(CommitFailedError):
        commit_onto(seen, EVENTS, [added, *removed])

    assert replace_files(place, EVENTS, added, removed)
    assert len(rows_of(root, "events")) == 12
    assert "joined-ours.parquet" in paths_of(root, "events")


def test_concurrent_compaction_and_commits_lose_and_duplicate_nothing(root):
    writer = TableWriter(root, "events")
    place = root / "events"
    done = threading.Event()
    joined: list[Compacted | None] = []

    def keep_joining():
        while not done.is_set():
            groups = plan(files_of(root, "events"), 1 << 30, 4)
            joined.extend(compact(place, EVENTS, group) for group in groups)

    threads = [threading.Thread(target=keep_joining) for _ in range(2)]
    for thread in threads:
        thread.start()
    for batch in range(40):
        file = publish(root, "events", events(range(2 * batch, 2 * batch + 2), batch_id=batch))
        assert writer.commit_batch(QUERY, batch, [file]) == "committed"
    done.set()
    join(*threads)

    assert [row["seq"] for row in sorted(rows_of(root, "events"), key=lambda row: row["seq"])] == (
        list(range(80))
    )
    assert any(joined)


def test_compacted_files_keep_the_statistics_of_their_shards(root):
    writer = some_batches(root, "events", 2)
    writer.commit_batch("other", 0, [publish(root, "events", events([99], query_id="other"))])

    done = compact(root / "events", EVENTS, files_of(root, "events"))

    assert done is not None
    assert paths_of(root, "events") == [done.path]
    assert query_ids(writer.table(), writer.storage) == {QUERY, "other"}
