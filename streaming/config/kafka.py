"""`[kafka]`: the cluster, how to log on to it, and how the job creates its own topics."""

import re
from collections.abc import Iterator
from typing import Any, Final

import attrs

from streaming.config import types
from streaming.config.secrets import Property, properties
from topology.errors import Problem

BROKER_DEFAULT: Final = -1
"""Leaves a topic's replication factor to the cluster, as in Kafka itself."""

_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_MAX_PORT: Final = 65_535
_JOB_SETS: Final = "is set by the job"
_REFUSED_PROPERTIES: Final = {
    "bootstrap.servers": "is written as kafka.bootstrap_servers",
    "metadata.broker.list": "is written as kafka.bootstrap_servers",
    "client.id": "is written as kafka.client_id",
    "message.max.bytes": "is written as kafka.max_message_bytes",
    "max.request.size": "is written as kafka.max_message_bytes",
    "group.id": _JOB_SETS,
    "isolation.level": _JOB_SETS,
    "enable.auto.": _JOB_SETS,
    "auto.offset.reset": _JOB_SETS,
    "key.": _JOB_SETS,
    "value.": _JOB_SETS,
    "transactional.id": _JOB_SETS,
    "enable.idempotence": _JOB_SETS,
    "acks": _JOB_SETS,
    "request.required.acks": _JOB_SETS,
}
_REFUSED_SECURITY: Final = {
    "protocol": "is written as security.protocol inside the table [kafka.security]",
    "sasl.mechanisms": "is written as sasl.mechanism",
    "sasl.jaas.config": "is a property of the JVM client: write sasl.username and sasl.password "
    "here, or put it in kafka.jvm_properties",
    "sasl.oauthbearer.": "differs between the clients: put it in kafka.jvm_properties and "
    "kafka.librdkafka_properties, each with its own names",
    "ssl.truststore.": "is a property of the JVM client: write ssl.ca.location here, or put it in "
    "kafka.jvm_properties",
    "ssl.keystore.": "is a property of the JVM client: write ssl.certificate.location and "
    "ssl.key.location here, or put it in kafka.jvm_properties",
}


def _read_servers(raw: Any) -> tuple[str, ...]:
    """An array of addresses, or one string with commas."""
    members = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(members, list | tuple):
        raise types.invalid(f"expected an array of strings, got {types.kind_of(raw)}")
    if not members:
        raise types.invalid("is empty: name at least one server")
    faults = [_address_fault(member) for member in members]
    types.refuse(
        Problem(types.join_index("", n), what) for n, what in enumerate(faults) if what is not None
    )
    return tuple(member.strip() for member in members)


def _address_fault(address: object) -> str | None:
    if not isinstance(address, str):
        return f"expected a string, got {types.kind_of(address)}"
    found = _ADDRESS.fullmatch(address.strip())
    if found is None:
        return "must be HOST:PORT"
    return None if 1 <= int(found["port"]) <= _MAX_PORT else f"needs a port from 1 to {_MAX_PORT}"


@attrs.frozen(kw_only=True)
class KafkaSettings(types.Section):
    """The Kafka cluster."""

    bootstrap_servers: tuple[str, ...] = types.setting(
        ("localhost:9092",),
        "One or more of the cluster's brokers, as HOST:PORT.",
        types.Kind("an array of strings", _read_servers, "HOST:PORT each"),
    )
    client_id: str = types.setting(
        "dlx", "The job's name in the brokers' logs and quotas.", types.text(types.name_fault)
    )
    connect_timeout_ms: int = types.setting(
        5_000,
        "How long to wait for a reply before reporting that Kafka cannot be reached.",
        types.milliseconds(100, types.HOUR_MS),
    )
    topic_partitions: int | None = types.setting(
        None,
        "Number of partitions of the input topics that the job creates. Not set: the lowest "
        "number that gives each lane of each vhost the same share. With one lane this is a single "
        "partition, which keeps all records in order.",
        types.whole(1, types.MAX_PARTITIONS),
        example="4",
    )
    replication_factor: int = types.setting(
        BROKER_DEFAULT,
        "Number of replicas of the topics that the job creates. -1: the cluster's "
        "default.replication.factor.",
        types.whole(BROKER_DEFAULT, 32_767),
    )
    max_message_bytes: int = types.setting(
        2_097_152,
        "max.message.bytes of the input topics that the job creates. It leaves room above "
        "flow.max_body_bytes for headers. Outbound topics get 64 KiB more, and at least 1 MiB "
        "above the body for the death history that messages collect.",
        types.size(65_536, 1_073_741_824),
    )
    trim_interval_ms: int = types.setting(
        600_000,
        "How often the job deletes records from its own input topics, once it has read them and "
        "their messages have left all queues. Only for topics with retention.ms = -1, as the job "
        "creates them, and only with clock = wall. 0: never.",
        types.milliseconds(),
    )
    security: dict[str, Property] = types.setting(
        {},
        "How all clients log on, with librdkafka's names: security.protocol, sasl.mechanism, "
        "sasl.username, sasl.password, ssl.ca.location, ssl.certificate.location, "
        "ssl.key.location, ssl.key.password. They are translated for the JVM client. Secrets: "
        'sasl.password = { env = "KAFKA_PASSWORD" } or { file = "path" }.',
        properties(("security.protocol", "sasl.", "ssl."), _REFUSED_SECURITY),
    )
    jvm_properties: dict[str, Property] = types.setting(
        {},
        "Further properties of the JVM client only, with which Spark reads.",
        properties(refused=_REFUSED_PROPERTIES),
    )
    librdkafka_properties: dict[str, Property] = types.setting(
        {},
        "Further properties of librdkafka only, with which the job writes and clients work.",
        properties(refused=_REFUSED_PROPERTIES),
    )

    def contradictions(self) -> Iterator[Problem]:
        """Kafka has no replication factor of 0."""
        if self.replication_factor == 0:
            yield Problem("replication_factor", "must be -1, or 1 or more")
