# ruff: noqa: INP001, PLC0415 (a script; each check imports what it needs)
"""The health checks of docker-compose.yml.

    health.py job|front|traffic|tables CONFIG

    job      the job says at /readyz that its stream makes progress
    front    the AMQP front says at /readyz that clients can come
    traffic  a message was published within the last minute
    tables   the tables exist

Exit status: 0 if healthy, 1 if not; stdout then says why.
"""

import os
import sys
import time
import tomllib
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a check runs every few seconds: it imports what it needs and nothing else
    from confluent_kafka.admin import AdminClient

    from streaming.config import JobConfig

ANSWER_TIMEOUT_S = 4
RECENT_S = 60
FRONT_PORT = 15_692


def port_of(what: str, config_file: Path) -> int:
    """The port at which the job or the front answers."""
    config = tomllib.loads(config_file.read_text("utf-8"))
    if what == "job":
        return int(config["metrics"]["listen"].rpartition(":")[2])
    return int(config.get("amqp", {}).get("metrics_port", FRONT_PORT))


def not_ready(what: str, config_file: Path) -> Iterator[str]:
    """What the job or the front says at /readyz, if it is not ready."""
    port = port_of(what, config_file)
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace").strip()
        if answer.status != 200:  # noqa: PLR2004 - OK
            yield said
    except (OSError, HTTPException) as error:
        yield f"the {what} does not answer: {error}"
    finally:
        connection.close()


def missing_table(config: "JobConfig") -> Iterator[str]:
    """The table `events`, if the job has not created it yet."""
    from deltalake import DeltaTable

    from streaming.config import reveal

    options = reveal(config.tables.storage_options, "tables.storage_options", os.environ)
    url = f"{config.job.tables_location}/events"
    if not DeltaTable.is_deltatable(url, options):
        yield f"there is no table {url}"


def no_recent_publish(config: "JobConfig") -> Iterator[str]:
    """One line if nothing was published recently.

    Raises:
        KafkaException: Kafka does not answer, or there is no such topic.
    """
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # not in its stubs

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


def client(config: "JobConfig") -> "AdminClient":
    """The configured admin client of Kafka, without librdkafka's own log."""
    from confluent_kafka.admin import AdminClient

    from streaming.config import librdkafka_properties

    return AdminClient({**librdkafka_properties(config.kafka, os.environ), "log_level": 0})


CHECKS = {"traffic": no_recent_publish, "tables": missing_table}
"""The checks that need the whole configuration."""

ASKED = ("job", "front")
"""The checks that ask a program itself."""


def faults(what: str, config_file: Path) -> Iterator[str]:
    """The problems of a container."""
    if what in ASKED:
        yield from not_ready(what, config_file)
        return
    from confluent_kafka import KafkaException

    from streaming.config import load_config

    try:
        yield from CHECKS[what](load_config(config_file))
    except KafkaException as failure:
        yield f"Kafka: {failure.args[0].str()}"


def main(what: str, config_file: str) -> int:
    """Run the checks of a container and print their problems."""
    found = list(faults(what, Path(config_file)))
    print(*found, sep="\n", end="\n" if found else "")  # noqa: T201 (Docker keeps the output)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
