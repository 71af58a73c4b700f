"""Refuses to start beside another job that works with the same topics.

Two jobs on the same topics would both take every message, each into its own tables, and both would
answer their clients. Every heartbeat says which job sent it and which topics that job uses, so the
last heartbeats in Kafka show who else there is:

    none of another job               --> start
    another one follows within 5 s    --> that job runs: refuse if both would answer on the same
                                          outbound topics, otherwise warn: it may be a replay
    of another job that stays silent  --> warn: what it has read is in its tables

The checkpoint's lock keeps a second job with the same checkpoint away; that one is not looked for.
Topics with a mapping belong to others, and any number of jobs may read them.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.config import JobConfig
from streaming.kafka_offsets import next_offsets
from streaming.protocol.addressing import ALIVE_SUFFIX, JobAddress, JobMark, alive_topic
from topology.errors import DlxError

WATCH_S: Final = 5.0
"""Several intervals of the heartbeat."""

FORGOTTEN_MS: Final = 3_600_000
"""A job whose last heartbeat is this old does not run."""

_POLL_S: Final = 0.2
_TIMEOUT_S: Final = 30

logger = logging.getLogger(__name__)


class OtherJobError(DlxError):
    """Another job works with the same topics."""

    help_code = "other-job"


class BatchMark(msgspec.Struct, frozen=True):
    """What a heartbeat says of the batches; see `pipeline.flow.heartbeat`."""

    id: int | None = None
    age_ms: int | None = None
    running_ms: int | None = None


class _Heartbeat(msgspec.Struct):
    """The part of a heartbeat that says whose it is."""

    address: JobAddress
    job: JobMark
    batch: BatchMark


def last_batch_mark(config: JobConfig, properties: Mapping[str, str]) -> BatchMark | None:
    """Return what the last heartbeat of a configured job says of its batches; None without one.

    Raises:
        KafkaException: Kafka does not answer.
    """
    outbound = next(iter(config.outbound_topics().values()))
    admin = AdminClient({**properties, "log_level": 0})
    ends = _ends(admin, [alive_topic(outbound)])
    found = _last_heartbeats(properties, ends).values()
    return next((each.batch for each in found), None)


def refuse_other_job(
    config: JobConfig, ours: JobMark, properties: Mapping[str, str], topics: Iterable[str]
) -> None:
    """Refuse to start if another job answers on this one's topics; warn if one reads the same.

    Args:
        ours: the mark of this job.
        properties: librdkafka's.
        topics: all topics that exist.

    Raises:
        OtherJobError: another job runs with the same outbound topics.
    """
    own = _own_topics(config)
    watched = [name for name in topics if name.endswith(ALIVE_SUFFIX)]
    admin = AdminClient({**properties, "log_level": 0})
    ends = _ends(admin, watched)
    others = {
        topic: heartbeat
        for topic, heartbeat in _last_heartbeats(properties, ends).items()
        if heartbeat.job.id != ours.id and _topics_of(heartbeat, topic) & own
    }
    if not others:
        return
    running = _running(admin, others, ends)
    outbound = {*config.outbound_topics().values()}
    for topic, heartbeat in others.items():
        shared = _topics_of(heartbeat, topic) & own
        if topic in running and shared & outbound:
            raise OtherJobError(_refusal(config, heartbeat.job, shared))
    for mark in sorted({heartbeat.job for heartbeat in others.values()}, key=lambda each: each.id):
        runs = any(others[topic].job == mark for topic in running)
        if runs or mark.tables != ours.tables:
            logger.warning(
                "another job %s: %s. What it has read is in its tables; this job writes to %s",
                "runs and reads the same topics" if runs else "read these topics before",
                mark.place,
                ours.tables,
            )


def _running(admin: Any, others: Mapping[str, Any], ends: Mapping[str, int]) -> set[str]:
    """The topics to which a heartbeat was added while we watched."""
    found: set[str] = set()
    deadline_s = time.monotonic() + WATCH_S
    while time.monotonic() < deadline_s and len(found) < len(others):
        time.sleep(_POLL_S)
        now = _ends(admin, list(others))
        found |= {topic for topic in others if now.get(topic, 0) > ends[topic]}
    return found


def _refusal(config: JobConfig, other: JobMark, shared: Iterable[str]) -> str:
    names = ", ".join(sorted(shared))
    return (
        f"inputs: another job runs and works with the same topics ({names}): {other.place}. This "
        f"one would take every message a second time, into {config.job.tables_location}, and both "
        "would answer. Stop the other job, or set inputs.topic and outbound.topic to other topics"
    )


def _own_topics(config: JobConfig) -> set[str]:
    inputs = {each.topic for each in config.inputs if each.mapping is None}
    return inputs | {*config.log_topics().values()} | {*config.outbound_topics().values()}


def _topics_of(heartbeat: _Heartbeat, topic: str) -> set[str]:
    """The topics of the job that sent a heartbeat."""
    address = heartbeat.address
    named = (address.commands, address.publishes, address.transactions)
    return {topic.removesuffix(ALIVE_SUFFIX), *(name for name in named if name)}


def _ends(admin: Any, topics: list[str]) -> dict[str, int]:
    """The next offset of each topic of heartbeats that this user may read."""
    answers = next_offsets(admin, ((topic, 0) for topic in topics), _TIMEOUT_S, WATCH_S)
    return {  # without those that are forbidden, or were just deleted
        topic: offset for (topic, _partition), offset in answers.items() if isinstance(offset, int)
    }


def _last_heartbeats(
    properties: Mapping[str, str], ends: Mapping[str, int]
) -> dict[str, _Heartbeat]:
    """The last heartbeat of each topic, unless it is very old."""
    waiting = {topic for topic, end in ends.items() if end > 0}
    found: dict[str, _Heartbeat] = {}
    if not waiting:
        return found
    settings: dict[str, Any] = {
        **properties,
        "group.id": "dlx-start",  # required, but never joined
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    settings.pop("message.max.bytes", None)  # known to producers only
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, ends[topic] - 1) for topic in sorted(waiting)])
        deadline_s = time.monotonic() + WATCH_S
        while waiting and time.monotonic() < deadline_s:
            record = consumer.poll(_POLL_S)
            if record is None or record.topic() not in waiting:
                continue
            topic = str(record.topic())
            waiting.discard(topic)
            age_ms = time.time_ns() // 1_000_000 - record.timestamp()[1]
            if record.error() is None and age_ms < FORGOTTEN_MS:
                try:
                    found[topic] = msgspec.json.decode(record.value() or b"", type=_Heartbeat)
                except msgspec.MsgspecError:
                    continue  # not a heartbeat
    finally:
        consumer.close()
    return found
