"""`dlx doctor` without Kafka; tests/e2e/test_doctor.py has one."""

import errno
import json
import os
import socket
import sys

import pytest
from attrs import evolve
from filelock import FileLock

from streaming.cli.doctor import job
from streaming.cli.doctor.machine import FULL_DISK_BYTES, LOW_DISK_BYTES, check_folder, size_text
from streaming.config import JobConfig
from streaming.pipeline.checkpoint.checkpoint import LOCK_FILE
from streaming.pipeline.checkpoint.job_state import FailingFile, is_running

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def findings(dlx):
    """A function that runs the command and returns its status, and its findings by check."""

    def run(*arguments):
        status, out, err = dlx("doctor", "-o", "json", "--timeout", "0.5", *arguments)
        assert err == ""
        rows = [json.loads(line) for line in out.splitlines()]
        assert all(row["remedy"] or row["status"] == "ok" for row in rows)
        return status, {row["check"]: row for row in rows}

    return run


def config_with(here, **job):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    lines = [f'{name} = "{value}"' for name, value in job.items()]
    text = f'[kafka]\nbootstrap_servers = ["localhost:{port}"]\n[job]\n' + "\n".join(lines)
    (here / "dlx.toml").write_text(text)


def test_without_a_configuration_the_machine_is_checked(findings):
    status, found = findings()

    assert found["configuration"]["status"] == "warn"
    assert {
        "python",
        "pyspark",
        "java",
        "kafka jars",
        "spark jars",
        "cache",
        "ports",
    } <= found.keys()
    assert {"kafka", "tables"}.isdisjoint(found)
    assert status == any(row["status"] == "fail" for row in found.values())
    assert found["spark jars"]["status"] == "warn"  # this user's cache is empty


