"""Where a user of a vhost writes and reads: names of topics, and what the job's heartbeat says.

The heartbeat carries a `JobAddress`, so a client needs only Kafka's address, its user and its
vhost. The job's own names and limits come from the job.
"""

from typing import Final

import msgspec

DEFAULT_OUTBOUND: Final = "dlx.out.{vhost}.{user}"
"""The pattern of outbound topics, unless `outbound.topic` of the job is another."""

ALIVE_SUFFIX: Final = ".alive"

_KEPT: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")


class JobAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The topics and limits of one vhost and user of a job. The defaults are those of `dlx.toml`.

    Attributes:
        vhost: the vhost.
        user: the user.
        commands: the job's input topic for the user's commands; None if it has none.
        publishes: the job's input topic for the user's publishes.
        transactions: the job's input topic for the user's transactions; None if it has none.
        outbound: the topic to which the job writes for this vhost and user.
        lanes: the vhost's lanes; with several, publishers spread messages over the partitions.
        max_body_bytes: the largest body that the job accepts.
        max_header_bytes: the largest headers of a record that the job accepts, in total.
        max_message_bytes: the largest record that the topics accept.
        wire_version: the version of the wire format that the job reads.
        sequenced: whether clients of AMQP use the vhost, and those of Kafka only administer it.
    """

    vhost: str
    user: str
    outbound: str
    commands: str | None = "dlx.commands"
    publishes: str = "dlx.publishes"
    transactions: str | None = None
    lanes: int = 1
    max_body_bytes: int = 1_048_576
    max_header_bytes: int = 16_384
    max_message_bytes: int = 2_097_152
    wire_version: int
    sequenced: bool = False


class JobMark(msgspec.Struct, frozen=True):
    """Which job sent a heartbeat, and where its data is.

    Attributes:
        id: stays with the checkpoint.
        tables: location of the tables.
        checkpoint: folder of the checkpoint.
        host: the machine that it runs on.
    """

    id: str
    tables: str
    checkpoint: str
    host: str

    @property
    def place(self) -> str:
        """Where the job is, for a message."""
        return f"tables {self.tables}, checkpoint {self.checkpoint}, on {self.host}"


def served_by_front(vhost: str) -> str:
    """Why a client of the wire format cannot use a sequenced vhost as it uses others."""
    return (
        f"the vhost {vhost!r} is served by the AMQP front (sequenced = true): connect to it with "
        "a client of AMQP 0-9-1, `dlx amqp`. A client of Kafka can only administer it"
    )


def escaped(name: str) -> str:
    """A vhost's or user's name as part of a topic name: other bytes become `_` and two hex digits.

    Different names stay different: `/` gives `_2f`, `_2f` gives `_5f2f`.
    """
    return "".join(chr(byte) if byte in _KEPT else f"_{byte:02x}" for byte in name.encode())


def outbound_topic(pattern: str, vhost: str, user: str) -> str:
    """Return the topic that a user of a vhost reads."""
    return pattern.replace("{vhost}", escaped(vhost)).replace("{user}", escaped(user))


def alive_topic(outbound: str) -> str:
    """The topic beside an outbound topic to which the job writes a heartbeat once a second."""
    return f"{outbound}{ALIVE_SUFFIX}"
