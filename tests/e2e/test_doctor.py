"""`dlx doctor` with a real Kafka and a job's tables."""

import json
import sys

import pytest
from confluent_kafka.admin import AdminClient

from streaming.cli.main import main
from streaming.config import show_config
from tests.fixtures.jobs import running_job
from tests.fixtures.services import embedded_kafka, spark
from tests.fixtures.waiting import wait_until

__all__ = ["embedded_kafka", "running_job", "spark"]


def findings(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["dlx", "doctor", "-o", "json", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit_:
        main()
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return exit_.value.code, {row["check"]: row for row in rows}


def test_everything_is_well_while_the_job_runs(running_job, capsys, monkeypatch):
    file = running_job.root / "dlx.toml"
    file.write_text(show_config(running_job.config))
    with running_job.connect() as connection:
        connection.channel().declare_queue("work")
    wait_until(running_job.job.committed.is_set, lambda: "a batch")

    status, found = findings(capsys, monkeypatch, "--config", file)

    assert {name: row for name, row in found.items() if row["status"] != "ok"} == {}
    assert status == 0
    assert {"kafka", "topics", "clock", "checkpoint", "tables", "progress"} <= found.keys()
    assert "the job runs" in found["checkpoint"]["detail"]
    names = (
        AdminClient({"bootstrap.servers": running_job.servers, "log_level": 0}).list_topics().topics
    )
    assert [name for name in names if name.startswith("dlx.doctor")] == []

    _, read = findings(capsys, monkeypatch, "--config", file, "--read-only")

    assert read.keys() == found.keys() - {"clock"}
