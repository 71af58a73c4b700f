"""Locations that cannot be written to are refused with the name of their setting."""

import os
from pathlib import Path

import pytest

from streaming.config.secrets import SecretText
from streaming.ledger.schema.table_setup import Retention
from streaming.pipeline.checkpoint.checkpoint import CheckpointLock
from streaming.pipeline.checkpoint.errors import FolderError
from streaming.pipeline.checkpoint.folders import NewFolders, make_folder, open_ledger
from streaming.storage.location import Location


def test_a_folder_is_created_with_its_parents(tmp_path):
    make_folder("job.checkpoint_location", tmp_path / "a" / "b")

    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("below", ["", "checkpoints"])
def test_a_file_in_place_of_a_folder_is_refused(tmp_path, below):
    (tmp_path / "file").touch()

    with pytest.raises(FolderError, match=r"^job.checkpoint_location: .*a file is in its place"):
        CheckpointLock(tmp_path / "file" / below).acquire()
    with pytest.raises(FolderError, match=r"^job.tables_location: .*a file is in its place"):
        open_ledger(Location(str(tmp_path / "file" / below)), Retention())


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)  # root may write everywhere

    with pytest.raises(FolderError, match=r"tables_location: this user cannot write to"):
        open_ledger(Location(str(tmp_path)), Retention())


def test_a_read_only_disk_is_refused():
    with pytest.raises(FolderError, match=r"^job.log_dir: /proc/dlx cannot be created: "):
        make_folder("job.log_dir", Path("/proc/dlx"))


def test_damaged_tables_are_refused(tmp_path):
    (tmp_path / "messages" / "_delta_log").mkdir(parents=True)
    (tmp_path / "messages" / "_delta_log" / f"{0:020}.json").write_text("no log\n")

    with pytest.raises(FolderError, match=r"^job.tables_location: the tables cannot be opened: "):
        open_ledger(Location(str(tmp_path)), Retention())


def test_the_error_of_unreachable_object_storage_has_the_reason(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    options = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "nowhere",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "top secret",
        "max_retries": "0",
    }

    with pytest.raises(FolderError, match=r"tables_location: .*127\.0\.0\.1:9.*refused") as error:
        open_ledger(Location("s3://bucket/t", options), Retention())

    assert len(str(error.value).splitlines()) == 1
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize("url", ["abfs://container/t", "gs://"])
def test_an_incomplete_url_is_refused_with_the_missing_part(url):
    with pytest.raises(FolderError, match=r"tables cannot be opened: .*(account|bucket) name"):
        open_ledger(Location(url), Retention())


def test_errors_of_object_storage_do_not_repeat_secrets():
    options = {"azure_storage_account_key": SecretText("not-base64")}

    with pytest.raises(FolderError, match="Invalid Access Key") as error:
        open_ledger(Location("abfss://c@account.dfs.core.windows.net/t", options), Retention())

    assert "not-base64" not in str(error.value)


def test_only_new_folders_are_removed_and_what_others_put_beside_them_stays(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "kept").touch()
    paths = [tmp_path / "old", tmp_path / "a" / "b" / "new", tmp_path / "c" / "new"]
    new = NewFolders(paths)
    for path in paths:
        path.mkdir(parents=True, exist_ok=True)
        (path / "written").touch()
    (tmp_path / "c" / "another's").touch()

    new.remove()
    new.remove()

    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        *("c", "c/another's", "old", "old/kept", "old/written"),
    ]
