"""Plans what becomes of a death or a rerouted copy: the new envelope and the target queues.

A plan depends only on the envelope, the queue and the reason, until the vhost changes or a second
passes (x-death holds the time). So it is made once for messages that are alike, and cached. Where a
headers exchange is reached, the targets depend on the message's headers too, and are looked up for
each message.
"""

from __future__ import annotations

from streaming.broker.context import ShardContext
from streaming.broker.dead_letters.message_route import route_of
from streaming.broker.dead_letters.x_death import (
    REJECTED,
    envelope_after_death,
    is_cycle,
)
from streaming.broker.events import DeathOutcome
from streaming.broker.message import Copy, Envelope, Message
from streaming.broker.queues.queue import NO_PLANS, Queue
from streaming.broker.queues.registry import QueueRegistry
from streaming.broker.state.vhost_codec import MissingAlternate

MAX_DESCENDANTS = 10_000
"""Dead letters that one message may leave in one instant (D11)."""

NO_ROUTE = "no_route"
"""The outcome where an exchange is reached and no queue."""

MAX_PLANS = 10_000
"""Cached plans per queue and reason."""


class DeathPlan:
    """What is to become of a death.

    Attributes:
        outcome: what becomes of it if every target accepts.
        targets: the queues that get a dead letter each.
        missing_alternates: alternate exchanges that were needed and do not exist.
        by_headers: the targets depend on the message's headers.
        plain: the same holds for each message that is alike, and nobody is to be warned.
    """

    __slots__ = ("_refusals", "by_headers", "missing_alternates", "outcome", "plain", "targets")

    def __init__(
        self,
        reason: str,
        envelope: Envelope,
        targets: tuple[Queue, ...],
        outcome: str = "",
        cycles: tuple[str, ...] = (),
        missing_alternates: tuple[MissingAlternate, ...] = (),
        *,
        by_headers: bool = False,
    ) -> None:
        names = (targets[0].name,) if len(targets) == 1 else tuple([one.name for one in targets])
        self.outcome = DeathOutcome(reason, envelope, names, outcome, cycles)
        self.targets = targets
        self.missing_alternates = missing_alternates
        self.by_headers = by_headers
        self.plain = not missing_alternates and not by_headers
        self._refusals: dict[tuple[str, ...], DeathOutcome] | None = None

    def cut(self, count: int) -> DeathPlan:
        """The same for the first targets only, because of the limit of descendants."""
        planned = self.outcome
        return DeathPlan(
            planned.reason,
            planned.envelope,
            self.targets[:count],
            "cascade_limit",
            planned.cycles,
        )

    def refused_by(self, refused: tuple[str, ...]) -> DeathOutcome:
        """The outcome if these targets refused their dead letters."""
        if self._refusals is None:
            self._refusals = {}
        outcome = self._refusals.get(refused)
        if outcome is None:
            planned = self.outcome
            names = frozenset(refused)
            accepted = tuple([name for name in planned.targets if name not in names])
            outcome = self._refusals[refused] = DeathOutcome(
                planned.reason,
                planned.envelope,
                accepted,
                planned.outcome if accepted else "refused",
                planned.cycles,
                refused,
            )
        return outcome


class DeathPlanner:
    """Makes the plans of one shard and caches them at their queues, by reason and envelope.

    All cached plans are of one version of the vhost and one second of the clock.
    """

    def __init__(self, context: ShardContext, queues: QueueRegistry) -> None:
        self._context = context
        self._queues = queues
        self._with_plans: list[Queue] = []
        self._version = context.vhost.version
        self._second = context.clock.second

    def refresh(self) -> None:
        """Invalidate the cached plans if the vhost changed or a second passed."""
        version, second = self._context.vhost.version, self._context.clock.second
        if version != self._version or second != self._second:
            self._version, self._second = version, second
            for queue in self._with_plans:
                queue.death_plans = NO_PLANS
            self._with_plans.clear()

    def plan(self, queue: Queue, copy: Copy, reason: str) -> DeathPlan:
        """What becomes of such a death now; `refresh` was called since the last change."""
        envelope = copy.envelope
        if queue.death_plans is NO_PLANS:
            queue.death_plans = NO_PLANS.copy()
            self._with_plans.append(queue)
        plans = queue.death_plans[reason]
        if plans is NO_PLANS[reason]:
            plans = queue.death_plans[reason] = {}
        plan: DeathPlan | None = plans.get(envelope)
        if plan is None:
            if len(plans) >= MAX_PLANS:
                plans.clear()
            plan = plans[envelope] = self.new_plan(queue, copy, reason, self._second)
        elif plan.by_headers:
            plan = self._routed(plan.outcome.envelope, copy.message, reason)
        if plan.missing_alternates:
            self._context.alternate_warnings.warn(plan.missing_alternates)
        return plan

    def new_plan(self, queue: Queue, copy: Copy, reason: str, time_s: int) -> DeathPlan:
        """Plan a death (section 23, Die, up to the targets). `time_s`: its epoch second."""
        settings = queue.settings
        router = self._context.vhost.router
        exchange = settings.dead_letter_exchange
        if exchange is not None and exchange not in router.exchanges:
            exchange = None
        after = envelope_after_death(
            copy.envelope,
            reason,
            queue.name,
            time_s,
            exchange,
            settings.dead_letter_routing_key,
            self._context.config.compat,
        )
        if exchange is None:
            return DeathPlan(reason, after, (), "no_exchange")
        return self._routed(after, copy.message, reason)

    def _routed(self, after: Envelope, message: Message, reason: str) -> DeathPlan:
        """Plan a death from its envelope after it: the targets, and those that would be cycles."""
        route = route_of(self._context, after, message)
        names = route.queues
        cycles: tuple[str, ...] = ()
        if reason != REJECTED:
            cycles = tuple([name for name in names if is_cycle(after.deaths, name)])
            if cycles:
                excluded = frozenset(cycles)
                names = tuple(name for name in names if name not in excluded)
        outcome = ""
        if not names:
            outcome = "cycle" if cycles else NO_ROUTE
        targets = tuple(map(self._queues.named, names))
        return DeathPlan(
            reason,
            after,
            targets,
            outcome,
            cycles,
            route.missing_alternates,
            by_headers=not route.keyed_only,
        )

    def reroute_plan(
        self, exchange: str | None, copy: Copy, reason: str, *, once: bool
    ) -> DeathPlan:
        """Plan a reroute to a queue's own alternate exchange (docs/semantics.md section 21).

        The copy keeps its keys and headers, without a death record. If nothing is bound, the
        alternate exchanges of that exchange are tried, one after the other.

        Args:
            reason: `rejected` or `orphaned`.
            once: whether a copy that was rerouted before is discarded (R-QPID-5).
        """
        envelope = copy.envelope
        if envelope.rerouted and once:
            return DeathPlan(reason, envelope, (), "rerouted_before")
        if exchange is None or exchange not in self._context.vhost.router.exchanges:
            return DeathPlan(reason, envelope, (), "no_exchange")
        after = envelope.replace(exchange=exchange, rerouted=True)
        route = route_of(self._context, after, copy.message)
        targets = tuple([self._queues.named(name) for name in route.queues])
        outcome = "" if targets else NO_ROUTE
        return DeathPlan(reason, after, targets, outcome, (), route.missing_alternates)


def identity_of(message: Message) -> tuple[int, int, int]:
    """The identity of a message."""
    return (message.topic_number, message.partition, message.offset)
