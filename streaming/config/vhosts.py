"""`[vhosts.NAME]` and `[users.NAME]`: RabbitMQ's tenants, as this job serves them."""

from typing import Final

import attrs

from streaming.broker.lanes import PARTITION
from streaming.config.types import Section, flag, local, matching, milliseconds, setting, whole

UNLIMITED: Final = -1
"""RabbitMQ's value for no limit."""

MAX_LANES: Final = 1_024


@attrs.frozen(kw_only=True)
class VhostSettings(Section):
    """One vhost. A record for a vhost that is not listed is quarantined."""

    lanes: int = setting(
        1,
        "Slices of the vhost that work in parallel. Each has the whole topology and its own share "
        "of the messages and of the length limits. 1 behaves exactly as RabbitMQ. With more, one "
        "vhost can use several cores, but only the messages of one lane stay in order.",
        whole(1, MAX_LANES),
        outcome=True,
    )
    lane_by: str = setting(
        PARTITION,
        "What chooses the lane of a message: its Kafka partition, its routing key, or an AMQP "
        "header, as in `header:customer`. Messages with the same key have the same lane and stay "
        "in order. A message without the header goes by its partition.",
        matching(
            r"partition|routing_key|header:.{1,255}",
            '"partition", "routing_key" or "header:" and the name of a header',
        ),
        outcome=True,
    )
    sequenced: bool = setting(
        False,  # noqa: FBT003 - the default, as in any other setting
        "Whether clients of AMQP 0-9-1 use the vhost, through `dlx amqp`. What they do is in one "
        "log, a topic of one partition that only the front writes (`amqp.log_topic`); the job "
        "keeps the tables from it. The front copies commands and records of mapped topics for such "
        "a vhost into the log; other records on the inputs are quarantined.",
        flag(),
        outcome=True,
    )
    definitions: str | None = setting(
        None,
        "A definitions.json exported from RabbitMQ. The job imports the part for this vhost when "
        "it starts for the first time, before it reads any message. Make later changes by command "
        "(`dlx definitions import`).",
        local("file"),
        example='"definitions.json"',
    )
    default_delivery_limit: int | None = setting(
        None,
        "The delivery limit of quorum queues that set none; -1: no limit. Not set: the default of "
        "the RabbitMQ version in job.compat, which is 20 for 4.0 and no limit for 3.10.",
        whole(UNLIMITED, 1_000_000),
        outcome=True,
        example="20",
    )
    consumer_timeout_ms: int = setting(
        1_800_000,
        "A channel that leaves a delivery unsettled for longer is closed, and its messages are "
        "requeued. 30 minutes is RabbitMQ's default. 0: never. A queue may have a timeout of its "
        "own (`x-consumer-timeout`, or `consumer-timeout` of a policy).",
        milliseconds(),
        outcome=True,
    )


@attrs.frozen(kw_only=True)
class UserSettings(Section):
    """A user that the records of an input act for; definitions set the permissions."""

    administrator: bool = setting(
        False,  # noqa: FBT003 - the default, as in any other setting
        "An administrator may set policies and permissions and import definitions. In a vhost that "
        "records no permissions for it, it may also use everything, as RabbitMQ's guest can at "
        "first. Other users have only the recorded permissions.",
        flag(),
        outcome=True,
    )
    impersonator: bool = setting(
        False,  # noqa: FBT003 - the default, as in any other setting
        "Whether messages of the user may name another user in `user_id`, as those of a user with "
        "RabbitMQ's tag of that name may. Else they are refused.",
        flag(),
        outcome=True,
    )
    edit_letters: bool = setting(
        False,  # noqa: FBT003 - the default, as in any other setting
        "Whether the user may edit dead letters when it redrives them: their body, properties and "
        "headers. Administrators may not either, unless this is set.",
        flag(),
        outcome=True,
    )
    password_hash: str | None = setting(
        None,
        "The hash of the password with which the user logs in to `dlx amqp`, as a definitions.json "
        "of RabbitMQ has it (SHA-256); `rabbitmqctl hash_password` makes one. Not set: no login.",
        matching(r"[A-Za-z0-9+/]{48}", "the password_hash of a definitions.json"),
        example='"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"',
    )
