"""The Kafka topics of one vhost and user of a job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from streaming.client.errors import ClientError
from streaming.protocol.addressing import (
    DEFAULT_OUTBOUND,
    JobAddress,
    alive_topic,
    outbound_topic,
)
from streaming.protocol.defaults import DEFAULT_USER, DEFAULT_VHOST
from topology.suggestions import did_you_mean_or_known

if TYPE_CHECKING:
    from streaming.config import JobConfig


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client of one vhost and user writes and reads. The defaults are those of `dlx.toml`.

    `Connection` learns all of this from the job; an `Address` is for jobs whose heartbeat the user
    may not read.

    Attributes:
        bootstrap: Kafka's bootstrap servers: `HOST:PORT`, separated by commas.
        publishes: the job's input topic for publishes.
        commands: the job's input topic for commands.
        transactions: the job's input topic for transactions; None if it has none.
        outbound: the topic to which the job writes for this vhost and user.
        vhost: the vhost.
        lanes: the vhost's lanes; with several, publishers spread messages over the partitions.
        max_body_bytes: the largest body that the job accepts.
        max_header_bytes: the largest headers of a record that the job accepts, in total.
        max_message_bytes: the largest record that the topics accept.
        sequenced: whether clients of AMQP use the vhost, and those of Kafka only administer it.
        kafka: further librdkafka properties, such as security. They may hold secrets and are never
            shown.
    """

    bootstrap: str = "localhost:9092"
    publishes: str = "dlx.publishes"
    commands: str = "dlx.commands"
    transactions: str | None = None
    outbound: str = outbound_topic(DEFAULT_OUTBOUND, DEFAULT_VHOST, DEFAULT_USER)
    vhost: str = DEFAULT_VHOST
    lanes: int = 1
    max_body_bytes: int = 1_048_576
    max_header_bytes: int = 16_384
    max_message_bytes: int = 2_097_152
    sequenced: bool = False
    kafka: Mapping[str, str] = {}

    def __repr__(self) -> str:
        """Omit the Kafka properties, which may hold secrets."""
        return f"Address({self.bootstrap!r}, vhost={self.vhost!r}, outbound={self.outbound!r})"

    @property
    def properties(self) -> dict[str, str]:
        """The librdkafka properties of every Kafka client of a connection."""
        largest = {"message.max.bytes": str(self.max_message_bytes)}
        return {**largest, **self.kafka, "bootstrap.servers": self.bootstrap}

    @property
    def alive(self) -> str:
        """The topic of the job's heartbeat."""
        return alive_topic(self.outbound)

    def topics(self) -> set[str]:
        """The topics that must exist before a client can connect."""
        names = (self.publishes, self.commands, self.transactions, self.outbound)
        return {name for name in names if name is not None}


def address_from(job: JobAddress, bootstrap: str, kafka: Mapping[str, str]) -> Address:
    """Return the address for what a job says about a vhost and user.

    Raises:
        ClientError: the user has no topic for commands.
    """
    if job.commands is None:
        raise ClientError(
            f'inputs: none with source = "commands" has user = {job.user!r}. Add one to the '
            'job\'s dlx.toml, and one with source = "publishes": flow control pauses publishes but '
            "never commands, so commands need a topic of their own"
        )
    return Address(
        bootstrap=bootstrap,
        publishes=job.publishes,
        commands=job.commands,
        transactions=job.transactions,
        outbound=job.outbound,
        vhost=job.vhost,
        lanes=job.lanes,
        max_body_bytes=job.max_body_bytes,
        max_header_bytes=job.max_header_bytes,
        max_message_bytes=job.max_message_bytes,
        sequenced=job.sequenced,
        kafka=kafka,
    )


def address_of(
    config: JobConfig,
    user: str = DEFAULT_USER,
    vhost: str = DEFAULT_VHOST,
    environ: Mapping[str, str] | None = None,
) -> Address:
    """Return the address of a vhost and user of a job.

    Args:
        environ: where the secrets of `[kafka.security]` are looked up; by default the environment
            of this process.

    Raises:
        ClientError: the job has no such vhost or user, or no command topic for the user.
        InvalidConfigError: a secret cannot be found.
    """
    from streaming.config import librdkafka_properties  # noqa: PLC0415 - slow, and needed only here
    from streaming.config.model import job_address  # noqa: PLC0415

    for table, name, known in (("vhosts", vhost, config.vhosts), ("users", user, config.users)):
        if name not in known:
            hint = did_you_mean_or_known(name, sorted(known))
            raise ClientError(f"{table}: the job's configuration has no {name!r}{hint}")
    job = job_address(config, vhost, user)
    properties = librdkafka_properties(config.kafka, os.environ if environ is None else environ)
    return address_from(job, properties.pop("bootstrap.servers"), properties)
