"""Delta's own engine can read and maintain the tables while the driver writes them."""

import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import LEDGER, TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import compact, small_files
from streaming.ledger.write.ledger import Ledger
from tests.unit.ledger.builders import (
    QUERY,
    a_batch_row,
    a_place,
    events,
    paths_of,
    publish,
    rows_of,
    tables_of,
)


def commit_batches(ledger, root, batches):
    for batch in batches:
        rows = tables_of(batch, seqs=range(10 * batch, 10 * batch + 4))
        files = [publish(root, name, table) for name, table in rows.items()]
        ledger.commit(files, a_batch_row(batch))


def read(spark, root, name):
    return spark.read.format("delta").load((root / name).url)


@pytest.mark.parametrize("joined", [False, True])
def test_spark_reads_every_column_of_every_table(spark, tmp_path, joined):
    root = a_place(tmp_path)
    with Ledger(root) as ledger:
        commit_batches(ledger, root, range(3))
    if joined:
        for name in LEDGER:
            place = root / name
            small = small_files(TABLES[name], ActiveFiles(load_table(place)))
            assert compact(place, TABLES[name], small) is not None

    for name in LEDGER:
        key = "seq" if "seq" in TABLES[name].schema.names else "offset"
        seen = read(spark, root, name).toArrow().to_pylist()

        assert in_order(seen, key) == in_order(rows_of(root, name), key)
        assert len(seen) == 12 + (3 if name == "events" else 0)


def in_order(rows, key):
    return sorted(rows, key=lambda row: (row["batch_id"], row[key] is None, row[key]))


def test_spark_finds_rows_by_the_statistics_that_the_driver_wrote(spark, tmp_path):
    root = a_place(tmp_path)
    with Ledger(root) as ledger:
        commit_batches(ledger, root, range(3))

    found = (
        read(spark, root, "events")
        .where((F.col("kind") == "enqueued") & (F.col("seq") > 9) & (F.col("seq") < 20))
        .orderBy("seq")
    )

    assert [(row.seq, row.message_id.offset, row.queue) for row in found.collect()] == [
        (11, 11, "work-1"),
        (13, 13, "work-1"),
    ]
    assert len(found.inputFiles()) == 1


def test_the_driver_continues_after_spark_has_optimized_a_table(spark, tmp_path):
    root = a_place(tmp_path)
    with Ledger(root) as ledger:
        commit_batches(ledger, root, range(3))
        before = rows_of(root, "events")

        DeltaTable.forPath(spark, (root / "events").url).optimize().executeCompaction()
        again = publish(root, "events", events([20, 21, 22, 23], batch_id=2))
        outcome = ledger.writers["events"].commit_batch(QUERY, 2, [again])
        after = rows_of(root, "events")
        commit_batches(ledger, root, range(3, 4))

        assert (outcome, after, len(paths_of(root, "events"))) == ("skipped", before, 3)
        assert ledger.last_batch(QUERY) == a_batch_row(3)
    assert read(spark, root, "events").count() == len(before) + 5


def test_spark_refuses_to_remove_rows_that_nothing_ever_removes(spark, tmp_path):
    root = a_place(tmp_path)
    with Ledger(root) as ledger:
        commit_batches(ledger, root, range(1))

    with pytest.raises(Exception, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        DeltaTable.forPath(spark, (root / "quarantine").url).delete("true")
