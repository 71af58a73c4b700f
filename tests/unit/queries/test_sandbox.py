"""The SQL of users reads the views, and nothing else can be reached with it."""

import duckdb
import pytest

from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.sandbox import require_harmless, sandbox
from streaming.queries.sql import VIEWS, create_all_views

REFUSED = (
    "COPY dead_letters TO '/tmp/stolen.csv'",
    "ATTACH '/tmp/other.db' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA database_list",
    "CREATE TABLE mine AS FROM dead_letters",
    "DROP VIEW dead_letters",
    "DELETE FROM dead_letters",
    "EXPORT DATABASE '/tmp/stolen'",
    "CALL pragma_version()",
    "EXPLAIN ANALYZE FROM dead_letters",
    "FROM dead_letters; FROM events",
    "FROM '/etc/passwd'",
    "FROM read_text('/etc/passwd')",
    "FROM read_blob('/proc/self/environ')",
    "FROM read_csv('/etc/passwd')",
    "FROM read_parquet('*.parquet')",
    "FROM parquet_metadata('*.parquet')",
    "FROM glob('/**')",
    "FROM duckdb_settings()",
    "FROM duckdb_secrets()",
    "FROM information_schema.tables",
    "FROM sqlite_master",
    "FROM query('FROM dead_letters')",
    "FROM query_table('dead_letters')",
    "FROM main.dead_letters",
    "SELECT current_setting('temp_directory')",
    "SELECT getenv('HOME')",
    "SELECT sleep_ms(100000)",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "WITH x AS (FROM read_text('/etc/passwd')) FROM x",
    "FROM dead_letters WHERE EXISTS (FROM glob('/etc/*'))",
    "FROM dead_letters JOIN read_csv('/etc/passwd') ON true",
    "FROM dead_letters UNION ALL BY NAME FROM read_text('/etc/passwd')",
    "SELECT json_deserialize_sql('{}')",
    "tables",
    "FROM tables",
    "",
    "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "SELECT '" + "x" * 20_000 + "'",
)
ALLOWED = (
    "FROM dead_letters LIMIT 5",
    "SELECT queue, count(*) FROM dead_letters GROUP BY ALL",
    "WITH x AS (FROM events) SELECT kind FROM x",
    "DESCRIBE dead_letters",
    "SELECT * FROM events JOIN range(2) ON true",
    "SELECT unnest([1, 2])",
    "FROM dead_letters WHERE seq IN (SELECT seq FROM events)",
)


@pytest.fixture
def opened(shop_root):
    tables = Tables(str(shop_root))
    yield tables
    tables.close()


@pytest.mark.parametrize("sql", REFUSED)
def test_a_query_that_does_more_than_read_the_views_is_refused(opened, sql):
    create_all_views(opened)

    with pytest.raises(QueryError):
        require_harmless(opened, sql, VIEWS)


@pytest.mark.parametrize("sql", ALLOWED)
def test_a_query_of_the_views_is_answered_behind_the_fence(opened, sql):
    create_all_views(opened)
    require_harmless(opened, sql, VIEWS)
    sandbox(opened)

    assert opened.connection.execute(sql).fetchall() is not None


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_text('/etc/passwd')",
        "FROM glob('/etc/*')",
        "COPY (SELECT 1) TO '/tmp/stolen.csv'",
        "ATTACH '/tmp/stolen.db' AS other",
        "SET threads = 2",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ],
)
def test_the_connection_itself_opens_nothing_else(opened, sql):
    create_all_views(opened)
    sandbox(opened)

    with pytest.raises(duckdb.Error):
        opened.connection.execute(sql).fetchall()


def test_a_condition_holds_no_query(opened):
    condition = "FROM dead_letters WHERE seq IN (SELECT seq FROM dead_letters)"

    with pytest.raises(QueryError):
        require_harmless(opened, condition, {"dead_letters"}, queries=False)
