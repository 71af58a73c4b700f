# ruff: noqa: INP001 (a script, not a module of a package)
"""The health checks of docker-compose.yml.

    health.py job|traffic|tables CONFIG

    job      Kafka answers and has the topics that clients write to; the tables exist
    traffic  a message was published within the last minute
    tables   the tables exist

Exit status: 0 if healthy, 1 if not; stdout then says why.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined] # not in its stubs
from deltalake import DeltaTable

from streaming.config import JobConfig, librdkafka_properties, load_config, reveal

ANSWER_TIMEOUT_S = 5
RECENT_S = 60


def missing_table(config: JobConfig) -> Iterator[str]:
    """The table `events`, if the job has not created it yet."""
    options = reveal(config.tables.storage_options, "tables.storage_options", os.environ)
    url = f"{config.job.tables_location}/events"
    if not DeltaTable.is_deltatable(url, options):
        yield f"there is no table {url}"


def missing_topics(config: JobConfig) -> Iterator[str]:
    """The input topics that Kafka does not have.

    Raises:
        KafkaException: Kafka does not answer.
    """
    known = client(config).list_topics(timeout=ANSWER_TIMEOUT_S).topics
    for each in config.inputs:
        if each.topic not in known:
            yield f"there is no topic {each.topic}"


def no_recent_publish(config: JobConfig) -> Iterator[str]:
    """One line if nothing was published recently.

    Raises:
        KafkaException: Kafka does not answer, or there is no such topic.
    """
    kafka = client(config)
    topics = kafka.list_topics(timeout=ANSWER_TIMEOUT_S).topics
    newest = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call] # has no types
    wanted = {
        TopicPartition(each.topic, partition): newest
        for each in config.inputs
        if each.source == "publishes" and each.topic in topics
        for partition in topics[each.topic].partitions
    }
    asked = kafka.list_offsets(wanted, request_timeout=ANSWER_TIMEOUT_S) if wanted else {}
    newest_ms = max((answer.result().timestamp for answer in asked.values()), default=-1)
    age_s = time.time() - newest_ms / 1000
    if newest_ms < 0:
        yield "nothing was published yet"
    elif age_s > RECENT_S:
        yield f"nothing was published for {age_s:.0f} s"


def client(config: JobConfig) -> AdminClient:
    """The configured admin client of Kafka, without librdkafka's own log."""
    return AdminClient({**librdkafka_properties(config.kafka, os.environ), "log_level": 0})


CHECKS: dict[str, tuple[Callable[[JobConfig], Iterator[str]], ...]] = {
    "job": (missing_topics, missing_table),
    "traffic": (no_recent_publish,),
    "tables": (missing_table,),
}


def main(what: str, config_file: str) -> int:
    """Run the checks of a container and print their problems."""
    config = load_config(Path(config_file))
    try:
        faults = [fault for check in CHECKS[what] for fault in check(config)]
    except KafkaException as failure:
        faults = [f"Kafka: {failure.args[0].str()}"]
    print(*faults, sep="\n", end="\n" if faults else "")  # noqa: T201 (Docker keeps the output)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
