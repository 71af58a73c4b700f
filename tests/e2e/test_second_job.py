"""A second job on the topics of a first one, and what a refused start leaves behind."""

import functools
import logging
from pathlib import Path

import attrs
import pytest
from confluent_kafka.admin import AdminClient

from streaming.cli.main import main
from streaming.config import InputSettings, TopicMapping, show_config
from streaming.embedded.kafka.ports import free_port
from streaming.pipeline.job import Job
from streaming.pipeline.topics.other_jobs import OtherJobError, refuse_other_job
from streaming.protocol.addressing import JobMark
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.waiting import wait_until


@pytest.fixture
def first(tmp_path, embedded_kafka, spark):
    pipeline = Pipeline(tmp_path / "first", embedded_kafka.bootstrap_servers)
    pipeline.start(spark)
    yield pipeline
    pipeline.stop()


def second_of(first, root, **changes):
    """The configuration of a job on the same topics with other tables."""
    job = attrs.evolve(
        first.config.job,
        checkpoint_location=str(root / "checkpoints"),
        tables_location=str(root / "tables"),
    )
    return attrs.evolve(first.config, job=job, **changes)


def beats(first):
    """Whether the first job has sent a heartbeat."""
    [outbound] = first.config.outbound_topics().values()
    admin = AdminClient({"bootstrap.servers": first.servers, "log_level": 0})
    return f"{outbound}.alive" in admin.list_topics().topics


def test_a_second_job_is_refused_while_the_first_one_runs(first, spark, tmp_path):
    wait_until(lambda: beats(first))
    second = Job(second_of(first, tmp_path / "second"))

    try:
        with pytest.raises(OtherJobError) as refused:
            second.start(spark)
    finally:
        second.stop()

    said = str(refused.value)
    assert said.startswith("inputs: another job runs")
    assert first.publishes in said
    assert str(first.tables) in said
    assert str(tmp_path / "second" / "tables") in said
    assert not (tmp_path / "second" / "tables").exists()


def test_a_job_that_reads_along_and_answers_elsewhere_is_warned(first, tmp_path, caplog):
    wait_until(lambda: beats(first))
    pattern = f"other-{first.publishes}.{{vhost}}.{{user}}"
    outbound = attrs.evolve(first.config.outbound, topic=pattern)
    config = second_of(first, tmp_path / "second", outbound=outbound)
    properties = {"bootstrap.servers": first.servers}
    ours = JobMark("ours", str(tmp_path / "second" / "tables"), "", "host")
    topics = AdminClient(properties).list_topics().topics

    with caplog.at_level(logging.WARNING, "streaming.pipeline.topics.other_jobs"):
        refuse_other_job(config, ours, properties, topics)

    [warning] = [each.getMessage() for each in caplog.records if each.name.endswith("other_jobs")]
    assert "runs and reads the same topics" in warning
    assert str(first.tables) in warning
    assert ours.tables in warning


def test_a_second_job_is_warned_once_the_first_one_has_stopped(first, spark, tmp_path, caplog):
    wait_until(lambda: beats(first))
    first.stop()
    second = Job(second_of(first, tmp_path / "second"))

    with caplog.at_level(logging.WARNING, "streaming.pipeline.topics.other_jobs"):
        try:
            second.start(spark)
        finally:
            second.stop()

    [warning] = [each for each in caplog.records if each.name.endswith("other_jobs")]
    assert str(first.tables) in warning.getMessage()


def test_a_job_that_resumes_is_not_its_own_rival(first, spark, caplog):
    wait_until(lambda: beats(first))
    first.stop()

    with caplog.at_level(logging.WARNING, "streaming.pipeline.topics.other_jobs"):
        first.start(spark)

    assert [each for each in caplog.records if each.name.endswith("other_jobs")] == []


def test_several_jobs_may_map_the_same_topic(tmp_path, embedded_kafka, spark, new_topic, caplog):
    mapped = InputSettings(topic=new_topic(), mapping=TopicMapping(exchange="", routing_key="q"))
    servers = embedded_kafka.bootstrap_servers

    with caplog.at_level(logging.WARNING, "streaming.pipeline.topics.other_jobs"):
        for name in ("one", "two"):
            job = Pipeline(tmp_path / name, servers, inputs=[mapped])
            try:
                job.start(spark)
                wait_until(functools.partial(beats, job))
            finally:
                job.stop()

    assert [each for each in caplog.records if each.name.endswith("other_jobs")] == []


def run(monkeypatch, file, *options):
    monkeypatch.setattr("sys.argv", ["dlx", "run", "--config", str(file), *options])
    with pytest.raises(SystemExit) as exit_:
        main()
    return exit_.value.code


def everything(folder: Path):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("options", [(), ("--with-kafka",)], ids=["alone", "with its Kafka"])
def test_a_refused_start_leaves_nothing_behind(first, tmp_path, capsys, monkeypatch, options):
    first.stop()
    home = tmp_path / "home"
    home.mkdir()
    config = second_of(first, home / "deep" / "er")
    job = attrs.evolve(config.job, log_dir=str(home / "logs"))
    servers = (f"localhost:{free_port()}",) if options else config.kafka.bootstrap_servers
    kafka = attrs.evolve(
        config.kafka,
        bootstrap_servers=servers,
        connect_timeout_ms=500,
        replication_factor=9,  # of one broker
    )
    fresh = (InputSettings(topic="fresh"), *config.inputs[1:])
    config = attrs.evolve(config, job=job, kafka=kafka, inputs=fresh)
    (home / "dlx.toml").write_text(show_config(config))

    status = run(monkeypatch, home / "dlx.toml", *options)

    assert status == 2
    assert "replication factor" in capsys.readouterr().err
    assert everything(home) == ["dlx.toml"]
