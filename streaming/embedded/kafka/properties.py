"""What the embedded broker is told: one node, one user, little memory, nothing thrown away."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from streaming.embedded.jvm.java import Java
from streaming.embedded.kafka.ports import LOOPBACK

NODE_ID = 1
LOG_CONFIGURATION = Path(__file__).parents[1] / "jvm" / "log4j2.properties"
UNSAFE_WARNS_SINCE = 23
"""The Java major version since which a JVM complains about what Kafka does to unmap files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """How much the broker uses, takes and keeps.

    Attributes:
        heap_mb: the JVM's heap; 512 carries the demo and the tests, 256 is the least that starts.
        max_message_bytes: largest record batch, and thus record; a topic may set its own.
        retention_ms: age at which closed segments go, -1 never. Topics that dlx makes set theirs.
        segment_bytes: size at which a segment is closed; what is trimmed goes by whole segments.
        properties: any broker property by its Kafka name; these win over all others.
    """

    heap_mb: int = 512
    max_message_bytes: int = 16 * 1024 * 1024
    retention_ms: int = -1
    segment_bytes: int = 128 * 1024 * 1024
    properties: Mapping[str, str] = field(default_factory=dict)


def broker_properties(
    limits: BrokerLimits, *, port: int, controller_port: int, data_dir: Path
) -> dict[str, str]:
    """The broker's properties file, by name."""
    return {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@{LOOPBACK}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "log.dirs": str(data_dir),
        # A misspelt topic should be an error, not a topic.
        "auto.create.topics.enable": "false",
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # 50 partitions each serve large clusters; here they only cost files and start time.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "1",
        "message.max.bytes": str(limits.max_message_bytes),
        "replica.fetch.max.bytes": str(limits.max_message_bytes),
        "fetch.max.bytes": str(max(57_671_680, limits.max_message_bytes)),
        "socket.request.max.bytes": str(max(104_857_600, 2 * limits.max_message_bytes)),
        "log.retention.ms": str(limits.retention_ms),
        "log.segment.bytes": str(limits.segment_bytes),
        # A group that was away for a holiday still knows where it was.
        "offsets.retention.minutes": str(366 * 24 * 60),
        # After a crash the controller waits this long for the broker that is no more: else 9 s.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        # A consumer alone need not wait for company.
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        # 128 MB of the heap otherwise.
        "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
        # Otherwise the idle controller writes two records a second for ever.
        "metadata.max.idle.interval.ms": "0",
        **limits.properties,
    }


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file."""
    lines = (f"{name}={_escape(value)}\n" for name, value in properties.items())
    path.write_text("".join(lines), "utf-8")


def _escape(value: str) -> str:
    """A value as Java reads it back: folders may have a backslash or letters outside Latin-1."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n")
    return "".join(
        character
        if character.isascii()
        else "".join(
            f"\\u{unit:04x}" for unit in memoryview(character.encode("utf-16-le")).cast("H")
        )
        for character in text
    )


def java_command(
    java: Java, jars: list[Path], main_class: str, *arguments: str, options: tuple[str, ...] = ()
) -> list[str]:
    """The command line that runs a class of Kafka's."""
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
        "-XX:+ExitOnOutOfMemoryError",  # a broker that half works is worse than one that ended
        f"-Ddlx.log.file={log_file}",
        "-Ddlx.log.level=info",
    )
