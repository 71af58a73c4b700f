"""The configuration of a shard."""

from typing import Final, Literal

import msgspec

from topology.values import Compat

CORE_VERSION: Final = 7
"""The version of the broker's behaviour: raised if the same log would have another outcome."""


class ShardConfig(msgspec.Struct, frozen=True):
    """Everything besides the log that can change a shard's outcomes.

    Attributes:
        lane, lanes: which slice of the vhost this is, of how many (limits are divided).
        clock: `event`: only records move time; `wall`: see `clock.py`.
        enforce_permissions: whether users need permissions (the operator, None, never does).
        administrators: users who may do everything unless permissions are recorded for them; only
            they may set policies and permissions and import definitions.
        impersonators: users whose messages may name another user in `user_id`.
        editors: users who may edit the letters of a redrive.
        default_delivery_limit: for quorum queues without one; -1: no limit; None: the compat's
            default (R-DLV-5).
        consumer_timeout_ms: a channel with a delivery unacked for this long is closed; None: never.
            Queues may have timeouts of their own (R-SET-13).
        ignores_timeouts: whether no delivery is ever unacked for too long, whatever queues say.
        dead_letter_retry_ms: how often at-least-once dead-lettering retries (R-ALO-3).
        away_ms: with `clock = wall`, a shard called later than this after its earliest deadline was
            away, and leases did not run (D4).
        outbound_from: numbers of outbound records begin here. A state with a lower next number had
            a batch that was dropped, and whose records clients may have.
        sequenced: the log alone decides: whether `messages` still has a message does not.
    """

    vhost: str = "/"
    lane: int = 0
    lanes: int = 1
    compat: Compat = "4.0"
    clock: Literal["event", "wall"] = "event"
    enforce_permissions: bool = False
    administrators: tuple[str, ...] = ()
    impersonators: tuple[str, ...] = ()
    editors: tuple[str, ...] = ()
    default_delivery_limit: int | None = None
    consumer_timeout_ms: int | None = 1_800_000
    ignores_timeouts: bool = False
    dead_letter_retry_ms: int = 180_000
    away_ms: int = 30_000
    outbound_from: int = 1
    sequenced: bool = False
