"""The Python of docs/sql.md, and every DuckDB question of the pages, on the tables of the shop.

tests/spark/test_sql_cookbook.py compares the answers with those of Spark.
"""

import re
from contextlib import chdir

import duckdb
import pytest

from streaming.demo.order_process import order
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.views import VIEWS
from streaming.queries.duckdb_tables import Tables
from streaming.queries.result import plain
from streaming.queries.sql import ask, create_all_views
from tools.docs import shop
from tools.docs.markdown import all_blocks

PYTHON = [
    block
    for block in all_blocks()
    if (block.page, block.language) == ("docs/sql.md", "python")
    and not block.text.startswith("# deaths.py")  # tests/spark/test_sql_shell.py runs it
]
QUESTIONS = [
    pytest.param(block.text, id=str(block))
    for block in all_blocks()
    if block.language == "sql" and block.text.startswith("-- DuckDB")
]


@pytest.fixture(scope="module")
def in_duckdb():
    """The tables and the view, as the page registers them."""
    with shop.sessions() as shell, chdir(shell.folder):
        exec("".join(block.text for block in PYTHON), {})  # noqa: S102 - the code of the page
        yield duckdb
        for view in VIEWS:
            duckdb.sql(f"DROP VIEW {view}")
        for name in TABLES:
            duckdb.unregister(name)


@pytest.fixture(scope="module")
def tables():
    """The tables, as `dlx query` opens them."""
    with shop.sessions() as shell:
        opened = Tables(str(shell.folder / "tables"))
        yield opened
        opened.close()


@pytest.mark.parametrize("sql", QUESTIONS)
def test_dlx_query_gives_the_answer_of_the_pages_python(in_duckdb, tables, sql):
    create_all_views(tables, sql)
    [answer] = ask(tables, sql)

    found = [[plain(value) for value in row] for row in in_duckdb.execute(sql).fetchall()]
    assert [list(row.values()) for row in answer.rows] == found


def test_the_headers_that_the_questions_name_are_those_of_the_demo():
    named = {
        name
        for question in QUESTIONS
        for name in re.findall(r"headers ->> '\$\.(\w+)'", str(question.values[0]))
    }

    assert named == {"shop"}
    assert named <= order(0).headers.keys()
