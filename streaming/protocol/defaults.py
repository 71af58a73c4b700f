"""The defaults of the client, the command line and the wire format, in one table.

The client and the command line take theirs from here. Those of the wire format are the defaults of
the command records (`streaming.broker.commands`), which recorded scenarios fix; a test compares
them with this table. Clients always send every member, so they matter for hand-written records
alone.
"""

from typing import Final, NamedTuple

DEFAULT_USER: Final = "guest"
DEFAULT_VHOST: Final = "/"

TIMEOUT_S: Final = 4.0
"""How long to wait for Kafka and the job: an outage is reported within 5 s, start included."""

LEASE_S: Final = 60.0
"""How long the broker keeps a channel that the client renews in the background."""

DETACHED_LEASE_S: Final = 300.0
"""How long it keeps a channel between two commands of a person, whom nothing renews."""

PREFETCH: Final = 100
"""The most unacknowledged deliveries of a consumer."""

REQUEUE: Final = True
"""Whether `nack` and `reject` requeue, as in RabbitMQ's clients."""

MAX_UNCONFIRMED: Final = 10_000
"""How many publishes may be under way."""

STOP_TIMEOUT_S: Final = 30.0
"""How long functions of a service may run after SIGTERM."""


class Default(NamedTuple):
    """One row: a default wherever it applies; empty where there is no such option."""

    name: str
    client: str
    command_line: str
    wire: str
    reason: str


TABLE: Final = (
    Default(
        "timeout",
        f"{TIMEOUT_S:g} s",
        f"{TIMEOUT_S:g} s",
        "",
        "an outage is reported within five seconds",
    ),
    Default(
        "lease of a channel",
        f"{LEASE_S:g} s",
        f"{LEASE_S:g} s",
        "none",
        "the client renews it; without a lease a channel stays until it is closed",
    ),
    Default(
        "lease of a channel that outlives the process",
        "",
        f"{DETACHED_LEASE_S:g} s",
        "none",
        "nothing renews it while a person decides between `get` and `ack`",
    ),
    Default(
        "prefetch",
        f"{PREFETCH}",
        f"{PREFETCH}",
        "no limit",
        "enough for the next batches; AMQP itself has no limit",
    ),
    Default(
        "requeue of nack and reject",
        "yes" if REQUEUE else "no",
        "no",
        "no",
        "RabbitMQ's clients requeue; `dlx reject` dead-letters, as its name says",
    ),
    Default("automatic ack", "no", "no", "no", "a message is kept until it is handled"),
    Default("durable queues and exchanges", "yes", "yes", "yes", "the log is always durable"),
    Default(
        "unconfirmed publishes",
        f"{MAX_UNCONFIRMED:,}",
        "",
        "",
        "`publish` waits when that many are under way",
    ),
    Default(
        "end of a service",
        f"{STOP_TIMEOUT_S:g} s",
        "",
        "",
        "how long functions may run after SIGTERM",
    ),
)
