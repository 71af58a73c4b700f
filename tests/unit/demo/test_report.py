"""The report at the end, on tables that a broker in memory left."""

import subprocess
import sys

import pytest

from streaming.demo.report import (
    balance_lines,
    duckdb_program,
    history_lines,
    place_lines,
    query_lines,
    spark_sql,
    summary_lines,
)
from streaming.demo.story import PAYMENTS, RETRY_TTL_MS, order
from streaming.tables.snapshot import Tables
from tests.unit.demo.staging import send, staged
from tests.unit.demo.test_sheet import CLOSED
from tests.unit.tables.recording import Recording


@pytest.fixture
def directory(tmp_path):
    """A demo's directory after an order was rejected and came back; a quote in a hurry expired."""
    broker = staged(clock="event")
    recording = Recording(tmp_path / "tables", broker)
    send(broker, order(16))
    send(broker, order(1))
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


def test_the_summary_counts_deaths_and_says_where_they_went(tables):
    assert [line.split() for line in summary_lines(tables)] == [
        ["1", "rejected", "in", "payments", "->", "payments.retry"],
        ["1", "expired", "in", "payments.retry", "->", "payments"],
        ["1", "expired", "in", "quotes", "->", "parking-lot"],
    ]


def test_the_history_tells_every_death_of_a_message(tables):
    lines = list(history_lines(tables))

    assert lines[:3] == [
        f"{order(16).body.decode()}  died in payments.retry (expired) -> payments",
        "    x-death[0]  expired in payments.retry, once; published to orders.retry with payments",
        "    x-death[1]  rejected in payments, once; published to orders with order.us.created",
    ]
    assert (
        "    x-death[0]  expired in quotes, once; published to orders with quote.us; "
        "its expiration was 700 ms"
    ) in lines


def test_without_a_dead_letter_the_summary_says_none(tmp_path):
    recording = Recording(tmp_path, staged())
    recording.commit()
    recording.close()
    tables = Tables(str(tmp_path))

    assert list(summary_lines(tables)) == ["none"]
    assert list(history_lines(tables)) == []
    tables.close()


def test_the_balance_ends_with_its_verdict():
    *_, closed = balance_lines(CLOSED)
    *_, not_closed = balance_lines(CLOSED._replace(published=4))

    assert closed == "The balance is closed: every message and every copy is accounted for."
    assert not_closed == "The balance is NOT closed: 1 unexplained."


def test_every_place_is_named(tmp_path):
    places = [line.split()[0] for line in place_lines(tmp_path)]

    names = ("tables", "checkpoints", "kafka", "logs", "dlx.toml")
    assert places == [str(tmp_path / name) for name in names]


def test_the_program_for_duckdb_runs(directory):
    ran = subprocess.run(
        (sys.executable, "-c", duckdb_program(directory)),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "payments.retry" in ran.stdout


def test_the_queries_name_the_table(directory):
    said = "\n".join(query_lines(directory))

    assert f"delta.`{directory}/tables/dead_letters`" in said
    assert f"delta_scan('{directory}/tables/dead_letters')" in said
    assert all(sql.splitlines()[0] in said for sql in spark_sql(directory))
