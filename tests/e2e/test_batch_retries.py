"""A batch that fails because Kafka is gone: the job tries again, and nothing is lost."""

from pathlib import Path

import attrs
import pytest

from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.pipeline.checkpoint.job_state import read_failing
from streaming.pipeline.job import Job
from streaming.pipeline.reports import BatchDone
from tests.fixtures.jobs import RunningJob
from tests.fixtures.waiting import wait_until

IMPATIENT = {
    "default.api.timeout.ms": "4000",
    "request.timeout.ms": "3000",
    "reconnect.backoff.max.ms": "200",
}


@pytest.mark.long
def test_a_job_survives_a_kafka_that_is_gone_longer_than_a_batch_waits(
    spark, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    batches: list[BatchDone] = []
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        running = RunningJob(tmp_path, kafka.bootstrap_servers)
        impatient = attrs.evolve(running.config.kafka, jvm_properties={**IMPATIENT})
        running.config = attrs.evolve(running.config, kafka=impatient)
        job = Job(running.config, batches.append)
        try:
            job.start(spark)
            with running.connect() as connection:
                connection.channel().declare_queue("work")
                kafka.kill()
                wait_until(lambda: job.wait(0.1) or "attempt 2" in caplog.text, lambda: caplog.text)
                failing = read_failing(job.checkpoint.path)
                kafka.start()
                seen = len(batches)
                wait_until(lambda: job.wait(0.1) or len(batches) > seen, lambda: caplog.text)
                wait_until(lambda: read_failing(job.checkpoint.path) is None)

                connection.publisher().publish("", "work", b"after")
                found: list[bytes] = []

                def arrived() -> bool:
                    assert not job.wait(0.1)
                    found.extend(each.body for each in connection.channel().get_many("work", 1))
                    return bool(found)

                wait_until(arrived)
        finally:
            job.stop()

    assert found == [b"after"]
    assert failing is not None
    assert (failing.cause, failing.attempts) == ("Kafka", 1)
    assert failing.next_ms is not None
    assert failing.said in caplog.text
