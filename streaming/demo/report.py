"""The demo's report: dead letters, their history, the balance, all files, and example queries."""

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any, Final

from streaming.queries.audit.balance import Balance
from streaming.queries.duckdb_tables import Row, Tables
from streaming.queries.message_attributes import MessageId

DEAD_LETTERS: Final = "dead_letters"
SHOWN_HISTORIES: Final = 6
MAX_FINDINGS: Final = 10

_ENDINGS: Final = {
    "acked": "acknowledged by a consumer",
    "consumed": "consumed without acknowledgement",
    "rejected": "dead: rejected",
    "expired": "dead: expired",
    "maxlen": "dead: maxlen",
    "delivery_limit": "dead: delivery_limit",
    "purged": "purged",
    "deleted": "lost with a deleted queue",
    "rerouted": "rerouted by its queue's alternate exchange",
    "redriven": "moved by a redrive",
    "discarded": "discarded",
}

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
    """Deaths by queue and reason, and where the messages went."""
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
    """The dead letter with the longest x-death of each queue and reason, longest first."""
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


def balance_summary(drawn: Balance) -> Iterator[str]:
    """The balance over all vhosts and queues; rows that are zero everywhere are left out."""
    rows = list(_balance_rows(drawn))
    width = max(len(what) for what, _count in rows)
    for what, count in rows:
        yield f"{what:<{width}}  {count:>9,}"


def _balance_rows(drawn: Balance) -> Iterator[tuple[str, int]]:
    queues, vhosts = drawn.queues, drawn.vhosts
    yield "messages published", sum(vhost.messages for vhost in vhosts)
    yield from _nonzero(
        ("  reached no queue, dropped", sum(vhost.unroutable for vhost in vhosts)),
        ("  reached no queue, returned to the publisher", sum(vhost.returned for vhost in vhosts)),
        ("  refused by a full queue", sum(queue.refused for queue in queues)),
        ("  refused with a channel error", sum(vhost.publish_errors for vhost in vhosts)),
    )
    yield "copies that entered queues, by a publish", sum(queue.published for queue in queues)
    yield "copies that entered queues, by a death", sum(queue.dead_lettered for queue in queues)
    endings: Counter[str] = Counter()
    for queue in queues:
        endings.update(queue.endings)
    yield from _nonzero(*((f"  {words}", endings[ending]) for ending, words in _ENDINGS.items()))
    held = sum(queue.held for queue in queues)
    yield from _nonzero(("  held by at-least-once dead-lettering", held))
    yield "  still in a queue, ready", sum(queue.ready for queue in queues)
    yield "  still in a queue, unacked", sum(queue.unacked for queue in queues)
    if drawn.resident is not None:
        yield "resident by the broker's own count", drawn.resident
    yield "records in quarantine", drawn.quarantined
    yield "unexplained", drawn.unexplained


def _nonzero(*rows: tuple[str, int]) -> Iterator[tuple[str, int]]:
    return ((what, count) for what, count in rows if count)


def balance_lines(drawn: Balance) -> Iterator[str]:
    """The balance, whether it is closed, and what cannot be explained."""
    yield from balance_summary(drawn)
    if drawn.unexplained:
        yield f"The balance is NOT closed: {drawn.unexplained} unexplained."
        yield from map(str, drawn.findings[:MAX_FINDINGS])
    else:
        yield "The balance is closed: every message and every copy is accounted for."


def place_lines(directory: Path, tables: Path) -> Iterator[str]:
    """The demo's files and folders."""
    places = {
        tables: "the Delta tables: messages, events, dead_letters, queue_contents, quarantine",
        tables.with_name("checkpoints"): "Spark's checkpoint: the broker's state",
        directory / "kafka": "the broker's log: topics and their records",
        directory / "logs": "dlx.log, spark.log, kafka.log, amqp.log",
        directory / "dlx.toml": "the configuration of the job and of the AMQP front",
    }
    width = max(len(str(place)) for place in places)
    for place, what in places.items():
        yield f"{place!s:<{width}}  {what}"


def spark_sql(tables: Path) -> Sequence[str]:
    """Statements for any Spark session with Delta; they name the table by its path."""
    table = str(tables / DEAD_LETTERS).replace("`", "``")
    view = f"CREATE OR REPLACE TEMPORARY VIEW dead_letters AS SELECT * FROM delta.`{table}`"  # noqa: S608 (quoted)
    return [view, SUMMARY_SQL, SPARK_HISTORY_SQL]


def duckdb_program(tables: Path) -> str:
    """The same as a Python program for DuckDB: deltalake finds the files, DuckDB queries them."""
    table = str(tables / DEAD_LETTERS)
    return (
        "import duckdb, deltalake\n"
        f"dead_letters = deltalake.DeltaTable({table!r}).to_pyarrow_table()\n"
        f"duckdb.sql('''{SUMMARY_SQL}''').show()\n"
        f"duckdb.sql('''{DUCKDB_HISTORY_SQL}''').show()\n"
    )


def commands(tables: Path, dlx: Path, rows: Sequence[Row]) -> Sequence[str]:
    """Example commands with the program `dlx`, one of them about the first row."""
    program = shlex.quote(str(dlx))
    option = f"--tables {shlex.quote(str(tables))}"
    shown = [f"{program} dead-letters show {MessageId.of(row['message_id'])}" for row in rows[:1]]
    return [
        f"{program} dead-letters list --reason delivery_limit {option}",
        *(f"{show} {option}" for show in shown),
        f"{program} queues peek parking-lot {option}",
        f"{program} balance {option}",
    ]


def query_lines(directory: Path, tables: Path, dlx: Path, rows: Sequence[Row]) -> Iterator[str]:
    """How to query the dead letters, with the program `dlx` and with this Python."""
    yield "Without SQL and without Spark:"
    yield from (f"    {each}" for each in commands(tables, dlx, rows))
    config = str(directory / "dlx.toml")
    shell = shlex.join([str(dlx), "spark", "sql", "--config", config])
    yield f"Spark (start its shell with: {shell}; or use any session with Delta):"
    for sql in spark_sql(tables):
        yield from indent(f"{sql};", "    ").splitlines()
    yield f"DuckDB (from Python, such as {sys.executable}):"
    yield from indent(duckdb_program(tables), "    ").splitlines()
    yield "The documentation has more queries, in both dialects."
