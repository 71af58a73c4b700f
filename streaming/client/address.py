"""Where a client reads and writes, and as whom."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from streaming.client.errors import ClientError
from streaming.config import alive_topic, librdkafka_properties
from topology.suggestions import did_you_mean

if TYPE_CHECKING:
    from streaming.config import InputSettings, JobConfig


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A vhost of a job, as one of its users. The defaults are those of `dlx.toml`.

    Attributes:
        bootstrap: some of Kafka's brokers, `HOST:PORT`, with commas.
        publishes, commands: the job's topics for either kind of record.
        transactions: the topic for records of both kinds in Kafka transactions, if there is one.
        outbound: the topic of this vhost and user.
        lanes: of the vhost; with several a publisher spreads its messages over the partitions.
        max_body_bytes, max_header_bytes: the job quarantines publishes that have more.
        max_message_bytes: of the topics; what a record may have in all.
        kafka: further properties of librdkafka (security, say); may hold secrets, never shown.
    """

    bootstrap: str = "localhost:9092"
    publishes: str = "dlx.publishes"
    commands: str = "dlx.commands"
    transactions: str | None = None
    outbound: str = "dlx.out._2f.guest"
    vhost: str = "/"
    lanes: int = 1
    max_body_bytes: int = 1_048_576
    max_header_bytes: int = 16_384
    max_message_bytes: int = 2_097_152
    kafka: Mapping[str, str] = {}

    def __repr__(self) -> str:
        """Without the Kafka properties."""
        return f"Address({self.bootstrap!r}, vhost={self.vhost!r}, outbound={self.outbound!r})"

    @property
    def properties(self) -> dict[str, str]:
        """Of every Kafka client of a connection."""
        largest = {"message.max.bytes": str(self.max_message_bytes)}
        return {**largest, **self.kafka, "bootstrap.servers": self.bootstrap}

    @property
    def alive(self) -> str:
        """The topic of the job's heartbeat, where there is one."""
        return alive_topic(self.outbound)

    def topics(self) -> set[str]:
        """What must be there before it can be used."""
        named = (self.publishes, self.commands, self.transactions, self.outbound)
        return {name for name in named if name is not None}


def address_of(
    config: JobConfig,
    user: str = "guest",
    vhost: str = "/",
    environ: Mapping[str, str] | None = None,
) -> Address:
    """The address of a job by its configuration.

    Args:
        environ: where secrets of `[kafka.security]` are looked up; this process's by default.

    Raises:
        ClientError: no such vhost or user, or the user has no topics of our own.
        InvalidConfigError: a secret is not to be had.
    """
    for table, name, known in (("vhosts", vhost, config.vhosts), ("users", user, config.users)):
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            raise ClientError(f"{table}: there is no {name!r} in the job's configuration{hint}")
    inputs: dict[str, InputSettings] = {
        each.source: each
        for each in reversed(config.inputs)
        if each.mapping is None and each.user == user
    }
    if "commands" not in inputs:
        raise ClientError(
            f'inputs: none with source = "commands" has user = {user!r}: add one (and one with '
            'source = "publishes"). Flow control holds back publishes, and never commands, so they '
            "need a topic of their own"
        )
    properties = librdkafka_properties(config.kafka, os.environ if environ is None else environ)
    return Address(
        bootstrap=properties.pop("bootstrap.servers"),
        publishes=inputs["publishes" if "publishes" in inputs else "commands"].topic,
        commands=inputs["commands"].topic,
        transactions=inputs["transactions"].topic if "transactions" in inputs else None,
        outbound=config.outbound_topics()[vhost, user],
        vhost=vhost,
        lanes=config.vhosts[vhost].lanes,
        max_body_bytes=config.flow.max_body_bytes,
        max_header_bytes=config.flow.max_header_bytes,
        max_message_bytes=config.kafka.max_message_bytes,
        kafka=properties,
    )
