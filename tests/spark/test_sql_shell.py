"""`dlx spark sql` and `dlx spark pyspark` as programs, with Spark's shell or session inside."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import open_table
from streaming.ledger.schema.views import VIEWS
from streaming.storage.location import Location

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240


def run_sql(folder, config, statements):
    """Run statements in `dlx spark sql`, with a secret in the environment."""
    command = [sys.executable, "-P", "-m", "streaming.cli", "spark", "sql", "--config", str(config)]
    return subprocess.run(
        [*command, "-e", statements],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT), "SOME_SECRET": "hunter2=\\ü"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.long
def test_the_tables_of_a_job_are_views_and_delta_statements_work(tmp_path):
    folder = tmp_path / "with space"
    config = folder / "dlx.toml"
    for name in TABLES:
        open_table(Location(str(folder / "tables")), name)
    config.write_text('[job.spark_properties]\n"spark.app.word" = { env = "SOME_SECRET" }\n')
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    statements = (
        "SHOW VIEWS",
        "SELECT count(*) FROM events",
        "SELECT queue, reason FROM dead_letters",
        "SELECT queue, published_exchange, body FROM queued_messages",
        f"DESCRIBE HISTORY delta.`{folder}/tables/events`",
        "SET spark.app.word",
    )
    finished = run_sql(elsewhere, config, "; ".join(statements))

    assert finished.returncode == 0, finished.stderr
    views, (count, *history, word) = (
        finished.stdout.splitlines()[: len(TABLES) + len(VIEWS)],
        finished.stdout.splitlines()[len(TABLES) + len(VIEWS) :],
    )
    assert [line.strip() for line in views] == sorted([*TABLES, *VIEWS])
    assert count == "0"
    assert len(history) == 1
    assert history[0].split("\t")[4] == "CREATE TABLE"
    assert word == "spark.app.word\thunter2=\\ü"
    assert not any(elsewhere.iterdir()), "Hive and Derby leave files where they start"
    left = Path(tempfile.gettempdir()) / f"dlx-sql-{os.getuid()}"
    assert not any(left.iterdir())


@pytest.mark.long
def test_a_statement_that_fails_is_an_error_of_the_command(tmp_path):
    open_table(Location(str(tmp_path / "tables")), "events")
    (tmp_path / "dlx.toml").write_text('[job.spark_properties]\n"spark.a" = "b"\n')

    finished = run_sql(tmp_path, tmp_path / "dlx.toml", "SELECT no_such_column FROM events")

    assert (finished.returncode, finished.stdout) == (2, "")
    assert "UNRESOLVED_COLUMN" in finished.stderr


@pytest.mark.long
def test_a_session_of_python_reads_the_tables_as_a_stream_and_knows_kafka(tmp_path):
    """The example of docs/sql.md, between a view, a source of Kafka, and a stream that goes on."""
    for name in TABLES:
        open_table(Location(str(tmp_path / "tables")), name)
    (tmp_path / "dlx.toml").write_text("")
    page = (CHECKOUT / "docs" / "sql.md").read_text("utf-8")
    example = page.partition("```python\n# deaths.py\n")[2].partition("```")[0]
    file = tmp_path / "program.py"
    file.write_text(
        example
        + """
import sys
print(spark.table("queued_messages").count(), sys.argv[1:])
kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "localhost:1")
print(kafka.option("subscribe", "orders").load().columns[:2])
spark.readStream.format("delta").load(tables["events"]).writeStream.format("noop").start()
sys.exit(7)
"""
    )

    finished = subprocess.run(
        [sys.executable, "-P", "-m", "streaming.cli", "spark", "pyspark", str(file), "--", "-x"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert finished.returncode == 7, finished.stderr
    assert finished.stdout.splitlines()[-2:] == ["0 ['-x']", "['key', 'value']"]
    assert "|queue|reason|count|" in finished.stdout
    left = Path(tempfile.gettempdir()) / f"dlx-pyspark-{os.getuid()}"
    assert not any(left.glob("session-*"))
