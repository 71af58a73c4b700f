"""`dlx tables erase` names what may still hold the data, and removes what is dlx's own."""

import json
import shutil

import pytest

from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.user_folders import plans_folder
from tests.unit.queries.redrives.letters import Shop

OF_M0 = ("tables", "erase", "--reason", "request 4711", "--where", "body = 'm0'::BLOB")


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Dead letters that nobody has any more, two plans, and a checkpoint that a rebuild kept."""
    monkeypatch.chdir(tmp_path)
    shop = Shop(tmp_path / "tables", letters=3)
    plans_folder().mkdir(parents=True)
    for number in range(2):
        plan = shop.plan(DeadLetterFilter(headers=((("tenant", f"t{number}")),)))
        (plans_folder() / f"{number}.json").write_bytes(plan.sealed.to_json())
    (plans_folder() / "odd.json").write_text("{}")
    given = shop.broker.get("dead", "ack", 3)
    shop.broker.ack(*(one.ref for one in given))
    shop.recording.commit()
    (tmp_path / "checkpoints.before-rebuild-1" / "state").mkdir(parents=True)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "dlx.toml").touch()
    return tmp_path


def left(job):
    return sorted([one.name for one in [*plans_folder().iterdir(), *job.glob("checkpoints*")]])


def test_a_dry_run_names_everything_and_removes_nothing(dlx, job):
    before = left(job)

    status, out, _err = dlx(*OF_M0)

    assert status == 0
    named = [str(plans_folder() / "0.json"), "odd.json", "checkpoints.before-rebuild-1", "would"]
    assert all(one in out for one in named)
    assert str(plans_folder() / "1.json") not in out
    assert "topic dlx.publishes, partition 0, offsets 0 to 0" in out
    assert "exports, plans written with --out" in out
    assert left(job) == before


def test_plans_of_the_letters_and_kept_checkpoints_are_removed_and_others_stay(dlx, job):
    status, out, _err = dlx(*OF_M0, "--yes")

    assert (status, "erased 1 messages" in out) == (0, True)
    assert left(job) == ["1.json", "checkpoints"]
    assert json.loads((plans_folder() / "1.json").read_text())["letters"]


def test_a_plan_of_another_job_stays_although_its_letters_have_the_same_numbers(dlx, job):
    other = Shop(job / "other", letters=3)
    (plans_folder() / "0.json").write_bytes(other.plan().sealed.to_json())

    status, out, _err = dlx(*OF_M0, "--yes")

    assert (status, str(plans_folder() / "0.json") in out) == (0, False)
    assert "0.json" in left(job)


def test_tables_without_their_configuration_say_that_it_is_needed(dlx, job):
    (job / "dlx.toml").unlink()

    out = dlx(*OF_M0, "--tables", "tables")[1]

    assert "--config FILE" in out
    assert "checkpoints.before-rebuild-1" not in out


def test_the_edits_beside_a_plan_go_with_it_and_those_of_other_plans_stay(dlx, job):
    for name in ("0.edits", "1.edits", "nobody.edits"):
        (plans_folder() / name).write_text('[{"body": "m0"}]')

    status, out, _err = dlx(*OF_M0, "--yes")

    assert (status, "0.edits" in out, "1.edits" in out) == (0, True, False)
    assert left(job) == ["1.edits", "1.json", "checkpoints"]


def test_what_cannot_be_removed_is_said_and_the_rest_is_named_all_the_same(dlx, job, monkeypatch):
    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    (plans_folder() / "folder.json").mkdir()
    monkeypatch.setattr(shutil, "rmtree", refuse)

    status, out, err = dlx(*OF_M0, "--yes")

    assert (status, err) == (0, "")
    assert f"cannot remove the plan {plans_folder()}/folder.json" in out
    assert "checkpoints.before-rebuild-1, so remove it yourself (Permission denied)" in out
    assert "Kafka may still have 1 records" in out
