"""DuckDB reads the tables from their files, and any Arrow consumer through deltalake."""

import duckdb
import pytest

from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import LEDGER, TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import compact, small_files
from streaming.ledger.write.ledger import Ledger
from tests.unit.ledger.builders import a_batch_row, a_place, local, publish, tables_of


@pytest.fixture(params=["as written", "joined"])
def root(request, tmp_path):
    root = a_place(tmp_path)
    with Ledger(root) as ledger:
        for batch in range(3):
            rows = tables_of(batch, seqs=range(10 * batch, 10 * batch + 4))
            files = [publish(root, name, table) for name, table in rows.items()]
            ledger.commit(files, a_batch_row(batch, resident={"0": batch}))
    if request.param == "joined":
        for name in LEDGER:
            place = root / name
            small = small_files(TABLES[name], ActiveFiles(load_table(place)))
            assert compact(place, TABLES[name], small) is not None
    return root


def a_connection(root, how):
    """DuckDB, with a view of each table."""
    connection = duckdb.connect()
    for name in LEDGER:
        table = load_table(root / name)
        if how == "arrow":
            connection.register(name, table.to_pyarrow_dataset())
        else:
            folder = local(root, name).root
            files = ", ".join(f"'{folder / path}'" for path in ActiveFiles(table).paths)
            connection.execute(f"CREATE VIEW {name} AS FROM read_parquet([{files}])")
    return connection


@pytest.mark.parametrize("how", ["parquet", "arrow"])
def test_duckdb_reads_every_column_of_every_table(root, how):
    with a_connection(root, how) as connection:
        for name in LEDGER:
            columns = [row[0] for row in connection.execute(f"DESCRIBE {name}").fetchall()]
            found = connection.sql(f"FROM {name}").to_arrow_table()

            assert columns == TABLES[name].schema.names
            rows = found.select(["query_id", "batch_id"]).to_pylist()
            assert len(rows) == 12 + (3 if name == "events" else 0)


@pytest.mark.parametrize("how", ["parquet", "arrow"])
def test_duckdb_joins_dead_letters_with_their_messages_and_events(root, how):
    with a_connection(root, how) as connection:
        answers = connection.execute(
            """
            SELECT d.reason, m.origin.topic, d.seq, d."at" = e."at", m.body = d.body
            FROM dead_letters d
            JOIN messages m ON m."offset" = d.seq
            JOIN events e ON e.message_id."offset" = m."offset" AND e.kind = 'died'
            ORDER BY d.seq
            """
        ).fetchall()
        batches = connection.execute(
            """
            SELECT batch_id, detail::JSON->'resident'->>'0'
            FROM events WHERE kind = 'batch' ORDER BY batch_id
            """
        ).fetchall()

    even = [10 * batch + seq for batch in range(3) for seq in (0, 2)]
    assert answers == [("expired", "orders", seq, True, True) for seq in even]
    assert batches == [(0, "0"), (1, "1"), (2, "2")]
