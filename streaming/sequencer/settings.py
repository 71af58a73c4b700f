"""How a front runs, from `dlx.toml`; and the topics that it needs."""

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined] # not in its stubs

from streaming.broker.config import ShardConfig
from streaming.config import JobConfig
from streaming.config.inputs import InputSettings
from streaming.config.shards import shard_config
from streaming.kafka_offsets import quiet_admin
from streaming.log_topics import log_topic_settings, new_topic
from streaming.protocol.addressing import alive_topic
from streaming.sequencer.job_lag import NO_MARKS, LagMarks
from streaming.sequencer.log_settings import correct_logs
from streaming.storage.location import AnyPath
from topology.errors import DlxError

_CREATE_S: Final = 30
_LEADERS_MS: Final = 3_600_000


class LogTopicError(DlxError):
    """Kafka does not answer, or does not create a topic."""

    help_code = "kafka-unreachable"


@dataclass(frozen=True, kw_only=True)
class FrontSettings:
    """How a front runs.

    Attributes:
        properties: of librdkafka; may hold secrets.
        logs: vhost -> its topic.
        shards: vhost -> how its broker is configured.
        leaders_topic: where fronts say that they lead.
        name: of this front, unique.
        checkpoint: where snapshots are.
        inputs: those of the job that fronts may copy records from; `vhosts` are all of the job.
        standby: wait for the leaders to be silent, and follow again when replaced.
        accepts_loss: go on with inputs as they are, whatever is missing in them.
        takeover_ms: how long a leader is silent before a standby replaces it.
        body_bytes: messages of each vhost that are kept in memory.
        max_body_bytes, max_property_bytes: what a message may have.
        max_record_bytes: what Kafka takes of a record.
        heartbeats: vhost -> a topic with the job's heartbeats.
        lag_marks: above which lag of the job publishers wait.
        snapshot_records, snapshot_ms: a snapshot is written after so many records, and not more
            often than that.
    """

    properties: dict[str, Any]
    logs: dict[str, str]
    shards: dict[str, ShardConfig]
    leaders_topic: str
    name: str
    checkpoint: AnyPath
    inputs: tuple[InputSettings, ...] = ()
    vhosts: tuple[str, ...] = ()
    standby: bool = False
    accepts_loss: bool = False
    takeover_ms: int = 3_000
    body_bytes: int = 256 << 20
    max_body_bytes: int = 1 << 20
    max_property_bytes: int = 1 << 14
    max_record_bytes: int = 2 << 20
    heartbeats: dict[str, str] = field(default_factory=dict)
    lag_marks: LagMarks = NO_MARKS
    snapshot_records: int = 200_000
    snapshot_ms: int = 30_000


def front_settings(
    config: JobConfig,
    vhosts: list[str],
    properties: Mapping[str, str],
    checkpoint: AnyPath,
    *,
    standby: bool,
    accepts_loss: bool,
) -> FrontSettings:
    """How a front of these vhosts runs."""
    logs = config.log_topics()
    return FrontSettings(
        properties=dict(properties),
        logs={name: logs[name] for name in vhosts},
        shards={name: shard_config(config, name) for name in vhosts},
        leaders_topic=config.amqp.leaders_topic,
        name=f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
        checkpoint=checkpoint,
        inputs=tuple(each for each in config.inputs if each.may_be_copied),
        vhosts=tuple(config.vhosts),
        standby=standby,
        accepts_loss=accepts_loss,
        takeover_ms=config.amqp.takeover_ms,
        body_bytes=config.amqp.body_cache_bytes,
        max_body_bytes=config.flow.max_body_bytes,
        max_property_bytes=config.flow.max_header_bytes,
        max_record_bytes=config.kafka.max_message_bytes,
        heartbeats=_heartbeats(config, vhosts),
        lag_marks=LagMarks(config.amqp.max_lag_bytes, config.amqp.max_lag_ms / 1000),
        snapshot_records=config.amqp.snapshot_records,
    )


def with_more_vhosts(settings: FrontSettings, config: JobConfig, names: list[str]) -> FrontSettings:
    """The settings of a front that serves further vhosts, which the configuration has by now."""
    topics = config.log_topics()
    return replace(
        settings,
        logs={**settings.logs, **{name: topics[name] for name in names}},
        shards={**settings.shards, **{name: shard_config(config, name) for name in names}},
        heartbeats={**settings.heartbeats, **_heartbeats(config, names)},
        vhosts=(*settings.vhosts, *names),
    )


def without_vhost(settings: FrontSettings, name: str) -> FrontSettings:
    """The settings of a front that serves a vhost no more."""
    logs = {one: topic for one, topic in settings.logs.items() if one != name}
    vhosts = tuple(one for one in settings.vhosts if one != name)
    return replace(settings, logs=logs, vhosts=vhosts)


def _heartbeats(config: JobConfig, vhosts: list[str]) -> dict[str, str]:
    """One of the topics of each vhost in which the job says how far it is."""
    user = next(iter(config.users), None)
    if user is None:
        return {}
    return {name: alive_topic(config.outbound.topic_of(name, user)) for name in vhosts}


def prepare_topics(config: JobConfig, settings: FrontSettings) -> None:
    """Create the topics that are missing, and correct the settings of the others.

    Raises:
        LogTopicError: Kafka does not answer, or refuses.
        LogSettingsError: a log would not keep what the front writes.
    """
    admin = quiet_admin(settings.properties)
    try:
        known = admin.list_topics(timeout=config.kafka.connect_timeout_ms / 1000).topics
    except KafkaException as error:
        servers = ",".join(config.kafka.bootstrap_servers)
        raise LogTopicError(
            f"kafka.bootstrap_servers: no answer from {servers}: {error.args[0].str()}"
        ) from error
    missing: list[NewTopic] = [
        log_topic_settings(config, topic) for topic in settings.logs.values() if topic not in known
    ]
    if settings.leaders_topic not in known:
        properties = {"retention.ms": str(_LEADERS_MS)}
        missing.append(new_topic(config, settings.leaders_topic, 1, properties))
    replicas = {
        topic: max((len(each.replicas) for each in known[topic].partitions.values()), default=1)
        for topic in settings.logs.values()
        if topic in known
    }
    correct_logs(admin, config, replicas)
    if not missing:
        return
    for name, future in admin.create_topics(missing, request_timeout=_CREATE_S).items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise LogTopicError(
                    f"the topic {name} cannot be created: {error.args[0].str()}"
                ) from error
