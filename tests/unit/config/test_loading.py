"""Files: where relative paths start, and which files cannot be read as a configuration."""

from pathlib import Path

import pytest

from streaming.config import (
    InvalidConfigError,
    JobConfig,
    JobSettings,
    KafkaSettings,
    Secret,
    VhostSettings,
    load_config,
    read_config,
)
from tests.unit.config.problems import problems_of

TEXT = """
    [job]
    checkpoint_location = "state/checkpoints"
    tables_location = "s3://bucket/tables"
    log_dir = "/var/log/dlx"
    spark_properties."spark.hadoop.fs.s3a.secret.key" = { file = "secrets/s3" }
    [kafka.security]
    ssl.ca.location = "ca.pem"
    sasl.username = "not/a/path"
    sasl.password = { env = "NAME" }
    [vhosts."/"]
    definitions = "definitions.json"
    [vhosts.b]
"""


def test_a_loaded_file_has_absolute_paths(tmp_path: Path):
    path = tmp_path / "dlx.toml"
    path.write_text(TEXT)

    assert load_config(path) == JobConfig(
        job=JobSettings(
            checkpoint_location=f"{tmp_path}/state/checkpoints",
            tables_location="s3://bucket/tables",
            log_dir="/var/log/dlx",
            spark_properties={
                "spark.hadoop.fs.s3a.secret.key": Secret("file", f"{tmp_path}/secrets/s3")
            },
        ),
        kafka=KafkaSettings(
            security={
                "ssl.ca.location": f"{tmp_path}/ca.pem",
                "sasl.username": "not/a/path",
                "sasl.password": Secret("env", "NAME"),
            }
        ),
        vhosts={
            "/": VhostSettings(definitions=f"{tmp_path}/definitions.json"),
            "b": VhostSettings(),
        },
    )


def test_a_read_file_has_its_paths_as_they_are_written(tmp_path: Path):
    path = tmp_path / "dlx.toml"
    path.write_text(TEXT)

    config = read_config(path)

    assert config.job.checkpoint_location == "state/checkpoints"
    assert config.vhosts["/"].definitions == "definitions.json"


def test_the_current_folder_matters_only_for_the_path_of_the_file(tmp_path: Path, monkeypatch):
    (tmp_path / "dlx.toml").write_text("")
    monkeypatch.chdir(tmp_path)

    config = load_config(Path("dlx.toml"))

    assert config.job.checkpoint_location == f"{tmp_path}/checkpoints"
    assert config.job.tables_location == f"{tmp_path}/tables"
    assert config.job.log_dir == f"{tmp_path}/logs"


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/shop")
    (tmp_path / "dlx.toml").write_text('job.log_dir = "~/logs"')

    assert load_config(tmp_path / "dlx.toml").job.log_dir == "/home/shop/logs"


@pytest.mark.parametrize(
    "url",
    [
        "file:///var/lib/dlx%20state",
        "file:/var/lib/dlx%20state",
        "file://localhost/var/lib/dlx%20state",
        "FILE:///var/lib/dlx%20state",
    ],
)
def test_a_file_url_of_this_machine_is_the_path_it_names(tmp_path: Path, url):
    (tmp_path / "dlx.toml").write_text(
        f"""
        job.checkpoint_location = "{url}"
        job.log_dir = "{url}"
        vhosts.shop.definitions = "{url}"
        """
    )

    config = load_config(tmp_path / "dlx.toml")

    assert config.job.checkpoint_location == "/var/lib/dlx state"
    assert config.job.log_dir == "/var/lib/dlx state"
    assert config.vhosts["shop"].definitions == "/var/lib/dlx state"
    assert JobSettings(log_dir=url).log_dir == "/var/lib/dlx state"


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("gs://bucket/checkpoints", 'set job.storage = ["gcs"]'),
        ("webhdfs://namenode/checkpoints", "job.shared_mount"),
        ("dbfs:/checkpoints", "a checkpoint in dbfs: is not supported"),
        ("s3a://bucket/checkpoints", 'set job.storage = ["s3"]'),
        ("abfss://c@account.dfs.core.windows.net/checkpoints", 'set job.storage = ["azure"]'),
        ("file://elsewhere/checkpoints", "the form file:///PATH"),
        ("file:checkpoints", "the form file:///PATH"),
        ("file:////elsewhere/checkpoints", "the form file:///PATH"),
        ("file:///checkpoints?version=2", "the form file:///PATH"),
        ("file:///", "the form file:///PATH"),
    ],
)
def test_a_checkpoint_where_none_can_be_is_refused_with_the_remedy(tmp_path: Path, url, remedy):
    (tmp_path / "dlx.toml").write_text(f'job.checkpoint_location = "{url}"')

    with pytest.raises(InvalidConfigError) as caught:
        load_config(tmp_path / "dlx.toml")

    [problem] = caught.value.problems
    assert str(problem).startswith("job.checkpoint_location: ")
    assert remedy in str(problem)


