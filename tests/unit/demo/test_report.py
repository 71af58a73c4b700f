"""The demo's final report, on tables of a broker in memory."""

import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from streaming.demo.order_process import PAYMENTS, RETRY_TTL_MS, order
from streaming.demo.report import (
    balance_lines,
    commands,
    duckdb_program,
    histories,
    history_lines,
    place_lines,
    query_lines,
    spark_sql,
    summary_lines,
)
from streaming.demo.show import messages_so_far
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from tests.unit.demo.staging import send, staged
from tests.unit.queries.recording import Recording

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture
def directory(tmp_path):
    """A demo's directory with an order that was rejected and retried, and an expired quote."""
    broker = staged(clock="event")
    recording = Recording(tmp_path / "tables", broker)
    send(broker, order(17))
    send(broker, order(2))
    broker.get(PAYMENTS, "g")
    broker.reject("g/0")
    broker.at(RETRY_TTL_MS)
    recording.commit()
    recording.close()
    return tmp_path


@pytest.fixture
def tables(directory):
    opened = Tables(str(directory / "tables"))
    yield opened
    opened.close()


def test_the_summary_counts_deaths_by_their_target(tables):
    assert [line.split() for line in summary_lines(tables)] == [
        ["1", "rejected", "in", "payments", "->", "payments.retry"],
        ["1", "expired", "in", "payments.retry", "->", "payments"],
        ["1", "expired", "in", "quotes", "->", "parking-lot"],
    ]


def test_the_history_lists_every_death_of_a_message(tables):
    lines = list(history_lines(histories(tables)))

    assert lines[:3] == [
        f"0/0/0  {order(17).body.decode()}  died in payments.retry (expired) -> payments",
        "    x-death[0]  expired in payments.retry, once; published to orders.retry with payments",
        "    x-death[1]  rejected in payments, once; published to orders with order.asia.created",
    ]
    assert (
        "    x-death[0]  expired in quotes, once; published to orders with quote.asia; "
        "its expiration was 700 ms"
    ) in lines


def test_orders_are_numbered_on_from_the_messages_of_earlier_runs(tables, tmp_path):
    assert messages_so_far(tables) == 2
    assert messages_so_far(Tables(str(tmp_path / "none"))) == 0


def test_a_summary_without_dead_letters_says_so(tmp_path):
    recording = Recording(tmp_path, staged())
    recording.commit()
    recording.close()
    tables = Tables(str(tmp_path))

    assert list(summary_lines(tables)) == ["none"]
    assert list(history_lines(histories(tables))) == []
    tables.close()


def test_the_report_shows_whether_the_balance_is_closed_and_what_is_missing(directory):
    def verdict():
        opened = Tables(str(directory / "tables"))
        lines = list(balance_lines(balance(opened)))
        opened.close()
        return lines[lines.index(next(line for line in lines if line.startswith("The"))) :]

    assert verdict() == ["The balance is closed: every message and every copy is accounted for."]
    [file] = (directory / "tables" / "dead_letters").glob("*.parquet")
    rows = pq.read_table(file)
    pq.write_table(rows.filter([queue != "quotes" for queue in rows["queue"].to_pylist()]), file)
    not_closed, finding = verdict()
    assert not_closed == "The balance is NOT closed: 1 unexplained."
    assert finding.startswith("missing dead letter: message 0/0/1, queue 'quotes', ")


def test_every_folder_is_listed(tmp_path):
    places = [line.partition("  ")[0] for line in place_lines(tmp_path, tmp_path / "tables")]

    names = ("tables", "checkpoints", "kafka", "logs", "dlx.toml")
    assert places == [str(tmp_path / name) for name in names]


def test_the_program_for_duckdb_runs(directory):
    ran = subprocess.run(
        (sys.executable, "-c", duckdb_program(directory / "tables")),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "payments.retry" in ran.stdout


def test_the_commands_run_as_they_are_printed(directory, tables):
    asked = commands(directory / "tables", CHECKOUT / "dlx", histories(tables))

    assert len(asked) == 4
    for command in asked:
        program, *arguments = shlex.split(command)
        assert program == str(CHECKOUT / "dlx")
        ran = subprocess.run(
            (sys.executable, "-P", "-m", "streaming.cli", *arguments),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, "")


def test_the_queries_name_the_table_and_the_programs(directory, tables):
    said = "\n".join(
        query_lines(directory, directory / "tables", CHECKOUT / "dlx", histories(tables))
    )

    assert f"delta.`{directory}/tables/dead_letters`" in said
    assert f"DeltaTable('{directory}/tables/dead_letters')" in said
    assert all(sql.splitlines()[0] in said for sql in spark_sql(directory / "tables"))
    dlx, config = (shlex.quote(str(each)) for each in (CHECKOUT / "dlx", directory / "dlx.toml"))
    assert f"{dlx} spark sql --config {config}" in said
    assert "dead-letters show 0/0/0 --tables" in said
