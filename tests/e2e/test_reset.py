"""`dlx reset` deletes the topics of a job, and only those."""

import sys

import pytest
from confluent_kafka.admin import AdminClient

from streaming.cli.main import main
from streaming.config import show_config
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import wait_until


def test_the_topics_of_a_job_are_deleted_and_others_stay(
    tmp_path, embedded_kafka, spark, new_topic, monkeypatch
):
    foreign = new_topic()
    pipeline = Pipeline(tmp_path, embedded_kafka.bootstrap_servers)
    pipeline.start(spark)
    pipeline.stop()
    file = tmp_path / "dlx.toml"
    file.write_text(show_config(pipeline.config))
    own = {pipeline.publishes, pipeline.commands, *pipeline.config.outbound_topics().values()}
    admin = AdminClient({"bootstrap.servers": pipeline.servers, "log_level": 0})
    assert own <= admin.list_topics().topics.keys()

    monkeypatch.setattr(sys, "argv", ["dlx", "reset", "--only", "topics", "--yes", "-c", str(file)])
    with pytest.raises(SystemExit) as exit_:
        main()

    assert exit_.value.code == 0
    wait_until(lambda: own.isdisjoint(admin.list_topics().topics))
    left = admin.list_topics().topics
    assert foreign in left
    assert [name for name in left if name.removesuffix(".alive") in own] == []
