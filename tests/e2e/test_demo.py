"""`dlx demo` on real Kafka, Spark and Delta: interrupted, continued, finished."""

import os
import re
import shlex
import signal
import uuid
from pathlib import Path

import pytest

from streaming.demo.report import spark_sql
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.ledger.schema.schemas import TABLES
from streaming.queries.duckdb_tables import Tables
from streaming.user_folders import user_cache_folder
from tests.fixtures.demo import PATIENCE_S, Demo, demo
from tests.fixtures.wheel import install, make_environment, wheel_environment

__all__ = ["demo", "wheel_environment"]

STAYS_S = 2
"""How long a test verifies that a process does not end."""


def numbers(said):
    """The numbers of the balance summary by label."""
    sheet = said[said.index("\nBalance of all messages") : said.index("\nWhere everything is\n")]
    rows = re.findall(r"^ +(\S.*?)  +([\d,]+)$", sheet, re.MULTILINE)
    return {what: int(count.replace(",", "")) for what, count in rows}


def told_the_story(said, directory):
    """Check that the words of the story have the numbers of the tables."""
    [died] = map(int, re.findall(r"All (\d+) were orders in JPY", said))
    [sealed] = map(int, re.findall(r"plan r-[0-9a-f]+: (\d+) letters", said))
    [(acked, moved, again)] = re.findall(
        r"(\d+) of (\d+) letters were acknowledged; (\d+) died again", said
    )
    assert died >= 3
    assert (sealed, int(acked), int(moved), int(again)) == (died, died, died, 0)
    assert re.findall(r"When release (\S+) came, at \S+: (\d+)", said)[0] == ("2.0", "0")
    tables = Tables(str(directory / "tables"))
    tables.view("dead_letters")
    [(count,)] = tables.values("SELECT count(*) FROM dead_letters WHERE queue = 'invoices'")
    tables.close()
    assert count == died


def rows(directory, table):
    tables = Tables(str(directory / "tables"))
    tables.view(table)
    ((count,),) = tables.values(f"SELECT count(*) FROM {table}")
    tables.close()
    return count


def rows_so_far(directory, table):
    """Rows of a table that may not exist yet."""
    return rows(directory, table) if (directory / "tables" / table / "_delta_log").exists() else 0


def why_it_died(demo, arguments):
    """What `dlx why` says of an order; of several messages, each is asked for."""
    answer = demo.command(*arguments)
    assert answer.wait() == 0, answer.output()
    said = answer.output()
    for name in re.findall("^  dlx why (\\S+)  # ", said, re.MULTILINE):
        said += why_it_died(demo, [name if one == "17" else one for one in arguments])
    return said


@pytest.fixture
def installed_demo(wheel_environment, tmp_path):
    """A demo from the wheel with the extra `job`, far from the checkout, with an empty home."""
    environment = make_environment(tmp_path / "venv")
    install(environment, f"dlx-stream[job] @ {wheel_environment.wheel.as_uri()}")
    home = tmp_path / "home"
    home.mkdir()
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "XDG_CACHE_HOME": str(user_cache_folder().parent),  # jars are not downloaded again
        **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
    }
    program = [str(environment / "bin" / "dlx")]
    started = Demo(home / "demo", program=program, folder=home, inherited=variables)
    yield started
    started.end()


def closes_its_balance(demo):
    """Let a demo run to its end, and check what it says and leaves.

    Returns:
        The program that its report names, and how many messages died.
    """
    finished = demo.start("--seconds", "8", "--no-console")
    status, said = finished.wait(PATIENCE_S), finished.output()
    assert status == 0, said
    assert demo.left_over() == []
    told_the_story(said, demo.directory)
    sheet = numbers(said)
    assert sheet["unexplained"] == 0
    assert "The balance is closed" in said
    assert sheet["messages published"] == rows(demo.directory, "messages")
    assert sheet["still in a queue, unacked"] == 0
    deaths = sum(count for what, count in sheet.items() if what.startswith("dead: "))
    assert deaths == rows(demo.directory, "dead_letters")
    reasons = {what for what in sheet if what.startswith("dead: ")}
    assert reasons >= {"dead: expired", "dead: maxlen", "dead: rejected"}
    assert "x-death[0]" in said
    # The demo ends before its first snapshot, and perhaps before its first index of values.
    written = set(TABLES) - {"snapshots", "snapshot_contents", "search_keys"}
    assert all((demo.directory / "tables" / name).is_dir() for name in written)
    for folder in ("kafka", "checkpoints", "logs"):
        assert any((demo.directory / folder).iterdir())

    [line] = re.findall(r"^ +(/.* why 17 .*)$", said, re.MULTILINE)
    program, *arguments = shlex.split(line)
    told = why_it_died(demo, arguments)
    assert re.search("^it died in queue 'payments' .*reject", told, re.MULTILINE)
    return program, deaths


