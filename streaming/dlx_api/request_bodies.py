"""What requests to `/api/dlx` say in their bodies, as types, for the OpenAPI document too."""

from typing import Annotated, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1, lt=10**9)]
Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class PlanWish(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which letters a plan shall move, and where to.

    Attributes:
        id: ids of messages, with commas between them.
        header: `NAME` or `NAME=VALUE`.
        since, until: instants.
        to: `died`: the queue where a letter died; `first`: the one where it first died;
            `original`: the exchange and routing key of its publish; `queue` or `exchange`: the one
            of that `name`.
        key: the routing key for an exchange.
        gone: plan letters that are in no queue any more.
    """

    queue: str | None = None
    reason: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    cause: str | None = None
    cause_header: str | None = None
    header: str | None = None
    id: str | None = None
    since: str | None = None
    until: str | None = None
    action: Literal["redrive", "discard", "restore"] = "redrive"
    to: Literal["died", "first", "original", "queue", "exchange"] = "died"
    name: str | None = None
    key: str | None = None
    expiration: Literal["drop", "keep", "restart"] = "drop"
    x_death: Literal["keep", "clear"] = "keep"
    gone: bool = False


class Approval(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Why a plan is approved, and how fast its letters move.

    Attributes:
        count: the number of letters; needed for a plan of more than 100.
        rate: letters a second.
        ceiling: letters wait while their target has this many ready messages.
        canary: the first letters, whose fate the others wait for.
        stop_after, stop_percent: how many letters, or which share, may die again.
    """

    reason: Reason
    count: int | None = None
    rate: Positive | None = None
    ceiling: Positive | None = None
    canary: Positive | None = None
    stop_after: Positive | None = None
    stop_percent: Positive | None = None


class Control(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to do with a redrive, and why."""

    action: Literal["pause", "resume", "cancel", "status"]
    reason: Reason


class DeploymentNote(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which version of a service was deployed.

    Attributes:
        queues: those that it works on; none: it may be any.
    """

    version: Name
    queues: list[str] = []
    reason: Reason | None = None


class Advance(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How much time shall pass: text such as `30 minutes`, or seconds.

    Attributes:
        patience: how many seconds a consumer may take to settle what it got; 0: no matter.
    """

    advance: str | int | float
    patience: float | None = None
