"""`dlx reset` without Kafka: what is listed, what is removed, and what stays."""

import json
import shutil

import pytest
from filelock import FileLock

from streaming.user_folders import (
    demo_folder,
    last_demo,
    plans_folder,
    remember_demo,
    user_cache_folder,
    user_state_folder,
)


@pytest.fixture
def job(tmp_path, monkeypatch, shop_root):
    """The folder of a job with tables, checkpoint, logs and the data of its own Kafka."""
    folder = tmp_path / "job"
    folder.mkdir()
    monkeypatch.chdir(folder)
    text = 'kafka.bootstrap_servers = ["localhost:1"]\nkafka.connect_timeout_ms = 200\n'
    (folder / "dlx.toml").write_text(text)
    shutil.copytree(shop_root, folder / "tables")
    for name in ("checkpoints/state/0", "checkpoints/sequencer/_2f", "kafka/data", "logs/work"):
        (folder / name).mkdir(parents=True)
    for name in ("checkpoints/dlx.json", "checkpoints/dlx.lock", "kafka/ports.json", "kafka/lock"):
        (folder / name).touch()
    (folder / "logs" / "spark.log").write_text("x" * 1_500)
    return folder


def names_in(folder):
    return {path.name for path in folder.iterdir()}


def rows(result):
    return {row["what"]: row for row in map(json.loads, result[1].splitlines())}


def test_everything_is_listed_with_its_size_and_nothing_is_removed(dlx, job):
    user_cache_folder().mkdir(parents=True)
    (user_cache_folder() / "jars").mkdir()
    before = sorted(job.rglob("*"))

    found = rows(dlx("reset", "-o", "json"))

    assert found.keys() >= {"tables", "checkpoint", "kafka", "logs", "cache"}
    assert found["logs"] == {"what": "logs", "size": "1.5 kB", "where": str(job / "logs")}
    assert sorted(job.rglob("*")) == before
    assert "--yes" in dlx("reset")[1]
    assert sorted(job.rglob("*")) == before


def test_only_what_is_chosen_is_removed(dlx, job):
    status, out, err = dlx("reset", "--only", "tables", "--only", "logs", "--yes")

    assert (status, err) == (0, "")
    assert {"tables: removed", "logs: removed"} <= set(out.splitlines())
    assert names_in(job) == {"dlx.toml", "checkpoints", "kafka"}


def test_the_configuration_and_what_others_have_put_there_stay(dlx, job):
    (job / "tables" / "mine.parquet").touch()
    (job / "checkpoints" / "notes").touch()
    (job / "kafka" / "notes").touch()
    (job / "logs" / "notes").touch()
    choices = [
        word for name in ("tables", "checkpoint", "kafka", "logs") for word in ("--only", name)
    ]

    assert dlx("reset", *choices, "--yes")[0] == 0

    left = {str(path.relative_to(job)) for path in job.rglob("*") if path.is_file()}
    assert left == {
        *("dlx.toml", "tables/mine.parquet", "checkpoints/notes", "kafka/notes", "logs/notes"),
    }
    assert dlx("reset", *choices, "--yes")[1] == "nothing to remove\n"


def test_what_fronts_keep_goes_with_their_logs(dlx, job):
    assert dlx("reset", "--only", "checkpoint", "--yes")[0] == 0
    assert names_in(job / "checkpoints") == {"sequencer"}

    assert dlx("reset", "--only", "kafka", "--yes")[0] == 0
    assert names_in(job) == {"dlx.toml", "tables", "logs"}


def test_checkpoints_that_rebuilds_kept_and_files_of_the_user_are_removed(dlx, job):
    kept = [job / f"checkpoints.{end}" for end in ("before-rebuild-1", "rebuilding")]
    others = [job / f"checkpoints.{end}" for end in ("backup", "before-rebuild-mine")]
    for folder in (*kept, *others):
        (folder / "state").mkdir(parents=True)
    plans_folder().mkdir(parents=True)
    plan, history = plans_folder() / "r-0123456789ab.json", user_state_folder() / "query-history"
    edits = plans_folder() / "r-0123456789ab.edits"
    edits.touch()
    for file in (plan, history):
        file.touch()

    found = dlx("reset", "-o", "json")[1]

    assert all(str(place) in found for place in (*kept, plans_folder(), user_state_folder()))
    assert not any(f'"{place}"' in found for place in others)
    choices = [word for name in ("checkpoint", "plans", "state") for word in ("--only", name)]
    assert dlx("reset", *choices, "--yes")[0] == 0
    assert not any(path.exists() for path in (*kept, plan, edits, history))
    assert all(path.exists() for path in others)


@pytest.mark.parametrize("lock", ["checkpoints/dlx.lock", "kafka/lock"])
def test_nothing_is_removed_while_a_job_or_its_kafka_runs(dlx, job, lock):
    with FileLock(job / lock):
        status, out, err = dlx("reset", "--only", "tables", "--yes")

    assert (status, out) == (2, "")
    assert "is in use" in err
    assert (job / "tables" / "events").is_dir()


def test_the_demo_and_the_cache_are_removed_one_by_one(dlx, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo, jars = demo_folder(), user_cache_folder() / "jars"
    for folder in (demo, jars):
        folder.mkdir(parents=True)
    (demo / "dlx.toml").touch()
    remember_demo(demo / "dlx.toml")

    assert dlx("reset", "--only", "demo", "--yes")[0] == 0
    assert (demo.exists(), jars.exists(), last_demo()) == (False, True, None)
    assert dlx("reset", "--only", "cache", "--yes")[0] == 0
    assert not jars.exists()
    assert dlx("reset", "--only", "cache", "--yes")[1] == "nothing to remove\n"


def test_a_wrong_choice_names_the_likely_one(dlx, job):
    status, out, err = dlx("reset", "--only", "tabels", "--yes")

    assert (status, out) == (2, "")
    assert "did you mean 'tables'?" in err
    assert (job / "tables").exists()
