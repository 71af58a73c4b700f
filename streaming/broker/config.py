"""What a shard is told besides its log."""

from __future__ import annotations

from typing import Literal

import msgspec

from topology.values import Compat


class ShardConfig(msgspec.Struct, frozen=True):
    """What a shard is told besides its log; all of it can change outcomes.

    Attributes:
        lane, lanes: which slice of the vhost this is, of how many (limits are divided).
        clock: `event`: only records move time; `wall`: see the module's text.
        enforce_permissions: whether users need permissions (a user of None never does).
        administrators: users who may do everything where no permissions are recorded for them, and
            alone may set policies and permissions and import definitions.
        default_delivery_limit: of quorum queues that are given none; -1: no limit; None: the
            compat's (R-DLV-5).
        consumer_timeout_ms: a channel with a delivery unacked for this long is closed; None: never.
        dead_letter_retry_ms: when at-least-once dead-lettering tries again (R-ALO-3).
        away_ms: with `clock = wall`, a shard called this late was away, and leases do not run (D4).
        reroute_once: R-QPID-5; False follows the C++ broker, where every rejection reroutes.
    """

    vhost: str = "/"
    lane: int = 0
    lanes: int = 1
    compat: Compat = "4.0"
    clock: Literal["event", "wall"] = "event"
    enforce_permissions: bool = False
    administrators: tuple[str, ...] = ()
    default_delivery_limit: int | None = None
    consumer_timeout_ms: int | None = 1_800_000
    dead_letter_retry_ms: int = 180_000
    away_ms: int = 30_000
    reroute_once: bool = True
