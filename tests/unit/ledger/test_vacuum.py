"""Vacuum removes only files that no table, batch or queue needs."""

import os

import pyarrow.parquet as pq
import pytest

from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import compact, small_files
from streaming.ledger.upkeep.vacuum import Vacuum, Vacuumed
from streaming.ledger.write.data_file import LOOKUP_STAGE, DataFileName
from streaming.ledger.write.table_writer import TableWriter
from tests.unit.ledger.builders import (
    QUERY,
    a_place,
    events,
    local,
    messages,
    paths_of,
    publish,
    rows_of,
)

HOUR_MS = 3_600_000
NOW_MS = 1_900_000_000_000  # later than any file of these tests
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def root(tmp_path):
    return a_place(tmp_path)


def commit(root, name, table, **settings):
    file = publish(root, name, table, **settings)
    batch_id = table["batch_id"][0].as_py()
    TableWriter(root, name).commit_batch(QUERY, batch_id, [file])
    return file.path


def join_all(root, name):
    place = root / name
    done = compact(place, TABLES[name], small_files(TABLES[name], ActiveFiles(load_table(place))))
    assert done is not None
    return done


def a_vacuum(root, name, *, grace_ms=HOUR_MS):
    return Vacuum(root / name, grace_ms, protect_messages=name == "messages")


def sweep(vacuum, root, name, now_ms, lowest_resident=None):
    return vacuum.sweep(load_table(root / name), now_ms, lowest_resident)


def test_compacted_files_are_removed_only_after_the_grace_period(root):
    paths = [commit(root, "events", events([batch], batch_id=batch)) for batch in range(3)]
    join_all(root, "events")
    vacuum = a_vacuum(root, "events")

    swept = [
        sweep(vacuum, root, "events", NOW_MS + after_ms) for after_ms in (0, HOUR_MS - 1, HOUR_MS)
    ]

    assert swept == [Vacuumed((), ()), Vacuumed((), ()), Vacuumed(tuple(sorted(paths)), ())]
    assert len(rows_of(root, "events")) == 3


def test_files_of_the_table_are_never_removed(root):
    path = commit(root, "events", events([1]))
    vacuum = a_vacuum(root, "events", grace_ms=0)

    assert sweep(vacuum, root, "events", NOW_MS + 400 * DAY_MS) == Vacuumed((), ())
    assert paths_of(root, "events") == [path]


def test_files_of_an_uncommitted_batch_are_kept(root):
    commit(root, "events", events([1], batch_id=4))
    waiting = publish(root, "events", events([2], batch_id=5))
    other = publish(root, "events", events([2], batch_id=0, query_id="another-query"))
    vacuum = a_vacuum(root, "events")

    swept = [sweep(vacuum, root, "events", NOW_MS + day * DAY_MS) for day in (0, 1, 400)]

    assert swept == [Vacuumed((), ())] * 3
    storage = local(root, "events")
    assert None not in {storage.size(waiting.path), storage.size(other.path)}


def test_uncommitted_files_are_removed_once_their_batch_is_committed(root):
    left_over = publish(root, "events", events([7], batch_id=4), partition=9)
    commit(root, "events", events([1], batch_id=4))
    vacuum = a_vacuum(root, "events")

    swept = [sweep(vacuum, root, "events", NOW_MS + after) for after in (0, HOUR_MS)]

    assert swept == [Vacuumed((), ()), Vacuumed((left_over.path,), ())]


def test_files_of_messages_stay_while_a_batch_that_looked_letters_up_there_may_run_again(root):
    paths = [commit(root, "messages", messages([n], batch_id=n)) for n in range(2)]
    commit(root, "events", events([1], batch_id=1))
    join_all(root, "messages")
    over, begun = (
        a_file(root, str(DataFileName(QUERY, batch_id, LOOKUP_STAGE, "s1")), age_ms=0)
        for batch_id in (1, 2)
    )
    vacuum = a_vacuum(root, "messages", grace_ms=0)
    resident = {(0, 0): 99}

    before = sweep(vacuum, root, "messages", NOW_MS + 7 * DAY_MS - 1, resident)
    commit(root, "events", events([2], batch_id=2))
    after = sweep(vacuum, root, "messages", NOW_MS + 7 * DAY_MS - 1, resident)

    assert None not in map(local(root, "events").size, (over, begun))
    assert before == Vacuumed((), ())
    assert after == Vacuumed(tuple(sorted(paths)), ())