def test_a_java_that_does_not_run_is_passed_over_or_reported(findings, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    _, found = findings()

    assert found["java"]["status"] == "ok"
    assert "/nowhere" not in found["java"]["detail"]


def test_kafka_that_does_not_answer_fails_and_its_port_is_free(findings, here):
    config_with(here)

    status, found = findings()

    assert status == 1
    assert found["configuration"]["status"] == "ok"
    assert found["kafka"]["status"] == "fail"
    assert "dlx kafka" in found["kafka"]["remedy"]
    assert found["port"]["status"] == "ok"
    assert found["tables"]["status"] == found["checkpoint"]["status"] == "ok"
    assert not (here / "tables").exists()


def test_a_port_of_another_program_fails(findings, here):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (here / "dlx.toml").write_text(f'kafka.bootstrap_servers = ["127.0.0.1:{port}"]')

        status, found = findings()

    assert (status, found["port"]["status"]) == (1, "fail")


def test_every_problem_of_a_configuration_is_a_finding(dlx, here):
    (here / "dlx.toml").write_text("[job]\ntrigger = 1\ncompat = 4\n")

    status, out, _ = dlx("doctor", "-o", "json")

    rows = [json.loads(line) for line in out.splitlines()]
    failed = [row["detail"] for row in rows if row["check"] == "configuration"]
    assert status == 1
    assert [text.partition(":")[0] for text in failed] == ["job.trigger", "job.compat"]


def test_tables_without_their_checkpoint_fail(findings, here, shop_root):
    config_with(here, tables_location=shop_root)

    _, found = findings()

    assert found["tables"]["status"] == "fail"


def test_a_folder_that_cannot_be_created_fails(findings, here):
    (here / "file").touch()
    config_with(here, tables_location=here / "file" / "tables")

    _, found = findings()

    assert found["tables folder"]["status"] == "fail"
    assert "job.tables_location" in found["tables folder"]["remedy"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_access_fails(tmp_path):
    tmp_path.chmod(0o500)

    [finding] = check_folder("cache", tmp_path / "below", "choose another")

    assert finding.status == "fail"


def test_a_cache_that_can_only_be_read_is_fine_if_it_has_what_a_job_needs(findings, monkeypatch):
    monkeypatch.setattr("streaming.cli.doctor.machine.os.access", lambda *_: False)

    _, without = findings()
    monkeypatch.setattr("streaming.cli.doctor.machine._has_size", lambda *_: True)
    _, complete = findings()

    assert (without["cache"]["status"], complete["cache"]["status"]) == ("fail", "ok")


def test_whether_a_job_runs_is_seen_on_a_volume_that_can_only_be_read(tmp_path, monkeypatch):
    def open_read_only(path, flags, *arguments, **options):
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, "Read-only file system", path)
        return os_open(path, flags, *arguments, **options)

    config = JobConfig()
    config = evolve(config, job=evolve(config.job, checkpoint_location=str(tmp_path)))
    assert not is_running(config)
    os_open = os.open

    with FileLock(tmp_path / LOCK_FILE):
        monkeypatch.setattr("os.open", open_read_only)
        assert is_running(config)
    assert not is_running(config)


def test_attempts_that_fail_are_a_finding_that_leads_to_the_error(here, findings):
    checkpoint = here / "checkpoint"
    FailingFile(checkpoint).failed("kafka-unreachable", "no answer from a:1", "Kafka", 60.0)
    config_with(here, checkpoint_location=str(checkpoint))

    status, found = findings("--read-only")

    assert (status, found["batches"]["status"]) == (1, "fail")
    assert "1 attempt failed" in found["batches"]["detail"]
    assert found["batches"]["detail"].endswith("no answer from a:1")
    assert found["batches"]["remedy"].startswith("dlx doctor explain kafka-unreachable; then start")


@pytest.mark.parametrize(
    ("free", "status"),
    [(FULL_DISK_BYTES - 1, "fail"), (LOW_DISK_BYTES - 1, "warn"), (LOW_DISK_BYTES, "ok")],
)
def test_a_full_disk_is_reported(tmp_path, monkeypatch, free, status):
    monkeypatch.setattr(
        "streaming.cli.doctor.machine.shutil.disk_usage",
        lambda _: type("Usage", (), {"free": free}),
    )

    [finding] = check_folder("cache", tmp_path, "choose another")

    assert finding.status == status


def test_lines_fit_the_terminal_and_each_begins_with_its_status(dlx, here, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    config_with(here)

    status, out, _ = dlx("doctor", "--timeout", "0.5")

    assert status == 1
    words = {line.split()[0] for line in out.splitlines() if not line.startswith(" ")}
    assert words <= {"ok", "warn", "fail"}
    assert any(line.strip().startswith("remedy: ") for line in out.splitlines())
    assert [line for line in out.splitlines() if len(line) > 60 and " " in line.strip()] == []


def test_sizes_are_written_for_people():
    assert [size_text(size) for size in (12, 1_500, 2_000_000, 54_700_000_000, 3 * 10**12)] == [
        *("12 B", "1.5 kB", "2.0 MB", "54.7 GB", "3.0 TB"),
    ]


def test_the_client_of_hdfs_is_looked_for(here, findings, monkeypatch):
    monkeypatch.setattr(job, "find_spec", lambda _name: None)
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    config_with(here, checkpoint_location="hdfs://without-client:8020/c", tables_location="tables")

    _, found = findings()

    assert found["checkpoint folder"]["remedy"] == "pip install 'dlx-stream[hdfs]'"
    assert "'dlx-stream[hdfs]'" in found["checkpoint"]["detail"]


def test_the_webhook_is_tried_without_calling_it(findings, here):
    config_with(here)
    file = here / "dlx.toml"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        file.write_text(
            f'{file.read_text()}\n[alerts]\nwebhook = "http://127.0.0.1:{port}/secret"\n'
        )
        there = findings()[1]["webhook"]
        connection, _address = listening.accept()
        assert connection.recv(1) == b""
        connection.close()
    gone = findings()[1]["webhook"]

    assert (there["status"], gone["status"]) == ("ok", "warn")
    assert "secret" not in there["detail"] + gone["detail"]
