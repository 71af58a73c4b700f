"""Relative paths start at the folder of the file, wherever the command is given."""

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


def test_the_current_folder_matters_only_where_the_file_is_named_from(tmp_path: Path, monkeypatch):
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
    "url",
    [
        "s3://bucket/checkpoints",
        "hdfs://namenode/checkpoints",
        "dbfs:/checkpoints",
        "file://elsewhere/checkpoints",
        "file:checkpoints",
        "file:////elsewhere/checkpoints",
        "file:///checkpoints?version=2",
        "file:///",
    ],
)
def test_the_checkpoint_is_on_a_local_disk(tmp_path: Path, url):
    (tmp_path / "dlx.toml").write_text(f'job.checkpoint_location = "{url}"')

    with pytest.raises(InvalidConfigError) as caught:
        load_config(tmp_path / "dlx.toml")

    [problem] = caught.value.problems
    assert "job.checkpoint_location: must be a folder of this machine" in str(problem)
    assert "local disk" in str(problem)


@pytest.mark.parametrize("path", ["C:/checkpoints", "a:b", "checkpoints", "/var/a b%20c"])
def test_a_path_of_the_checkpoint_stays_as_it_is(path):
    assert JobSettings(checkpoint_location=path).checkpoint_location == path


def test_logs_are_not_kept_in_shared_storage(tmp_path: Path):
    (tmp_path / "dlx.toml").write_text('job.log_dir = "s3://bucket/logs"')

    with pytest.raises(InvalidConfigError) as caught:
        load_config(tmp_path / "dlx.toml")

    [problem] = caught.value.problems
    assert str(problem) == (
        "job.log_dir: must be a folder of this machine, as a path or as file:///PATH"
    )
