"""The configuration of the embedded broker: one node, one user, little memory, no retention."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from streaming.embedded.jvm.java import Java
from streaming.embedded.kafka.ports import LOOPBACK, Ports

NODE_ID = 1
LOG_CONFIGURATION = Path(__file__).parents[1] / "jvm" / "log4j2.properties"
UNSAFE_WARNS_SINCE = 23
"""The Java major version since which the JVM warns about how Kafka unmaps files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """The broker's limits of memory, record size and retention.

    Attributes:
        heap_mb: heap of the JVM; 512 is enough for the demo and the tests, 256 is the minimum.
        max_message_bytes: largest record batch, and thus record; a topic may set its own.
        retention_ms: age at which closed segments are deleted, -1: never. dlx sets its topics' own.
        segment_bytes: size at which a segment is closed; trimming deletes whole segments.
        properties: any broker property by its Kafka name; these override all others.
    """

    heap_mb: int = 512
    max_message_bytes: int = 16 * 1024 * 1024
    retention_ms: int = -1
    segment_bytes: int = 128 * 1024 * 1024
    properties: Mapping[str, str] = field(default_factory=dict)


def broker_properties(limits: BrokerLimits, ports: Ports, data_dir: Path) -> dict[str, str]:
    """The properties of the broker by name."""
    clients = f"PLAINTEXT://{LOOPBACK}:{ports.port}"
    return {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@{LOOPBACK}:{ports.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": f"{clients},CONTROLLER://{LOOPBACK}:{ports.controller_port}",
        "advertised.listeners": clients,
        "log.dirs": str(data_dir),
        # A misspelt topic must be an error, not a new topic.
        "auto.create.topics.enable": "false",
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # The default of 50 partitions is for large clusters; it costs files and start time.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "1",
        "message.max.bytes": str(limits.max_message_bytes),
        "replica.fetch.max.bytes": str(limits.max_message_bytes),
        "fetch.max.bytes": str(max(57_671_680, limits.max_message_bytes)),
        "socket.request.max.bytes": str(max(104_857_600, 2 * limits.max_message_bytes)),
        "log.retention.ms": str(limits.retention_ms),
        "log.segment.bytes": str(limits.segment_bytes),
        # A consumer group resumes even after months.
        "offsets.retention.minutes": str(366 * 24 * 60),
        # How long the controller waits for a crashed broker; default 9 s.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        # A single consumer need not wait for others.
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        # The default takes 128 MB of the heap.
        "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
        # Otherwise an idle controller writes two records per second.
        "metadata.max.idle.interval.ms": "0",
        **limits.properties,
    }


def java_command(
    java: Java, jars: list[Path], main_class: str, *arguments: str, options: tuple[str, ...] = ()
) -> list[str]:
    """The command line that runs a class of Kafka."""
    quiet = java.major >= UNSAFE_WARNS_SINCE
    return [
        str(java.executable),
        "-XX:+UseSerialGC",  # one small heap: the other collectors cost memory and threads
        "-XX:-UsePerfData",  # leaves no file in /tmp when killed
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}",
        *(("--sun-misc-unsafe-memory-access=allow",) if quiet else ()),
        *options,
        "-cp",
        ":".join(map(str, jars)),
        main_class,
        *arguments,
    ]


def broker_options(limits: BrokerLimits, log_file: Path) -> tuple[str, ...]:
    """The JVM options of the broker itself."""
    return (
        f"-Xmx{limits.heap_mb}m",
        "-XX:+ExitOnOutOfMemoryError",  # after such an error a broker works unreliably
        f"-Ddlx.log.file={log_file}",
        "-Ddlx.log.level=info",
    )
