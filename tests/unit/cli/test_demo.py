"""`dlx demo`: options that contradict each other."""

import pytest

pytestmark = pytest.mark.filterwarnings(  # of kafka-python, when it is imported
    "ignore:(read|open)_text is deprecated:DeprecationWarning"
)


def test_a_configuration_requires_traffic_only(dlx, tmp_path):
    (tmp_path / "dlx.toml").write_text("")

    status, _, err = dlx("demo", "--config", tmp_path / "dlx.toml")

    assert status == 2
    assert "--traffic-only" in err


def test_traffic_only_keeps_nothing(dlx, tmp_path):
    status, _, err = dlx("demo", "--traffic-only", "--dir", tmp_path)

    assert status == 2
    assert "--dir" in err


def test_traffic_only_needs_the_configuration_of_a_job(dlx, tmp_path):
    status, _, err = dlx("demo", "--traffic-only", "--config", tmp_path / "missing.toml")

    assert status == 2
    assert "missing.toml" in err


def test_traffic_only_does_not_wait_for_ever_in_a_vhost_of_rabbitmqs_clients(dlx, tmp_path):
    config = tmp_path / "dlx.toml"
    config.write_text('[vhosts."/"]\nsequenced = true\n')

    status, _, err = dlx("demo", "--traffic-only", "--config", config)

    assert status == 2
    assert err.startswith("vhosts: all are sequenced")


def test_a_folder_that_cannot_be_created_is_named(dlx, tmp_path):
    (tmp_path / "file").write_text("")

    status, _, err = dlx("demo", "--dir", tmp_path / "file" / "below")

    assert status == 2
    assert str(tmp_path / "file" / "below") in err


def test_traffic_only_tells_no_story_to_pause(dlx, tmp_path):
    status, _, err = dlx("demo", "--traffic-only", "--pause-at", "redrive")

    assert status == 2
    assert "--pause-at" in err


def test_an_unknown_step_is_refused_with_the_steps(dlx):
    status, _, err = dlx("demo", "--pause-at", "redrives")

    assert status == 2
    assert "'redrive'" in err
