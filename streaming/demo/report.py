"""The end of the demo: dead letters, their history, the balance, where everything is, the SQL."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from streaming.demo.balance_summary import sheet_lines
from streaming.queries.audit.balance import Balance
from streaming.queries.duckdb_tables import Row, Tables
from streaming.queries.message_attributes import MessageId

DEAD_LETTERS: Final = "dead_letters"
SHOWN_HISTORIES: Final = 6

MOST_FINDINGS: Final = 10

SUMMARY_SQL: Final = (
    "SELECT queue, reason, count(*) AS deaths FROM dead_letters\n"
    "GROUP BY queue, reason ORDER BY deaths DESC"
)
SPARK_HISTORY_SQL: Final = (
    "SELECT d.at, d.queue, d.reason, d.x_death, decode(d.body, 'UTF-8') AS body\n"
    "FROM dead_letters AS d WHERE size(d.x_death) > 1 ORDER BY d.at DESC LIMIT 10"
)
DUCKDB_HISTORY_SQL: Final = (
    "SELECT d.at, d.queue, d.reason, d.x_death, decode(d.body) AS body\n"
    "FROM dead_letters AS d WHERE len(d.x_death) > 1 ORDER BY d.at DESC LIMIT 10"
)


def summary_lines(tables: Tables) -> Iterator[str]:
    """Deaths by queue and reason, and where they went."""
    tables.view(DEAD_LETTERS)
    found = tables.values(
        """
        SELECT queue, reason, count(*),
               coalesce(nullif(array_to_string(targets, ', '), ''),
                        'nowhere: ' || coalesce(outcome, 'no targets'))
        FROM dead_letters GROUP BY ALL ORDER BY 3 DESC, 1, 2, 4
        """
    )
    if not found:
        yield "none"
    for queue, reason, count, went in found:
        yield f"{count:>9,}  {reason:<14} in {queue:<15} -> {went}"


def histories(tables: Tables) -> list[Row]:
    """Of each queue and reason the dead letter that died most often; the longest x-death first."""
    tables.view(DEAD_LETTERS)
    return tables.rows(
        f"""
        SELECT message_id, queue, reason, decode(body) AS body, targets, outcome, x_death
        FROM dead_letters
        QUALIFY row_number() OVER (
            PARTITION BY queue, reason ORDER BY len(x_death) DESC, "count" DESC, seq DESC) = 1
        ORDER BY len(x_death) DESC, "at" DESC LIMIT {SHOWN_HISTORIES}
        """  # noqa: S608 (our own number)
    )


def history_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Dead letters with their x-death."""
    for row in rows:
        yield from _history(row)


def _history(row: Row) -> Iterator[str]:
    went = ", ".join(row["targets"] or ()) or f"nowhere: {row['outcome']}"
    name = MessageId.of(row["message_id"])
    yield f"{name}  {row['body']}  died in {row['queue']} ({row['reason']}) -> {went}"
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


def balance_lines(drawn: Balance) -> Iterator[str]:
    """The balance, its verdict, and what cannot be explained."""
    yield from sheet_lines(drawn)
    if drawn.unexplained:
        yield f"The balance is NOT closed: {drawn.unexplained} unexplained."
        yield from map(str, drawn.findings[:MOST_FINDINGS])
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
    """Statements for any Spark session with Delta, which finds the table by its path."""
    table = str(directory / "tables" / DEAD_LETTERS).replace("`", "``")
    view = f"CREATE OR REPLACE TEMPORARY VIEW dead_letters AS SELECT * FROM delta.`{table}`"  # noqa: S608 (quoted)
    return [view, SUMMARY_SQL, SPARK_HISTORY_SQL]


def duckdb_program(directory: Path) -> str:
    """The same for DuckDB as a Python program: deltalake knows the files, DuckDB reads them."""
    table = str(directory / "tables" / DEAD_LETTERS)
    queries = "".join(
        f"duckdb.sql('''{sql}''').show()\n" for sql in (SUMMARY_SQL, DUCKDB_HISTORY_SQL)
    )
    return (
        "import duckdb, deltalake\n"
        f"dead_letters = deltalake.DeltaTable({table!r}).to_pyarrow_table()\n"
        f"{queries}"
    )


def commands(directory: Path, checkout: Path, rows: Sequence[Row]) -> Sequence[str]:
    """What can be asked on the command line, by `dlx` of this checkout; about the first row too."""
    dlx = shlex.quote(str(checkout / "dlx"))
    tables = f"--tables {shlex.quote(str(directory / 'tables'))}"
    shown = [f"{dlx} dead-letters show {MessageId.of(row['message_id'])}" for row in rows[:1]]
    return [
        f"{dlx} dead-letters list --reason delivery_limit {tables}",
        *(f"{show} {tables}" for show in shown),
        f"{dlx} queues peek parking-lot {tables}",
        f"{dlx} balance {tables}",
    ]


def query_lines(directory: Path, checkout: Path, rows: Sequence[Row]) -> Iterator[str]:
    """How to query the dead letters.

    Args:
        rows: some of them.
        checkout: where this program's `dlx` and `.venv` are.
    """
    yield "Without SQL, and without starting Spark:"
    yield from _indented("\n".join(commands(directory, checkout, rows)))
    shell = shlex.join([str(checkout / "dlx"), "sql", "--config", str(directory / "dlx.toml")])
    yield f"Spark (its shell: {shell}; or spark.sql(...) of any session with Delta):"
    for sql in spark_sql(directory):
        yield from _indented(sql + ";")
    yield f"DuckDB (from Python, such as {checkout / '.venv' / 'bin' / 'python'!s}):"
    yield from _indented(duckdb_program(directory))
    yield "More questions, in both dialects, are in the README."


def _indented(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"    {line}"
