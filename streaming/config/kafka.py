"""`[kafka]`: the cluster, how to log on to it, and how our own topics are made."""

import re
from typing import Annotated, Final

import msgspec

from streaming.config.errors import Place
from streaming.config.outbound import MAX_PARTITIONS
from streaming.config.pass_through import Properties, name_rule
from streaming.config.secrets import Property
from streaming.config.sections import Section
from streaming.config.settings import Setting
from streaming.config.toml import kind_of, write_string
from streaming.config.types import HOUR_MS, milliseconds, name_fault, size, text, whole

BROKER_DEFAULT: Final = -1
"""Kafka's way of leaving a topic's replication factor to the cluster."""

_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_MAX_PORT: Final = 65_535
_JOB_SETS: Final = "is set by the job"
_RESERVED: Final = {
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
_SECURITY_HINTS: Final = {
    "protocol": "is written as security.protocol inside the table [kafka.security]",
    "sasl.mechanisms": "is written as sasl.mechanism",
    "sasl.jaas.config": "is the JVM client's: write sasl.username and sasl.password here, or put "
    "it in kafka.jvm_properties",
    "sasl.oauthbearer.": "differs between the clients: put it in kafka.jvm_properties and "
    "kafka.librdkafka_properties, each in its client's words",
    "ssl.truststore.": "is the JVM client's: write ssl.ca.location here, or put it in "
    "kafka.jvm_properties",
    "ssl.keystore.": "is the JVM client's: write ssl.certificate.location and ssl.key.location "
    "here, or put it in kafka.jvm_properties",
}


def _address_fault(address: str) -> str | None:
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return "must be HOST:PORT"
    return None if 1 <= int(found["port"]) <= _MAX_PORT else f"has no port from 1 to {_MAX_PORT}"


class Servers:
    """The kind of `bootstrap_servers`: an array of addresses, or one string with commas."""

    def read(self, raw: object, place: Place) -> tuple[str, ...] | None:
        """The addresses."""
        members = raw.split(",") if isinstance(raw, str) else raw
        if not isinstance(members, list | tuple):
            place.report(f"expected an array of strings, got {kind_of(raw)}")
            return None
        reported = len(place.problems)
        servers = []
        for position, member in enumerate(members):
            if isinstance(member, str):
                servers.append(member.strip())
            else:
                place.index(position).report(f"expected a string, got {kind_of(member)}")
        if len(place.problems) == reported:
            self.check(tuple(servers), place)
        return tuple(servers) if len(place.problems) == reported else None

    def check(self, value: object, place: Place) -> None:
        """Check each address, and that there is one."""
        assert isinstance(value, tuple)
        if not value:
            place.report("is empty: name at least one server")
        for position, address in enumerate(value):
            fault = _address_fault(address)
            if fault is not None:
                place.index(position).report(fault)

    def write(self, value: object) -> str:
        """The addresses as a TOML array."""
        assert isinstance(value, tuple)
        return f"[{', '.join(write_string(address) for address in value)}]"


class KafkaSettings(Section, frozen=True, kw_only=True):
    """The Kafka cluster."""

    bootstrap_servers: Annotated[
        tuple[str, ...], Setting(Servers(), "Some of the cluster's brokers, HOST:PORT.")
    ] = ("localhost:9092",)
    client_id: Annotated[
        str, Setting(text(name_fault), "What the brokers' logs and quotas call this job.")
    ] = "dlx"
    connect_timeout_ms: Annotated[
        int,
        Setting(
            milliseconds(100, HOUR_MS),
            "How long to wait for an answer before saying that Kafka cannot be reached.",
        ),
    ] = 5_000
    topic_partitions: Annotated[
        int | None,
        Setting(
            whole(1, MAX_PARTITIONS),
            "Partitions of the inputs that the job makes. Not set: as many as give each lane of "
            "each vhost the same share; with one lane a single one, whose order is the order.",
            example="4",
        ),
    ] = None
    replication_factor: Annotated[
        int,
        Setting(
            whole(BROKER_DEFAULT, 32_767),
            "Replicas of the topics that the job makes; -1: default.replication.factor of the "
            "cluster.",
        ),
    ] = BROKER_DEFAULT
    max_message_bytes: Annotated[
        int,
        Setting(
            size(65_536, 1_073_741_824),
            "max.message.bytes of the inputs that the job makes. It leaves room above "
            "flow.max_body_bytes for headers; outbound topics have 64 KiB more, and at least "
            "1 MiB above the body for the death history that messages gather.",
        ),
    ] = 2_097_152
    trim_interval_ms: Annotated[
        int,
        Setting(
            milliseconds(),
            "How often records that the job has read, and whose messages have left all queues, are "
            "deleted from its own inputs. Only from topics with retention.ms = -1, as the job "
            "makes them, and only with clock = wall; 0: never.",
        ),
    ] = 600_000
    security: Annotated[
        dict[str, Property],
        Setting(
            Properties(name_rule(("security.protocol", "sasl.", "ssl."), _SECURITY_HINTS)),
            "How to log on, for all clients, in the words of librdkafka: security.protocol, "
            "sasl.mechanism, sasl.username, sasl.password, ssl.ca.location, "
            "ssl.certificate.location, ssl.key.location, ssl.key.password. They are translated for "
            'the JVM client. Secrets: sasl.password = { env = "KAFKA_PASSWORD" } or '
            '{ file = "path" }.',
        ),
    ] = msgspec.field(default_factory=dict)
    jvm_properties: Annotated[
        dict[str, Property],
        Setting(
            Properties(name_rule(hints=_RESERVED)),
            "Further properties of the JVM client alone (Spark reads with it).",
        ),
    ] = msgspec.field(default_factory=dict)
    librdkafka_properties: Annotated[
        dict[str, Property],
        Setting(
            Properties(name_rule(hints=_RESERVED)),
            "Further properties of librdkafka alone (the job writes, and clients work, with it).",
        ),
    ] = msgspec.field(default_factory=dict)

    def check_together(self, place: Place) -> None:
        """Kafka knows no factor of 0."""
        if self.replication_factor == 0:
            place.key("replication_factor").report("must be -1, or 1 or more")
