"""The questions of docs/sql.md: both dialects run as printed, and give the same answers."""

import re
from contextlib import chdir
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from streaming.broker import commands
from streaming.cli.tables.sql import create_views
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.views import VIEWS
from tests.builders import START_MS
from tests.unit.queries.shop import a_shop

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
COOKBOOK = ROOT / "docs" / "sql.md"
QUESTION = re.compile(r"^### (?P<number>\d)\. (?P<words>.*\?)$", re.MULTILINE)
SQL = re.compile(
    r"^```sql\n-- (?P<dialect>Spark|DuckDB)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
PYTHON = re.compile(
    r"^<!-- the (?:tables|view) in DuckDB -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def instant(after_ms):
    """The instant `at_ms` after the shop opened, in the form of `plain`."""
    return (
        datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=START_MS + after_ms)
    ).isoformat()


ANSWERS = {
    1: [
        ("/", "billing", "rejected", 3, instant(3000), 0),
        ("/", "again", "expired", 1, instant(2700), 0),
        ("/", "mail", "expired", 1, instant(500), 0),
    ],
    2: [
        (0, 0, 5, "billing", 2, instant(2500), instant(3000)),
        (0, 0, 0, "billing", 1, instant(0), instant(0)),
    ],
    3: [
        (None, "billing", "rejected", 2),
        ("acme", "billing", "rejected", 1),
        (None, "again", "expired", 1),
        (None, "mail", "expired", 1),
    ],
    4: [
        ("/", "billing", "rejected", 3, 300, 1476),  # of 0, 300 and 1,500 ms
        ("/", "again", "expired", 1, 200, 200),
        ("/", "mail", "expired", 1, 500, 500),
    ],
    5: [
        ("dead", instant(500), "expired", "mail", "orders", "mail.eu", None, "order 2 \x07é\nline"),
        ("dead", instant(2500), "rejected", "billing", "orders", "bill.eu", None, "order 5"),
        ("again", instant(3000), "rejected", "billing", "orders", "bill.eu", None, "order 5"),
        ("dead", instant(3000), "rejected", "billing", "orders", "bill.eu", None, "order 5"),
    ],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The tables of the shop, after order 5 was rejected, retried and rejected again."""
    folder = tmp_path_factory.mktemp("shop")
    recording = a_shop(folder / "tables")
    [shop] = recording.brokers
    shop.queue("again", message_ttl=200, dead_letter_exchange="", dead_letter_routing_key="billing")
    shop.bind("dlx", "again")
    shop.at(2500)
    shop.do(commands.Reject(refs=("h/0",), channel="clerk"), user="anna")
    shop.at(3000)
    shop.get("billing", "i", 2, channel="clerk", user="anna")
    shop.do(commands.Reject(refs=("i/1",), channel="clerk"), user="anna")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return folder


@pytest.fixture(scope="module")
def in_spark(spark, root):
    """The views of `dlx spark sql`; a function that answers a question."""
    folders = {name: root / "tables" / name for name in TABLES}
    tables = {name: str(folder) for name, folder in folders.items() if folder.is_dir()}
    views = []
    for statement in create_views(tables):
        spark.sql(statement.rstrip().removesuffix(";"))
        views.append(statement.split()[3])
    yield lambda sql: [plain(row) for row in spark.sql(sql).collect()]
    for view in views:
        spark.catalog.dropTempView(view)


@pytest.fixture(scope="module")
def in_duckdb(root):
    """The Python of the page: a function that answers a question."""
    tables, view = PYTHON.findall(COOKBOOK.read_text("utf-8"))
    with chdir(root):
        exec(tables + view, {})  # noqa: S102 - the code of the page
    yield lambda sql: [plain(row) for row in duckdb.execute(sql).fetchall()]
    for view in VIEWS:
        duckdb.sql(f"DROP VIEW {view}")
    for name in TABLES:
        duckdb.unregister(name)


def plain(row):
    """A row with instants as UTC text and normalised numbers, since the dialects' types differ."""
    return tuple(
        value.astimezone(UTC).isoformat()
        if isinstance(value, datetime)
        else float(value)
        if isinstance(value, int | Decimal)
        else value
        for value in row
    )


def questions():
    """Number, Spark's form and DuckDB's form of each question of the page."""
    text = COOKBOOK.read_text("utf-8")
    numbers = [int(found["number"]) for found in QUESTION.finditer(text)]
    blocks = [(found["dialect"], found["text"]) for found in SQL.finditer(text)]
    assert [dialect for dialect, _ in blocks] == ["Spark", "DuckDB"] * len(numbers)
    texts = [sql for _, sql in blocks]
    return list(zip(numbers, texts[::2], texts[1::2], strict=True))


def test_the_page_has_five_questions_in_two_dialects():
    assert [number for number, _, _ in questions()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("number", "spark_sql", "duckdb_sql"), questions())
def test_a_question_has_the_same_correct_answer_in_both_dialects(
    in_spark, in_duckdb, number, spark_sql, duckdb_sql
):
    named = (sql.replace("$.shop", "$.tenant") for sql in (duckdb_sql, spark_sql))
    duckdb_sql, spark_sql = named  # the header that the tables of this test have

    assert in_duckdb(duckdb_sql) == ANSWERS[number]
    assert in_spark(spark_sql) == ANSWERS[number]


def test_the_question_of_the_readme_has_the_printed_answer(in_duckdb):
    [(dialect, sql)] = SQL.findall(README.read_text("utf-8"))

    assert dialect == "DuckDB"
    assert [row[:2] + row[3:] for row in in_duckdb(sql)] == [("billing", "rejected", 2)]


def test_a_user_can_create_the_view_in_a_session_of_their_own(spark, root):
    [statement] = re.findall(
        r"^<!-- a view of your own in Spark -->\n```sql\n(.*?)^```$",
        COOKBOOK.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    spark.sql(statement.replace("`tables/", f"`{root}/tables/"))

    assert spark.sql("SELECT count(*) AS deaths FROM dead_letters").collect()[0].deaths > 0
    spark.catalog.dropTempView("dead_letters")
