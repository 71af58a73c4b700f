"""A queue's own alternate exchange, as in Qpid and Red Hat MRG (SEMANTICS section 21).

Rejected copies and orphans (still there when their queue is deleted) are routed there with their
keys and headers, without any death record; if nothing is bound, that exchange's own alternate is
tried, once. A copy that was rerouted before is discarded (R-QPID-5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.broker.dead_letters.dead_lettering import DeathPlan
from streaming.broker.dead_letters.x_death import matching_headers
from streaming.broker.events import Kind
from streaming.broker.message import Envelope

if TYPE_CHECKING:
    from streaming.broker.message import Copy
    from streaming.broker.queues.queue import Queue
    from streaming.broker.shard import Shard


class Rerouting:
    """The rerouting of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def reroute(self, queue: Queue, copy: Copy, reason: str) -> None:
        """Send a copy that left its queue to the queue's alternate exchange.

        Args:
            reason: `rejected` or `orphaned`.
        """
        plan = self._plan(queue, copy.envelope, reason)
        self._shard.alternate_warnings.warn(plan.missing_alternates)
        row = self._shard.dead_lettering.record(queue, copy, plan)
        self._shard.events.kinds[row] = Kind.REROUTED

    def _plan(self, queue: Queue, envelope: Envelope, reason: str) -> DeathPlan:
        shard = self._shard
        exchange = queue.settings.alternate_exchange
        if envelope.rerouted and shard.config.reroute_once:
            return DeathPlan(reason, envelope, (), "rerouted_before")
        router = shard.topology.router
        if exchange is None or exchange not in router.exchanges:
            return DeathPlan(reason, envelope, (), "no_exchange")
        after = Envelope(
            exchange,
            envelope.routing_keys,
            envelope.bcc,
            envelope.properties,
            envelope.headers,
            envelope.expiration,
            envelope.ttl_ms,
            envelope.priority,
            envelope.deaths,
            envelope.first_death,
            envelope.last_death,
            rerouted=True,
            foreign=envelope.foreign,
        )
        route = router.route(
            exchange, after.routing_keys, matching_headers(after), one_alternate=True
        )
        targets = tuple(shard.queues.named(name) for name in route.queues)
        outcome = "" if targets else "no_route"
        return DeathPlan(reason, after, targets, outcome, (), route.missing_alternates)