@pytest.mark.long
def test_a_demo_tells_its_story_and_closes_its_balance(demo, request):
    _, deaths = closes_its_balance(demo)

    spark = request.getfixturevalue("spark")
    _, summary, history = (spark.sql(sql).collect() for sql in spark_sql(demo.directory / "tables"))
    spark.catalog.dropTempView("dead_letters")
    assert sum(row["deaths"] for row in summary) == deaths
    assert min(len(row["x_death"]) for row in history) > 1


@pytest.mark.nightly  # in every run, one from the checkout ends, and one that starts is interrupted
def test_an_interrupted_demo_of_the_wheel_continues_and_closes_its_balance(installed_demo):
    demo = installed_demo
    interrupted = demo.start("--seconds", "600")
    interrupted.until_it_says("the shop is open: ", PATIENCE_S)
    interrupted.until(lambda: rows_so_far(demo.directory, "messages") > 0)
    interrupted.signal(signal.SIGINT)

    status, said = interrupted.wait(PATIENCE_S), interrupted.output()
    assert status == 130, said
    assert said.endswith("dlx demo: stopped; nothing is left running\n")
    assert "Traceback" not in said
    assert demo.left_over() == []

    program, _ = closes_its_balance(demo)

    assert Path(program).is_relative_to(demo.directory.parents[1] / "venv")


@pytest.mark.nightly  # other tests kill a job on such a cluster
def test_a_demo_on_a_cluster_closes_its_balance_and_its_commands_work_on_the_copy(demo):
    process = demo.start("--cluster", "--seconds", "8", "--no-console")

    status, said = process.wait(PATIENCE_S), process.output()
    assert status == 0, said
    assert demo.left_over() == []
    copy = demo.directory / "store" / "dlx"
    assert "tables and checkpoint are in an S3-compatible store" in said
    told_the_story(said, copy)
    assert numbers(said)["unexplained"] == 0
    assert numbers(said)["messages published"] == rows(copy, "messages")
    assert not (demo.directory / "tables").exists()
    next_lines = re.findall(
        r"^ +/\S*/dlx (.*?)(?:  +\(.*)?$", said[said.index("Try next") :], re.MULTILINE
    )
    commands = [shlex.split(line) for line in next_lines]
    asked = [words for words in commands if words[0] not in {"console", "demo"}]
    assert len(asked) >= 3
    assert ["demo", "--cluster", "--dir", str(demo.directory), "--keep"] in commands
    for words in asked:
        answer = demo.command(*words)
        assert answer.wait() == 0, answer.output()
        assert answer.output()


def test_ctrl_c_during_the_start_leaves_no_process(demo):
    process = demo.start()
    process.until_it_says("starting Kafka", PATIENCE_S)

    process.signal(signal.SIGINT)

    assert process.wait(PATIENCE_S) == 130
    assert process.output().splitlines()[-1] == "dlx demo: stopped; nothing is left running"
    assert demo.left_over() == []


def test_the_traffic_alone_waits_for_its_job(demo, embedded_kafka, tmp_path):
    config = tmp_path / "dlx.toml"
    address = embedded_kafka.bootstrap_servers
    prefix = f"waits.{uuid.uuid4().hex[:8]}"
    config.write_text(
        f'[kafka]\nbootstrap_servers = ["{address}"]\n'
        f'[[inputs]]\ntopic = "{prefix}.publishes"\n'
        f'[[inputs]]\ntopic = "{prefix}.commands"\nsource = "commands"\n'
    )
    process = demo.command("demo", "--traffic-only", "--config", str(config))
    process.until_it_says("waiting for the job", PATIENCE_S)
    stayed = process.stays_for(STAYS_S)

    process.signal(signal.SIGTERM)

    status, said = process.wait(PATIENCE_S), process.output()
    assert stayed
    assert status == 0, said
    assert "\nclosed: 0 published" in said


@pytest.mark.nightly  # in every run, it waits for its job, and does its work in the demo
def test_the_traffic_alone_works_with_a_remote_job(demo, tmp_path):
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        config = tmp_path / "dlx.toml"
        config.write_text(
            f'[job]\ncheckpoint_location = "cp"\ntables_location = "tables"\nlog_dir = "logs"\n'
            f'[kafka]\nbootstrap_servers = ["{kafka.bootstrap_servers}"]\n'
        )
        job = demo.command("run", "--config", str(config))
        traffic = demo.command("demo", "--traffic-only", "--seconds", "3", "--config", str(config))
        status, said = traffic.wait(PATIENCE_S), traffic.output()
        job.signal(signal.SIGTERM)
        job_status = job.wait(PATIENCE_S)

    assert status == 0, said
    assert job_status == 0, job.output()
    published = re.search(r"^closed: (\d+) published", said, re.MULTILINE)
    assert published is not None
    assert int(published[1]) > 0
