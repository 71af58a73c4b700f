"""`dlx doctor bundle`: what is in it, and that no secret is."""

import json
import zipfile
from urllib.parse import quote

import pytest

SECRET = "hunter2-is-secret"  # noqa: S105 - of a test


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A configuration with a secret, and a log that has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    (tmp_path / "dlx.toml").write_text(
        '[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\n[kafka.security]\n'
        '"security.protocol" = "SASL_PLAINTEXT"\n"sasl.mechanism" = "PLAIN"\n'
        '"sasl.username" = "dlx"\n"sasl.password" = { env = "KAFKA_PASSWORD" }\n'
    )
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "dlx.log").write_text(f"refused: {SECRET}\n" + "x" * 2_000_000 + "\nthe end\n")
    (logs / "work").mkdir()
    return tmp_path


def test_the_bundle_has_everything_but_secrets(dlx, job):
    code, out, _ = dlx("doctor", "bundle", "job.zip")

    assert (code, out) == (0, "job.zip\n")
    with zipfile.ZipFile(job / "job.zip") as archive:
        names = archive.namelist()
        texts = {name: archive.read(name).decode() for name in names}
    assert names == [
        *("machine.json", "dlx.toml", "doctor.jsonl", "tables.jsonl", "batches.jsonl"),
        *("metrics.txt", "logs/dlx.log"),
    ]
    assert SECRET not in "".join(texts.values())
    assert "KAFKA_PASSWORD" in texts["dlx.toml"]
    assert "deltalake" in json.loads(texts["machine.json"])["packages"]
    checks = [json.loads(line)["check"] for line in texts["doctor.jsonl"].splitlines()]
    assert {"java", "kafka"} <= set(checks)
    assert texts["logs/dlx.log"].endswith("the end\n")
    assert len(texts["logs/dlx.log"]) <= 1_048_576
    assert texts["tables.jsonl"].startswith("not available")


def test_a_secret_in_a_short_log_is_masked(dlx, job):
    (job / "logs" / "dlx.log").write_text(f"refused: {SECRET}\n")

    dlx("doctor", "bundle", "job.zip")

    with zipfile.ZipFile(job / "job.zip") as archive:
        log = archive.read("logs/dlx.log").decode()
    assert log.startswith("refused: ")
    assert SECRET not in log


def test_a_link_that_logs_in_to_the_console_is_masked(dlx, job):
    link = "http://127.0.0.1:9420/?token="
    (job / "logs" / "dlx.log").write_text(f'console: {link}Jz-0_k9\n{{"url": "{link}Jz-1"}}\n')

    dlx("doctor", "bundle", "job.zip")

    with zipfile.ZipFile(job / "job.zip") as archive:
        log = archive.read("logs/dlx.log").decode()
    assert log == f'console: {link}******\n{{"url": "{link}******"}}\n'


def test_every_form_of_every_secret_is_masked(dlx, job, monkeypatch):
    monkeypatch.setenv("STORAGE_KEY", quoted := 'a"quoted\\secret/1')
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    with (job / "dlx.toml").open("a") as config:
        config.write(
            '"ssl.key.password" = { env = "NOT_SET_HERE" }\n[tables.storage_options]\n'
            'AWS_SECRET_ACCESS_KEY = { env = "STORAGE_KEY" }\nAWS_TOKEN = { env = "NOR_THIS" }\n'
            'AWS_ENDPOINT_URL = "http://joe:of-the-url@127.0.0.1:1"\n'
        )
    forms = [SECRET, quoted, json.dumps(quoted), quote(quoted, safe=""), "of-the-environment"]
    (job / "logs" / "dlx.log").write_text("\n".join([*forms, "s3://joe:of-the-url@host/x"]))

    dlx("doctor", "bundle", "job.zip")

    with zipfile.ZipFile(job / "job.zip") as archive:
        texts = "".join(archive.read(name).decode() for name in archive.namelist())
        log = archive.read("logs/dlx.log").decode()
    assert [one for one in (*forms, "of-the-url") if one in texts] == []
    assert "http://******@127.0.0.1:1" in texts
    assert log.splitlines()[-1] == "s3://******@host/x"


def test_a_long_log_does_not_begin_with_the_end_of_a_secret(dlx, job):
    rest = "the end\n" + "x" * (1_048_576 - 17) + "\n"
    (job / "logs" / "dlx.log").write_text(f"{SECRET}\n{rest}")

    dlx("doctor", "bundle", "job.zip")

    with zipfile.ZipFile(job / "job.zip") as archive:
        assert archive.read("logs/dlx.log").decode() == rest


def test_a_bundle_is_not_overwritten(dlx, job):
    (job / "job.zip").touch()

    code, out, err = dlx("doctor", "bundle", "job.zip")

    assert (code, out) == (2, "")
    assert "job.zip exists" in err


def test_an_interrupted_bundle_leaves_nothing(dlx, job, monkeypatch):
    def interrupted(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr("streaming.cli.doctor.support._checks", interrupted)

    code, _, _ = dlx("doctor", "bundle", "job.zip")

    assert code != 0
    assert sorted(one.name for one in job.iterdir()) == ["dlx.toml", "logs"]