def test_a_batch_of_a_lost_checkpoint_keeps_files_of_messages_for_a_week_only(root):
    path = commit(root, "messages", messages([0]))
    commit(root, "messages", messages([1], batch_id=1))
    join_all(root, "messages")
    commit(root, "events", events([1]))
    a_file(root, str(DataFileName("lost-query", 2, LOOKUP_STAGE, "s1")), age_ms=0)
    vacuum = a_vacuum(root, "messages", grace_ms=0)

    assert path in sweep(vacuum, root, "messages", NOW_MS + 7 * DAY_MS, {(0, 0): 99}).removed


def test_the_grace_period_restarts_for_a_file_that_was_part_of_the_table(root):
    vacuum = a_vacuum(root, "events")
    one = commit(root, "events", events([1]))
    left_over = publish(root, "events", events([7]), partition=9)
    sweep(vacuum, root, "events", NOW_MS)
    TableWriter(root, "events").commit_batch("other", 0, [left_over])
    sweep(vacuum, root, "events", NOW_MS + HOUR_MS)
    join_all(root, "events")

    swept = [sweep(vacuum, root, "events", NOW_MS + hours * HOUR_MS) for hours in (2, 3)]

    assert swept == [Vacuumed((), ()), Vacuumed(tuple(sorted((one, left_over.path))), ())]


def a_file(root, name, *, age_ms):
    path = local(root, "events").root / name
    path.write_bytes(b"content")
    at_s = (NOW_MS - age_ms) / 1000
    os.utime(path, (at_s, at_s))
    return name


@pytest.mark.parametrize(
    ("name", "age_ms", "removed"),
    [
        (".x.parquet.0123.unfinished", DAY_MS, True),
        (".x.parquet.0123.unfinished", DAY_MS - 2 * 1000, False),
        (".hidden", 400 * DAY_MS, False),
        ("joined-0123.parquet", 0, True),
        ("part-00000-0123.parquet", 7 * DAY_MS, True),
        ("part-00000-0123.parquet", 7 * DAY_MS - 2 * 1000, False),
        ("notes.txt", 400 * DAY_MS, False),
    ],
)
def test_files_of_other_writers_are_removed_only_if_certainly_unused(root, name, age_ms, removed):
    commit(root, "events", events([1]))
    a_file(root, name, age_ms=age_ms)
    vacuum = a_vacuum(root, "events", grace_ms=HOUR_MS)

    swept = [sweep(vacuum, root, "events", NOW_MS + after_ms) for after_ms in (0, HOUR_MS)]

    assert swept == [Vacuumed((), ()), Vacuumed((name,) if removed else (), ())]


def test_a_file_is_removed_once_its_resident_messages_are_in_another(root):
    paths = [
        commit(root, "messages", messages(range(5 * batch, 5 * batch + 5), batch_id=batch))
        for batch in range(3)
    ]
    join_all(root, "messages")
    vacuum = a_vacuum(root, "messages", grace_ms=0)

    swept = sweep(vacuum, root, "messages", NOW_MS, {(1, 0): 3})

    assert swept == Vacuumed(tuple(paths), ())
    assert len(rows_of(root, "messages")) == 15


def with_a_row_lost(root):
    """Three files compacted into one that lacks the row of offset 7."""
    paths = [
        commit(root, "messages", messages(range(5 * batch, 5 * batch + 5), batch_id=batch))
        for batch in range(3)
    ]
    path = local(root, "messages").root / join_all(root, "messages").path
    table = pq.read_table(path)
    pq.write_table(table.filter([offset != 7 for offset in table["offset"].to_pylist()]), path)
    return paths


@pytest.mark.parametrize("lowest_resident", [None, {}, {(1, 0): 7}, {(1, 0): 0}, {(1, 1): 99}])
def test_a_file_with_the_only_copy_of_a_resident_message_is_kept(root, lowest_resident):
    paths = with_a_row_lost(root)
    vacuum = a_vacuum(root, "messages", grace_ms=0)

    swept = sweep(vacuum, root, "messages", NOW_MS, lowest_resident)

    assert swept == Vacuumed((paths[0], paths[2]), (paths[1],))
    assert local(root, "messages").size(paths[1]) is not None


def test_a_file_without_resident_messages_is_removed(root):
    paths = with_a_row_lost(root)
    vacuum = a_vacuum(root, "messages", grace_ms=0)

    assert sweep(vacuum, root, "messages", NOW_MS, {(1, 0): 8}) == Vacuumed(tuple(paths), ())
