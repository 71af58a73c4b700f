"""The whole of `dlx.toml` as one value: everything that the job can be told.

Environment variables and flags are read by the command line alone; all else receives a `JobConfig`.
"""

from typing import Annotated

import msgspec

from streaming.config.errors import Place
from streaming.config.flow import FlowSettings
from streaming.config.inputs import InputSettings
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.outbound import OutboundSettings
from streaming.config.rules import Parts, clashes, even_partitions
from streaming.config.sections import NamedTables, Section, Table, TableList
from streaming.config.settings import Setting
from streaming.config.tables import TablesSettings
from streaming.config.vhosts import UserSettings, VhostSettings


def _default_vhosts() -> dict[str, VhostSettings]:
    return {"/": VhostSettings()}


def _default_users() -> dict[str, UserSettings]:
    return {"guest": UserSettings(administrator=True)}


def _default_inputs() -> tuple[InputSettings, ...]:
    return (
        InputSettings(topic="dlx.publishes", source="publishes"),
        InputSettings(topic="dlx.commands", source="commands"),
    )


class JobConfig(Section, frozen=True, kw_only=True):
    """The configuration of one job.

    Raises:
        InvalidConfigError: with every problem, as for the same mistakes in a file.
    """

    job: Annotated[JobSettings, Setting(Table(JobSettings), "The job itself.")] = JobSettings()
    kafka: Annotated[KafkaSettings, Setting(Table(KafkaSettings), "The Kafka cluster.")] = (
        KafkaSettings()
    )
    vhosts: Annotated[
        dict[str, VhostSettings],
        Setting(
            NamedTables(VhostSettings, "vhost"),
            "The vhosts that are served, by name. Those left out here have their records "
            "quarantined. Not set: RabbitMQ's default vhost, /.",
        ),
    ] = msgspec.field(default_factory=_default_vhosts)
    users: Annotated[
        dict[str, UserSettings],
        Setting(
            NamedTables(UserSettings, "user"),
            "The users whom inputs act for, by name. Not set: guest, an administrator.",
        ),
    ] = msgspec.field(default_factory=_default_users)
    inputs: Annotated[
        tuple[InputSettings, ...],
        Setting(
            TableList(InputSettings, "input"),
            "The topics that are read. Two of our own by default: flow control must be able to "
            "stop publishes and never settlements.",
        ),
    ] = msgspec.field(default_factory=_default_inputs)
    outbound: Annotated[
        OutboundSettings,
        Setting(Table(OutboundSettings), "The topics that deliveries and replies are written to."),
    ] = OutboundSettings()
    flow: Annotated[
        FlowSettings, Setting(Table(FlowSettings), "Flow control and limits of size.")
    ] = FlowSettings()
    tables: Annotated[
        TablesSettings, Setting(Table(TablesSettings), "Upkeep of the Delta tables.")
    ] = TablesSettings()

    def check_together(self, place: Place) -> None:
        """The rules between the tables."""
        for clash in clashes(Parts(**{name: getattr(self, name) for name in Parts._fields})):
            Place(clash.paths[0], place.problems).report(clash.what)

    def partitions_of(self, each: InputSettings) -> int:
        """Partitions to make an input with."""
        return each.partitions or self.kafka.topic_partitions or even_partitions(self.vhosts)

    def topics_of(self, source: str) -> tuple[str, ...]:
        """The Kafka topics of one of Spark's two sources, `publishes` or `commands`, in order.

        Topics of transactions are read with the commands, after them.
        """
        kinds = (source, "transactions") if source == "commands" else (source,)
        return tuple(each.topic for kind in kinds for each in self.inputs if each.source == kind)

    def outbound_topics(self) -> dict[tuple[str, str], str]:
        """(vhost, user) -> the topic that this user reads."""
        return {
            (vhost, user): self.outbound.topic_of(vhost, user)
            for vhost in self.vhosts
            for user in self.users
        }
