"""The configuration of the demo's job, and the directories that it refuses."""

import re
import shlex

import pytest

from streaming.config import JobConfig, show_config
from streaming.demo.errors import DemoError
from streaming.demo.show import job_config, refuse_earlier


def test_all_files_of_the_job_are_below_the_directory(tmp_path):
    config = job_config(tmp_path, "127.0.0.1:1")

    assert config.job.checkpoint_location == str(tmp_path / "checkpoints")
    assert config.job.tables_location == str(tmp_path / "tables")
    assert config.kafka.bootstrap_servers == ("127.0.0.1:1",)


def test_the_shop_is_in_a_vhost_of_amqp_clients_beside_one_of_kafkas(tmp_path):
    config = job_config(tmp_path, "127.0.0.1:1")

    assert {name: vhost.sequenced for name, vhost in config.vhosts.items()} == {
        "/": False,
        "shop": True,
    }
    assert config.vhosts["shop"].definitions == str(tmp_path / "shop.json")


def test_the_directory_of_an_earlier_demo_is_refused_and_the_own_one_continued(tmp_path):
    file = tmp_path / "dlx.toml"
    refuse_earlier(tmp_path)
    file.write_text(show_config(job_config(tmp_path, "127.0.0.1:1")))
    refuse_earlier(tmp_path)
    file.write_text(show_config(JobConfig()))

    with pytest.raises(DemoError, match=re.escape(f"dlx reset --config {shlex.quote(str(file))}")):
        refuse_earlier(tmp_path)