@pytest.mark.parametrize("path", ["C:/checkpoints", "a:b", "checkpoints", "/var/a b%20c"])
def test_a_path_of_the_checkpoint_stays_as_it_is(path):
    assert JobSettings(checkpoint_location=path).checkpoint_location == path


def test_logs_are_not_kept_in_shared_storage(tmp_path: Path):
    (tmp_path / "dlx.toml").write_text('job.log_dir = "s3://bucket/logs"')

    with pytest.raises(InvalidConfigError) as caught:
        load_config(tmp_path / "dlx.toml")

    [problem] = caught.value.problems
    assert str(problem) == (
        "job.log_dir: must be a folder on this machine, as a path or as file:///PATH"
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[job", "is not valid TOML: "),
        ("a = 1\na = 2", "is not valid TOML: "),
        (f"a = {'9' * 5000}", "is not valid TOML: "),
        ("a = " + "[" * 100_000, "is not valid TOML: nested too deeply"),
    ],
)
def test_text_that_is_not_toml_is_refused_with_the_name_of_the_file(text, what):
    (problem,) = problems_of(text)

    assert problem.startswith(f"dlx.toml: {what}")


def test_no_message_repeats_a_value_that_may_be_a_secret():
    text = """
        password = "hunter2"
        [job]
        trigger_ms = "hunter2"
        tables_location = "s3://user:hunter2@bucket/tables"
        [kafka]
        bootstrap_servers = ["user:hunter2@host:1"]
        sasl_password = "hunter2"
        [kafka.security]
        "sasl.password" = "hunter2"
        "group.id" = "hunter2"
        [kafka.jvm_properties]
        "sasl.jaas.config" = "hunter2"
    """

    problems = problems_of(text)

    assert len(problems) == 8
    assert "hunter2" not in "\n".join(problems)


def test_a_byte_order_mark_is_ignored(tmp_path: Path):
    (tmp_path / "dlx.toml").write_bytes(b"\xef\xbb\xbf[job]\ntrigger_ms = 7\n")

    assert read_config(tmp_path / "dlx.toml").job.trigger_ms == 7


def test_a_missing_file_is_reported(tmp_path: Path):
    path = tmp_path / "dlx.toml"

    with pytest.raises(InvalidConfigError) as caught:
        load_config(path)

    assert str(caught.value) == f"{path}: no such file; `dlx config init` writes one to start from"


def test_a_folder_instead_of_a_file_is_reported(tmp_path: Path):
    with pytest.raises(InvalidConfigError) as caught:
        load_config(tmp_path)

    assert str(caught.value) == f"{tmp_path}: cannot be read: Is a directory"


def test_a_file_in_another_encoding_is_reported(tmp_path: Path):
    path = tmp_path / "dlx.toml"
    path.write_bytes(b"# caf\xe9")

    with pytest.raises(InvalidConfigError) as caught:
        load_config(path)

    assert str(caught.value) == f"{path}: is not UTF-8 text"
