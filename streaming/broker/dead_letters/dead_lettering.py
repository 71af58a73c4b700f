"""Dead-lettering: from the deaths of a step to the copies they cause elsewhere.

    Queue.die --> DIED event, outbox --(when the step is done)--> plan --> arrive at the targets

Deaths cascade at once and breadth first (R-QUEUE-5): the outbox is first in, first out; it is
emptied after each step, and emptying it may add to it. A quorum queue takes longer than any number
of classic queues: deaths in quorum queues wait until there are no others, then all follow.
"""

from collections import Counter

from streaming.broker.context import ShardContext
from streaming.broker.dead_letters import planning
from streaming.broker.dead_letters.at_least_once import AtLeastOnce, Descendants
from streaming.broker.dead_letters.planning import DeathPlan, DeathPlanner, identity_of
from streaming.broker.events import Kind
from streaming.broker.message import Copy, Message
from streaming.broker.queues.queue import REFUSED, Queue
from streaming.broker.queues.registry import QueueRegistry


class DeadLettering:
    """Delivers the dead letters of one shard."""

    def __init__(self, context: ShardContext, queues: QueueRegistry) -> None:
        self._context = context
        self._clock = context.clock
        self._events = context.events
        self._deaths = queues.outbox.deaths
        self._quorum_deaths = queues.outbox.quorum_deaths
        self._held = queues.outbox.held
        self._planner = DeathPlanner(context, queues)
        self._rerouted: dict[int, DeathPlan] = {}  # index of the death -> its plan
        self.at_least_once = AtLeastOnce(context, queues.outbox, self._planner)

    def refresh(self) -> None:
        """Follow a change of the vhost or the clock."""
        self._planner.refresh()

    def cascade(self) -> None:
        """Deliver the dead letters that wait, and those they cause."""
        self._planner.refresh()
        if self._deaths or self._quorum_deaths or self._held:
            self.deliver()

    def deliver(self) -> None:
        """Do the same after a step that changed neither the vhost nor the clock."""
        deaths = self._deaths
        if deaths or self._has_more():
            queue, copy, reason, _index = deaths[0]
            plan = None if queue is None else queue.death_plans[reason].get(copy.envelope)
            is_single = len(deaths) == 1 and not self._quorum_deaths
            if is_single and plan is not None and plan.plain and len(plan.targets) == 1:
                self._deliver_single(plan)  # as nearly always; `_deliver_hops` does the same
            else:
                self._deliver_hops()
        if self._held:
            descendants: Descendants = Counter()
            while self._held:
                self.at_least_once.deliver(descendants)
                self._deliver_counted(descendants)

    def _deliver_single(self, plan: DeathPlan) -> None:
        """Deliver the only death that waits, to its only target."""
        _queue, copy, _reason, index = self._deaths.popleft()
        self._events.death_outcomes[index] = plan.outcome
        self._deliver_one(copy, plan, index)
        if self._deaths or self._quorum_deaths:
            self._deliver_counted(_count([(copy.message, 1)]))

    def reroute(self, queue: Queue, copy: Copy, reason: str, cause: str | None = None) -> None:
        """Send a copy that left its queue to the queue's own alternate exchange (R-QPID-1).

        It is planned now: what happens next may delete the exchange.

        Args:
            reason: `rejected` or `orphaned`.
            cause: why, in the words of the consumer that rejected it (`causes`).
        """
        if cause is not None:
            copy = self._context.causes.give(copy, cause)
            self._context.events.details[len(self._context.events)] = {"cause": cause}
        settings = queue.settings
        exchange, once = settings.alternate_exchange, settings.reroute_once
        self.reroute_from(queue.name, exchange, copy, reason, once=once)

    def reroute_from(
        self, queue_name: str, exchange: str | None, copy: Copy, reason: str, *, once: bool
    ) -> None:
        """Like `reroute`, but the queue may already be deleted."""
        plan = self._planner.reroute_plan(exchange, copy, reason, once=once)
        self._context.alternate_warnings.warn(plan.missing_alternates)
        if plan.outcome.outcome == "no_exchange" and exchange is not None:
            self._context.alternate_warnings.warn_about_queue(queue_name, exchange)
        index = self._context.events.add_death(Kind.REROUTED, queue_name, copy, plan.outcome)
        if plan.targets:
            self._rerouted[index] = plan
            self._deaths.append((None, copy, reason, index))

    def _has_more(self) -> bool:
        """Continue with the deaths in quorum queues; False if there are none."""
        waiting = self._quorum_deaths
        self._deaths.extend(waiting)
        waiting.clear()
        return bool(self._deaths)

    def _next(self) -> tuple[Copy, DeathPlan, int]:
        """Remove the oldest death from the outbox and plan it."""
        queue, copy, reason, index = self._deaths.popleft()
        if queue is None:
            return copy, self._rerouted.pop(index), index
        plan = queue.death_plans[reason].get(copy.envelope)
        if plan is None or not plan.plain:
            plan = self._planner.plan(queue, copy, reason)
        self._events.death_outcomes[index] = plan.outcome
        return copy, plan, index

    def _deliver_hops(self) -> None:
        """Empty the outbox, hop by hop."""
        deaths = self._deaths
        first_hop: list[tuple[Message, int]] = []
        copies = 0
        for _ in range(len(deaths)):
            copy, plan, index = self._next()
            count = len(plan.targets)
            copies += count
            if copies > planning.MAX_DESCENDANTS:  # count from here on
                descendants = _count(first_hop)
                self._deliver_limited(copy, plan, index, descendants)
                self._deliver_counted(descendants)
                return
            if count:
                first_hop.append((copy.message, count))
                self._deliver_one(copy, plan, index)
        if deaths or self._quorum_deaths:
            self._deliver_counted(_count(first_hop))

    def _deliver_counted(self, descendants: Descendants) -> None:
        """Empty the outbox; no message may leave more than MAX_DESCENDANTS (D11).

        Args:
            descendants: how many dead letters each message left in this instant; updated.
        """
        while self._deaths or self._has_more():
            copy, plan, index = self._next()
            self._deliver_limited(copy, plan, index, descendants)

    def _deliver_limited(
        self, copy: Copy, plan: DeathPlan, index: int, descendants: Descendants
    ) -> None:
        identity = identity_of(copy.message)
        left = planning.MAX_DESCENDANTS - descendants[identity]
        if left < len(plan.targets):
            plan = plan.cut(left)
            self._events.death_outcomes[index] = plan.outcome
        descendants[identity] += len(plan.targets)
        self._deliver_one(copy, plan, index)

    def _deliver_one(self, copy: Copy, plan: DeathPlan, index: int) -> None:
        message = copy.message
        envelope = plan.outcome.envelope
        now_ms = self._clock.now_ms
        for queue in plan.targets:
            answer = queue.arrive(message, envelope, copy.copy_id, now_ms, copy.failures)
            if answer == REFUSED:
                self._refuse(copy, plan, index, queue.name)

    def _refuse(self, copy: Copy, plan: DeathPlan, index: int, queue_name: str) -> None:
        """Record that a target was full."""
        self._context.events.add_refused(queue_name, copy.message, plan.outcome.envelope)
        refused = (*self._events.death_outcomes[index].refused, queue_name)
        self._events.death_outcomes[index] = plan.refused_by(refused)


def _count(hops: list[tuple[Message, int]]) -> Descendants:
    descendants: Descendants = Counter()
    for message, copies in hops:
        descendants[identity_of(message)] += copies
    return descendants
