"""`dlx config show` and `dlx config check`."""

import json
import tomllib

from streaming.config import JobConfig, parse_config


def test_without_a_file_the_defaults_are_shown(dlx, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    status, out, err = dlx("config", "show")

    assert (status, err) == (0, "")
    assert parse_config(out) == JobConfig()


def test_the_file_that_is_here_is_shown_with_every_default(dlx, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dlx.toml").write_text("[job]\ntrigger_ms = 250\n")

    status, out, err = dlx("config", "show")

    assert (status, err) == (0, "")
    shown = tomllib.loads(out)
    assert shown["job"]["trigger_ms"] == 250
    assert shown["job"]["checkpoint_location"] == "checkpoints"


def test_what_is_shown_is_valid_and_shows_the_same_again(dlx, tmp_path):
    original, again = tmp_path / "a.toml", tmp_path / "b.toml"
    original.write_text('vhosts.shop.lanes = 2\nkafka.security."sasl.password" = { env = "P" }')
    _, shown, _ = dlx("config", "show", original)
    again.write_text(shown)

    assert dlx("config", "check", again) == (0, f"{again}: valid\n", "")
    assert dlx("config", "show", again) == (0, shown, "")


def test_a_secret_is_never_shown(dlx, tmp_path, monkeypatch):
    monkeypatch.setenv("P", "hunter2")
    path = tmp_path / "dlx.toml"
    path.write_text('kafka.security."sasl.password" = { env = "P" }')

    status, out, err = dlx("config", "show", path)

    assert (status, err) == (0, "")
    assert '"sasl.password" = { env = "P" }' in out
    assert "hunter2" not in out


def test_every_problem_is_a_line_on_stderr(dlx, tmp_path):
    path = tmp_path / "dlx.toml"
    path.write_text("[job]\ntrigger = 5\ncompat = 4.0\n")
    problems = (
        "job.trigger: unknown key (did you mean 'trigger_ms'?)\n"
        'job.compat: expected "4.0" or "3.10", in quotes, got a float\n'
    )

    assert dlx("config", "check", path) == (2, "", problems)
    assert dlx("config", "show", path) == (2, "", problems)


def test_a_missing_file_is_a_line_on_stderr(dlx, tmp_path):
    file = tmp_path / "shop.toml"

    status, out, err = dlx("config", "check", file)

    assert (status, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith(f"{file}: no such file; ")
    assert "dlx config init" in line


def test_definitions_files_are_checked_too(dlx, tmp_path):
    path = tmp_path / "dlx.toml"
    path.write_text('[vhosts."/"]\ndefinitions = "definitions.json"\n')
    (tmp_path / "definitions.json").write_text(json.dumps({"queues": [{"name": 5}]}))

    assert dlx("config", "check", path) == (
        2,
        "",
        'vhosts."/".definitions: queues[0].name: expected a string, got a number\n',
    )


def test_secrets_are_looked_for_only_when_asked(dlx, tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    path = tmp_path / "dlx.toml"
    path.write_text('kafka.security."ssl.key.password" = { env = "KAFKA_PASSWORD" }')
    valid = (0, f"{path}: valid\n", "")

    assert dlx("config", "check", path) == valid
    assert dlx("config", "check", path, "--secrets") == (
        2,
        "",
        'kafka.security."ssl.key.password": environment variable KAFKA_PASSWORD is not set\n',
    )

    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")

    assert dlx("config", "check", path, "--secrets") == valid


def test_a_check_online_says_that_kafka_does_not_answer(dlx, tmp_path):
    path = tmp_path / "dlx.toml"
    path.write_text('kafka = { bootstrap_servers = ["localhost:1"], connect_timeout_ms = 300 }')

    status, _out, err = dlx("config", "check", path, "--online")

    assert status == 2
    assert err.startswith("kafka.bootstrap_servers: no answer from localhost:1 within 0.3 s (")
    assert len(err.splitlines()) == 1
