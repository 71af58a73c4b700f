"""The list of vhosts that were made at run time, and the configurations that name them."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import evolve

from streaming import made_vhosts
from streaming.config import JobConfig
from streaming.config.vhosts import VhostSettings
from streaming.job_locations import FRONT_FOLDER
from streaming.made_vhosts import (
    MOST,
    PAUSE_S,
    MadeVhosts,
    TooManyVhostsError,
    VhostsUnreadableError,
    VhostWatch,
    with_made_vhosts,
    with_vhosts,
)
from topology.errors import InvalidDocumentError

SEQUENCED = JobConfig(vhosts={"/": VhostSettings(sequenced=True)})


def test_processes_share_one_list(tmp_path):
    first, second = MadeVhosts(tmp_path), MadeVhosts(tmp_path)
    assert first.read() == {}

    first.note("orders", "there")
    second.note("bills", "there")
    first.note("orders", "ending")
    second.note("orders", "deleted")
    second.note("orders", "deleted")

    assert first.read() == second.read() == {"orders": "deleted", "bills": "there"}
    assert (tmp_path / FRONT_FOLDER / "vhosts.4").exists()
    assert not (tmp_path / FRONT_FOLDER / "vhosts.5").exists()


def test_of_those_who_change_it_at_once_none_takes_back_what_another_has_noted(tmp_path):
    names = [f"v{number}" for number in range(40)]

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: MadeVhosts(tmp_path).note(name, "there"), names))

    assert MadeVhosts(tmp_path).read() == dict.fromkeys(names, "there")


def test_the_number_of_vhosts_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(made_vhosts, "MOST", 2)
    made = MadeVhosts(tmp_path)
    made.note("a", "there")
    made.note("b", "deleted")

    with pytest.raises(TooManyVhostsError, match="a deleted one counts"):
        made.note("c", "there")

    made.note("b", "again")
    assert made.read() == {"a": "there", "b": "again"}
    assert MOST == 1_000


def test_a_damaged_list_is_named_with_the_remedy(tmp_path):
    (tmp_path / FRONT_FOLDER).mkdir()
    (tmp_path / FRONT_FOLDER / "vhosts.7").write_text('{"version": 2, "vhosts": {}}')

    with pytest.raises(VhostsUnreadableError, match=r"sequencer/vhosts\.7 is damaged.*Restore it"):
        MadeVhosts(tmp_path).read()


def test_a_configuration_names_them_too_each_with_a_log():
    config = with_vhosts(SEQUENCED, ["/", "orders", "ü"])

    assert config.log_topics() == {
        "/": "dlx.log._2f",
        "orders": "dlx.log.orders",
        "ü": "dlx.log._c3_bc",
    }
    assert with_vhosts(config, ["orders"]) is config


def test_a_name_that_no_topic_can_have_is_refused():
    with pytest.raises(InvalidDocumentError, match="249"):
        with_vhosts(SEQUENCED, ["/" * 100])


def test_without_a_sequenced_vhost_nobody_looks(tmp_path):
    plain = JobConfig()
    MadeVhosts(tmp_path).note("orders", "there")

    assert with_made_vhosts(plain, {}) is plain
    assert VhostWatch(tmp_path).look(plain) is plain


def test_a_job_looks_again_after_a_pause_and_says_once_what_it_cannot_read(tmp_path, caplog):
    now_s = [0.0]
    watch = VhostWatch(tmp_path, lambda: now_s[0])
    made = MadeVhosts(tmp_path)
    assert watch.look(SEQUENCED) is SEQUENCED
    made.note("orders", "deleted")  # it may have been there since the last look
    assert watch.look(SEQUENCED) is SEQUENCED

    now_s[0] += made_vhosts.LOOK_S
    found = watch.look(SEQUENCED)
    assert list(found.vhosts) == ["/", "orders"]
    made.note("bills", "there")
    now_s[0] += PAUSE_S / 2
    assert watch.look(found) is found
    now_s[0] += PAUSE_S / 2
    found = watch.look(found)
    assert list(found.vhosts) == ["/", "orders", "bills"]

    (tmp_path / FRONT_FOLDER / "vhosts.9").write_text("{")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            now_s[0] += PAUSE_S
            assert watch.look(found) is found
    assert len(caplog.messages) == 1


def test_whoever_slept_meanwhile_does_not_note_what_another_process_has_overtaken(tmp_path):
    made = MadeVhosts(tmp_path)
    made.note("orders", "there")
    _states, version = made.read_version()
    for state in ("ending", "deleted", "again", "there"):
        assert made.note("orders", state)

    assert not made.note("orders", "ending", version=version)
    assert not made.note("orders", "deleted", after="ending")
    assert made.read() == {"orders": "there"}
    assert made.note("orders", "there", after="again"), "it is so already"
    assert made.note("orders", "ending", version=made.read_version()[1])
    assert made.note("orders", "deleted", after="ending")


def test_those_that_are_deleted_can_be_left_out(tmp_path):
    config = evolve(SEQUENCED, job=evolve(SEQUENCED.job, checkpoint_location=str(tmp_path)))
    made = MadeVhosts(tmp_path)
    made.note("orders", "deleted")
    made.note("bills", "there")

    assert list(with_made_vhosts(config, {}).vhosts) == ["/", "orders", "bills"]
    assert list(with_made_vhosts(config, {}, deleted=False).vhosts) == ["/", "bills"]
