"""`[vhosts.NAME]` and `[users.NAME]`: RabbitMQ's tenants, as this job serves them."""

from typing import Annotated, Final

from streaming.config.sections import Section
from streaming.config.settings import Setting
from streaming.config.types import flag, local, milliseconds, whole

UNLIMITED: Final = -1
"""RabbitMQ's way of saying that there is no limit."""

MAX_LANES: Final = 1_024


class VhostSettings(Section, frozen=True, kw_only=True):
    """One vhost. A record for a vhost that is not listed is quarantined."""

    lanes: Annotated[
        int,
        Setting(
            whole(1, MAX_LANES),
            "Slices that work in parallel, each with the whole topology and its own share of the "
            "messages and of the length limits. 1 behaves exactly as RabbitMQ; more let one vhost "
            "outgrow a core and keep order within a Kafka partition only.",
            outcome=True,
        ),
    ] = 1
    definitions: Annotated[
        str | None,
        Setting(
            local("file"),
            "A definitions.json as RabbitMQ exports it. What of it is meant for this vhost is "
            "imported when the job starts for the first time, before it reads any message; later "
            "changes are made by command (`dlx definitions import`).",
            example='"definitions.json"',
        ),
    ] = None
    default_delivery_limit: Annotated[
        int | None,
        Setting(
            whole(UNLIMITED, 1_000_000),
            "The delivery limit of quorum queues that are given none; -1: no limit. Not set: that "
            "of the RabbitMQ version in job.compat, 20 for 4.0 and none for 3.10.",
            outcome=True,
            example="20",
        ),
    ] = None
    consumer_timeout_ms: Annotated[
        int,
        Setting(
            milliseconds(),
            "A channel that leaves a delivery unsettled for so long is closed and its messages "
            "are requeued. RabbitMQ's default, 30 minutes; 0: never.",
            outcome=True,
        ),
    ] = 1_800_000


class UserSettings(Section, frozen=True, kw_only=True):
    """A user whom an input's records act for; permissions come with definitions."""

    administrator: Annotated[
        bool,
        Setting(
            flag(),
            "An administrator may set policies and permissions and import definitions; and may use "
            "everything in a vhost where no permissions are recorded for it, as RabbitMQ's guest "
            "may at first. Others may do what the recorded permissions say and nothing else.",
            outcome=True,
        ),
    ] = False
