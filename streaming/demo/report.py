"""The end of the demo: dead letters, their history, the balance, where everything is, the SQL."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from streaming.demo.sheet import Sheet
from streaming.tables.snapshot import Row, Tables

DEAD_LETTERS: Final = "dead_letters"
SHOWN_HISTORIES: Final = 6

SUMMARY_SQL: Final = (
    "SELECT queue, reason, count(*) AS deaths FROM {dead_letters}\n"
    "GROUP BY queue, reason ORDER BY deaths DESC"
)
HISTORY_SQL: Final = (
    "SELECT at, queue, reason, x_death, CAST(body AS STRING) AS body FROM {dead_letters}\n"
    "WHERE size(x_death) > 1 ORDER BY at DESC LIMIT 10"
)
DUCKDB_HISTORY_SQL: Final = (
    'SELECT "at", queue, reason, x_death, decode(body) AS body FROM {dead_letters}\n'
    'WHERE len(x_death) > 1 ORDER BY "at" DESC LIMIT 10'
)


def summary_lines(tables: Tables) -> Iterator[str]:
    """Deaths by queue and reason, and where they went."""
    tables.view(DEAD_LETTERS)
    found = tables.values(
        """
        SELECT queue, reason, count(*),
               coalesce(nullif(array_to_string(targets, ', '), ''), coalesce(outcome, 'nowhere'))
        FROM dead_letters GROUP BY ALL ORDER BY 3 DESC, 1, 2, 4
        """
    )
    if not found:
        yield "none"
    for queue, reason, count, went in found:
        yield f"{count:>9,}  {reason:<14} in {queue:<15} -> {went}"


def history_lines(tables: Tables) -> Iterator[str]:
    """Dead letters with their x-death: of each queue and reason the one that died most often."""
    tables.view(DEAD_LETTERS)
    for row in tables.rows(
        f"""
        SELECT queue, reason, CAST("at" AS VARCHAR) AS died, decode(body) AS body, targets, outcome,
               x_death
        FROM dead_letters
        QUALIFY row_number() OVER (
            PARTITION BY queue, reason ORDER BY len(x_death) DESC, "count" DESC, seq DESC) = 1
        ORDER BY len(x_death) DESC, "at" DESC LIMIT {SHOWN_HISTORIES}
        """  # noqa: S608 (our own number)
    ):
        yield from _history(row)


def _history(row: Row) -> Iterator[str]:
    went = ", ".join(row["targets"] or ()) or row["outcome"] or "nowhere"
    yield f"{row['body']}  died in {row['queue']} ({row['reason']}) -> {went}"
    for index, death in enumerate(row["x_death"] or ()):
        yield f"    x-death[{index}]  {_death(death)}"


def _death(death: dict[str, Any]) -> str:
    times = "once" if death["count"] == 1 else f"{death['count']} times"
    exchange = death["exchange"] or "the default exchange"
    words = f"{death['reason']} in {death['queue']}, {times}; published to {exchange}"
    keys = ", ".join(death["routing_keys"] or ())
    words += f" with {keys}" if keys else ""
    if death.get("original_expiration"):
        words += f"; its expiration was {death['original_expiration']} ms"
    return words


def balance_lines(sheet: Sheet) -> Iterator[str]:
    """The sheet, and its verdict."""
    yield from sheet.lines()
    if sheet.unexplained:
        yield f"The balance is NOT closed: {sheet.unexplained} unexplained."
    else:
        yield "The balance is closed: every message and every copy is accounted for."


def place_lines(directory: Path) -> Iterator[str]:
    """Where everything is."""
    for name, what in (
        ("tables", "the Delta tables: messages, events, dead_letters, queue_contents, quarantine"),
        ("checkpoints", "Spark's checkpoint: the broker's state"),
        ("kafka", "the broker's log: topics and their records"),
        ("logs", "dlx.log, spark.log, kafka.log"),
        ("dlx.toml", "the job's configuration"),
    ):
        yield f"{directory / name!s:<{len(str(directory)) + 13}} {what}"


def spark_sql(directory: Path) -> Sequence[str]:
    """Queries for Spark, which find the table by its path."""
    table = f"delta.`{directory / 'tables' / DEAD_LETTERS}`"
    return [sql.format(dead_letters=table) for sql in (SUMMARY_SQL, HISTORY_SQL)]


def duckdb_program(directory: Path) -> str:
    """The same for DuckDB as a Python program: deltalake knows the files, DuckDB reads them."""
    table = str(directory / "tables" / DEAD_LETTERS)
    queries = "".join(
        f"print(duckdb.sql('''{sql.format(dead_letters='dead_letters')}'''))\n"
        for sql in (SUMMARY_SQL, DUCKDB_HISTORY_SQL)
    )
    return (
        "import duckdb, deltalake\n"
        f"files = deltalake.DeltaTable({table!r}).file_uris()\n"
        "dead_letters = duckdb.read_parquet(files)\n"
        f"{queries}"
    )


def query_lines(directory: Path) -> Iterator[str]:
    """How to query the dead letters."""
    yield "Spark (spark-sql, or spark.sql(...) of a session with Delta):"
    for sql in spark_sql(directory):
        yield from _indented(sql + ";")
    yield "DuckDB (its shell, with INSTALL delta; LOAD delta;):"
    table = f"delta_scan('{directory / 'tables' / DEAD_LETTERS}')"
    for sql in (SUMMARY_SQL, DUCKDB_HISTORY_SQL):
        yield from _indented(sql.format(dead_letters=table) + ";")
    yield "DuckDB (from Python, with nothing to install):"
    yield from _indented(duckdb_program(directory))


def _indented(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"    {line}"
