"""The whole of `dlx.toml` as one value.

Only the command line reads environment variables and flags; everything else gets a `JobConfig`.
"""

from collections.abc import Iterator

import attrs

from streaming.config.alerts import AlertSettings
from streaming.config.amqp import AmqpSettings, log_topic
from streaming.config.console import ConsoleSettings
from streaming.config.flow import FlowSettings
from streaming.config.inputs import InputSettings
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.metrics import MetricsSettings
from streaming.config.outbound import OutboundSettings
from streaming.config.rules import Parts, conflicts, even_partitions
from streaming.config.tables import TablesSettings
from streaming.config.types import Section, setting, table
from streaming.config.vhosts import UserSettings, VhostSettings
from streaming.protocol.addressing import JobAddress
from streaming.protocol.record_headers import WIRE_VERSION
from topology.errors import Problem


@attrs.frozen(kw_only=True)
class JobConfig(Section):
    """The configuration of one job.

    Raises:
        InvalidConfigError: every problem, as for the same mistakes in a file.
    """

    job: JobSettings = setting(JobSettings(), "The job itself.", table(JobSettings))
    kafka: KafkaSettings = setting(KafkaSettings(), "The Kafka cluster.", table(KafkaSettings))
    vhosts: dict[str, VhostSettings] = setting(
        {"/": VhostSettings()},
        "The vhosts that the job serves, by name. Records for any other vhost are quarantined. Not "
        "set: RabbitMQ's default vhost, /.",
        table(VhostSettings, "named tables"),
    )
    users: dict[str, UserSettings] = setting(
        {"guest": UserSettings(administrator=True)},
        "The users that inputs can act for, by name. Not set: guest, an administrator.",
        table(UserSettings, "named tables"),
    )
    inputs: tuple[InputSettings, ...] = setting(
        (
            InputSettings(topic="dlx.publishes", source="publishes"),
            InputSettings(topic="dlx.commands", source="commands"),
        ),
        "The topics that the job reads. By default two of its own: flow control must be able to "
        "pause publishes, and must never pause settlements.",
        table(InputSettings, "list of tables"),
    )
    outbound: OutboundSettings = setting(
        OutboundSettings(),
        "The topics that the job writes deliveries and replies to.",
        table(OutboundSettings),
    )
    amqp: AmqpSettings = setting(
        AmqpSettings(),
        "The front of sequenced vhosts, which clients of AMQP use: `dlx amqp`.",
        table(AmqpSettings),
    )
    flow: FlowSettings = setting(
        FlowSettings(), "Flow control and size limits.", table(FlowSettings)
    )
    tables: TablesSettings = setting(
        TablesSettings(), "Maintenance of the Delta tables.", table(TablesSettings)
    )
    metrics: MetricsSettings = setting(
        MetricsSettings(), "Metrics for Prometheus, and health checks.", table(MetricsSettings)
    )
    alerts: AlertSettings = setting(
        AlertSettings(),
        "Which queues single alerts leave out, and a webhook that the job itself calls.",
        table(AlertSettings),
    )
    console: ConsoleSettings = setting(
        ConsoleSettings(),
        "The console: pages about the tables, in a browser.",
        table(ConsoleSettings),
    )

    def contradictions(self) -> Iterator[Problem]:
        """The rules between the tables."""
        parts = Parts(**{name: getattr(self, name) for name in Parts._fields})
        for conflict in conflicts(parts):
            yield Problem(conflict.paths[0], conflict.what)

    def partitions_of(self, each: InputSettings) -> int:
        """Number of partitions to create an input with."""
        return each.partitions or self.kafka.topic_partitions or even_partitions(self.vhosts)

    def topics_of(self, source: str) -> tuple[str, ...]:
        """The Kafka topics of one of Spark's two sources, `publishes` or `commands`, in order.

        Topics of transactions are read with the commands, after them.
        """
        kinds = (source, "transactions") if source == "commands" else (source,)
        found = [each.topic for kind in kinds for each in self.inputs if each.source == kind]
        if source == "publishes":  # nobody waits for what the job makes of a log
            found += self.log_topics().values()
        return tuple(found)

    def log_topics(self) -> dict[str, str]:
        """Sequenced vhost -> the topic of its log."""
        return {
            name: log_topic(self.amqp.log_topic, name)
            for name, vhost in self.vhosts.items()
            if vhost.sequenced
        }

    def read_topics(self) -> tuple[str, ...]:
        """Every topic that the job reads: the inputs, then the logs."""
        return (*(each.topic for each in self.inputs), *self.log_topics().values())

    def outbound_topics(self) -> dict[tuple[str, str], str]:
        """(vhost, user) -> the topic that this user reads."""
        return {
            (vhost, user): self.outbound.topic_of(vhost, user)
            for vhost in self.vhosts
            for user in self.users
        }


def job_address(config: JobConfig, vhost: str, user: str) -> JobAddress:
    """Return the topics and limits of a vhost and user that the configuration has."""
    inputs: dict[str, InputSettings] = {
        each.source: each
        for each in reversed(config.inputs)
        if each.mapping is None and each.user == user
    }
    topics = {source: each.topic for source, each in inputs.items()}
    commands = topics.get("commands")
    return JobAddress(
        vhost=vhost,
        user=user,
        outbound=config.outbound_topics()[vhost, user],
        commands=commands,
        publishes=topics.get("publishes") or commands or "",
        transactions=topics.get("transactions"),
        lanes=config.vhosts[vhost].lanes,
        max_body_bytes=config.flow.max_body_bytes,
        max_header_bytes=config.flow.max_header_bytes,
        max_message_bytes=config.kafka.max_message_bytes,
        wire_version=WIRE_VERSION,
        sequenced=config.vhosts[vhost].sequenced,
    )
