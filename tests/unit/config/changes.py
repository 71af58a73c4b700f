"""One change to every setting there is, for tests that ask what a change does."""

from attrs import evolve

from streaming.config import (
    Absolute,
    InputSettings,
    JobConfig,
    JsonValue,
    RecordField,
    RecordHeader,
    RecordKey,
    TopicMapping,
    UserSettings,
    VhostSettings,
)
from streaming.config.types import Kind, Section

BASE = JobConfig(
    vhosts={"/": VhostSettings(), "shop": VhostSettings()},
    users={"guest": UserSettings(administrator=True), "alice": UserSettings()},
    inputs=(
        InputSettings(topic="dlx.publishes"),
        InputSettings(topic="dlx.commands", source="commands"),
        InputSettings(topic="more"),
        InputSettings(topic="foreign", mapping=TopicMapping(exchange="x")),
    ),
)

CHANGES: dict[str, object] = {
    "job.checkpoint_location": "elsewhere",
    "job.tables_location": "s3://bucket/tables",
    "job.shared_mount": "/mnt/dlx",
    "job.lease_ms": 5_000,
    "job.storage": ("s3",),
    "job.log_dir": "elsewhere",
    "job.clock": "event",
    "job.compat": "3.10",
    "job.trigger_ms": 200,
    "job.max_batch_rows": 10,
    "job.master": "local[2]",
    "job.executor_python": "python3.12",
    "job.executor_packages": "shipped",
    "job.driver_memory": "4g",
    "job.shuffle_partitions": 7,
    "job.spark_properties": {"spark.ui.enabled": "false"},
    "kafka.bootstrap_servers": ("other:9092",),
    "kafka.client_id": "other",
    "kafka.connect_timeout_ms": 100,
    "kafka.topic_partitions": 8,
    "kafka.replication_factor": 3,
    "kafka.trim_interval_ms": 0,
    "kafka.max_message_bytes": 3_000_000,
    "kafka.security": {"security.protocol": "SSL"},
    "kafka.jvm_properties": {"reconnect.backoff.ms": "50"},
    "kafka.librdkafka_properties": {"debug": "all"},
    "vhosts.shop.lanes": 2,
    "vhosts.shop.lane_by": "routing_key",
    "vhosts.shop.sequenced": True,
    "vhosts.shop.definitions": "definitions.json",
    "vhosts.shop.default_delivery_limit": 5,
    "vhosts.shop.consumer_timeout_ms": 0,
    "users.alice.administrator": True,
    "users.alice.impersonator": True,
    "inputs[2].topic": "other",
    "inputs[2].source": "commands",
    "inputs[2].user": "alice",
    "inputs[2].partitions": 8,
    "inputs[3].mapping": None,
    "inputs[3].mapping.vhost": "shop",
    "inputs[3].mapping.exchange": RecordKey(),
    "inputs[3].mapping.routing_key": "k",
    "inputs[3].mapping.message_id": JsonValue("$.id"),
    "inputs[3].mapping.timestamp": RecordField("timestamp"),
    "inputs[3].mapping.headers": {"tenant": RecordHeader("tenant", optional=True)},
    "outbound.topic": "out.{vhost}.{user}",
    "outbound.partitions": 2,
    "outbound.retention_ms": 100_000,
    "outbound.dead_letters.topic": "letters",
    "outbound.dead_letters.partitions": 2,
    "outbound.dead_letters.retention_ms": 100_000,
    "amqp.log_topic": "log.{vhost}",
    "flow.vm_memory_high_watermark": Absolute(64_000_000),
    "flow.low_mark_fraction": 0.5,
    "flow.max_body_bytes": 100,
    "flow.max_header_bytes": 2_000,
    "tables.query_memory_bytes": 268_435_456,
    "tables.contents_lag_ms": 1_000,
    "tables.compaction_interval_ms": 1_000,
    "tables.compaction_target_bytes": 2_000_000,
    "tables.checkpoint_interval_commits": 10,
    "tables.log_retention_ms": 100_000,
    "tables.vacuum_interval_ms": 1_000,
    "tables.vacuum_retention_ms": 100_000,
    "tables.storage_options": {"AWS_REGION": "eu-central-1"},
}


def with_change(path: str) -> JobConfig:
    """BASE with one setting changed."""
    changed = _changed(BASE, path.replace("[", ".").replace("]", "").split("."), CHANGES[path])
    assert isinstance(changed, JobConfig)
    return changed


def _changed(value: object, path: list[str], new: object) -> object:
    if not path:
        return new
    first, *rest = path
    match value:
        case dict():
            return value | {first: _changed(value[first], rest, new)}
        case tuple():
            at = int(first)
            return (*value[:at], _changed(value[at], rest, new), *value[at + 1 :])
        case _:
            assert isinstance(value, Section)
            return evolve(value, **{first: _changed(getattr(value, first), rest, new)})


def section_class_of(kind: Kind) -> type[Section]:
    """The table behind a setting that is one."""
    assert kind.section_class is not None
    return kind.section_class
