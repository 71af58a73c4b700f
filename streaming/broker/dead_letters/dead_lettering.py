"""Dead-lettering: from a death to the copies it makes elsewhere.

    die -> event, row of dead_letters -> outbox -> (after the event that caused it) arrive at the
    targets

Deaths cascade at once and breadth first (R-QUEUE-5): whatever dies while an event is handled goes
to a first-in first-out outbox, which is emptied when the event is done, and which emptying it may
fill again.

What becomes of a death depends on the envelope, the queue and the reason alone, until the topology
changes or a second passes (the time in x-death). So it is worked out once for alike messages and
remembered as a `DeathPlan`.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from streaming.broker.dead_letters.x_death import (
    REASONS,
    REJECTED,
    died,
    is_cycle,
    matching_headers,
)
from streaming.broker.events import DIED
from streaming.broker.queues.queue import REFUSED

if TYPE_CHECKING:
    from streaming.broker.message import Copy, Envelope, Message
    from streaming.broker.queues.queue import Queue
    from streaming.broker.shard import Shard

MAX_DESCENDANTS = 10_000
"""Dead letters one message may leave in one instant (D11)."""

MAX_PLANS = 10_000
"""Plans remembered a queue and reason."""


class DeathPlan:
    """What becomes of a death.

    Attributes:
        envelope: the message as its dead letters carry it.
        targets: the queues that get one each.
        outcome: why there are none: `no_exchange`, `no_route` or `cycle`; empty if there are some.
        cycles: targets left out by the cycle rule (R-CYC-1).
        missing_alternates: alternate exchanges that were needed and do not exist.
    """

    __slots__ = (
        "cycles",
        "envelope",
        "missing_alternates",
        "outcome",
        "reason",
        "targets",
    )

    def __init__(
        self,
        reason: str,
        envelope: Envelope,
        targets: tuple[Queue, ...],
        outcome: str = "",
        cycles: tuple[str, ...] = (),
        missing_alternates: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.reason = reason
        self.envelope = envelope
        self.targets = targets
        self.outcome = outcome
        self.cycles = cycles
        self.missing_alternates = missing_alternates

    def cut(self, targets: tuple[Queue, ...]) -> DeathPlan:
        """The same for fewer targets, by the limit of descendants."""
        outcome = "" if targets else "cascade_limit"
        after, cycles, missing = self.envelope, self.cycles, self.missing_alternates
        return DeathPlan(self.reason, after, targets, outcome, cycles, missing)


class DeadLettering:
    """The outbox of one shard and its plans.

    Attributes:
        epoch: plans of an earlier epoch are void.
    """

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._events = shard.events
        self.epoch = 0
        self.outbox: deque[tuple[Copy, DeathPlan, int]] = deque()

    def die(self, queue: Queue, copy: Copy, reason: str) -> None:
        """Let a copy that was just taken from its queue die."""
        if queue.holds_deaths:
            self._shard.at_least_once.hold(queue, copy, reason)
            return
        plan = None
        if queue.plan_epoch == self.epoch:  # `plan` but for what is rare: nearly every message dies
            plan = queue.plans[reason].get(copy.envelope)
        if plan is None or plan.missing_alternates:
            plan = self.plan(queue, copy.envelope, reason)
        events = self._events
        kinds = events.kinds
        row = len(kinds)
        kinds.append(DIED)
        events.queues.append(queue.name)
        events.copies.append(copy)
        events.numbers.append(0)
        events.death_rows.append(row)
        events.death_plans.append(plan)
        if plan.targets:
            self.outbox.append((copy, plan, row))

    def record(self, queue: Queue, copy: Copy, plan: DeathPlan) -> int:
        """Write a death down and put its dead letters into the outbox; returns its row."""
        row = self.record_delivered(queue, copy, plan)
        if plan.targets:
            self.outbox.append((copy, plan, row))
        return row

    def record_delivered(self, queue: Queue, copy: Copy, plan: DeathPlan) -> int:
        """Write a death down whose dead letters the caller delivers; returns its row."""
        events = self._events
        kinds = events.kinds
        row = len(kinds)
        kinds.append(DIED)
        events.queues.append(queue.name)
        events.copies.append(copy)
        events.numbers.append(0)
        events.death_rows.append(row)
        events.death_plans.append(plan)
        return row

    def die_on_arrival(
        self,
        queue: Queue,
        message: Message,
        envelope: Envelope,
        parent_copy_id: int,
        failures: int,
    ) -> None:
        """R-LEN-9: a message refused by reject-publish-dlx dies without having been in the queue.

        Its copy is born and dies with one event.
        """
        plan = self.plan(queue, envelope, "maxlen")  # may warn, and the death's event is the birth
        copy = queue.unborn_copy(message, envelope, parent_copy_id)
        copy.failures = failures
        self.record(queue, copy, plan)

    def plan(self, queue: Queue, envelope: Envelope, reason: str) -> DeathPlan:
        """What becomes of such a death now; remembered."""
        if queue.plan_epoch != self.epoch:
            queue.plan_epoch = self.epoch
            queue.plans = {reason: {} for reason in REASONS}
        plans = queue.plans[reason]
        plan = plans.get(envelope)
        if plan is None:
            if len(plans) >= MAX_PLANS:
                plans.clear()
            plan = plans[envelope] = self.make_plan(queue, envelope, reason, self._shard.second)
        if plan.missing_alternates:
            self._shard.alternate_warnings.warn(plan.missing_alternates)
        return plan

    def make_plan(self, queue: Queue, envelope: Envelope, reason: str, time_s: int) -> DeathPlan:
        """Section 23, Die, up to the targets. `time_s`: epoch seconds of the death."""
        shard = self._shard
        settings = queue.settings
        exchange = settings.dead_letter_exchange
        if exchange is not None and exchange not in shard.topology.router.exchanges:
            exchange = None
        after = died(
            envelope,
            reason,
            queue.name,
            time_s,
            exchange,
            settings.dead_letter_routing_key,
            shard.config.compat,
        )
        if exchange is None:
            return DeathPlan(reason, after, (), "no_exchange")
        route = shard.topology.router.route(exchange, after.routing_keys, matching_headers(after))
        names = route.queues
        cycles: tuple[str, ...] = ()
        if reason != REJECTED:
            cycles = tuple(name for name in names if is_cycle(after.deaths, name))
            if cycles:
                names = tuple(name for name in names if name not in cycles)
        outcome = ""
        if not names:
            outcome = "cycle" if cycles else "no_route"
        targets = tuple(shard.queues.named(name) for name in names)
        return DeathPlan(reason, after, targets, outcome, cycles, route.missing_alternates)

    # -- the outbox

    def mark(self) -> int:
        """How many deaths wait; for `reverse_since`."""
        return len(self.outbox)

    def reverse_since(self, mark: int) -> None:
        """R-LEN-16: the deaths since the mark go out newest first."""
        late = [self.outbox.pop() for _ in range(len(self.outbox) - mark)]
        self.outbox.extend(late)

    def deliver(self) -> None:
        """Empty the outbox, hop by hop."""
        outbox = self.outbox
        copy, plan, row = outbox.popleft()
        if not outbox and len(plan.targets) == 1:  # as nearly always
            target = plan.targets[0]
            answer = target.arrive(
                copy.message, plan.envelope, copy.copy_id, self._shard.now_ms, copy.failures
            )
            if answer == REFUSED:
                self._refused(copy, plan, row, target)
            if outbox:
                self.deliver_counted(Counter((identity_of(copy.message),)))
            return
        outbox.appendleft((copy, plan, row))
        first_hop: list[tuple[Message, int]] = []
        copies = 0
        for _ in range(len(outbox)):
            copy, plan, row = outbox.popleft()
            copies += len(plan.targets)
            if copies > MAX_DESCENDANTS:
                outbox.appendleft((copy, plan, row))
                break
            first_hop.append((copy.message, len(plan.targets)))
            self._deliver_one(copy, plan, row)
        if outbox:
            descendants: Counter[tuple[int, int, int]] = Counter()
            for message, copies in first_hop:
                descendants[identity_of(message)] += copies
            self.deliver_counted(descendants)

    def deliver_counted(self, descendants: Counter[tuple[int, int, int]]) -> None:
        """Empty the outbox, no message leaving more than MAX_DESCENDANTS (D11).

        Args:
            descendants: what each message left behind so far in this instant; goes on counting.
        """
        outbox = self.outbox
        while outbox:
            copy, plan, row = outbox.popleft()
            identity = identity_of(copy.message)
            left = MAX_DESCENDANTS - descendants[identity]
            if left < len(plan.targets):
                plan = plan.cut(plan.targets[:left])
                self._shard.events.replace_plan(row, plan, "cascade_limit")
            descendants[identity] += len(plan.targets)
            self._deliver_one(copy, plan, row)

    def _deliver_one(self, copy: Copy, plan: DeathPlan, row: int) -> None:
        shard = self._shard
        now_ms = shard.now_ms
        envelope = plan.envelope
        for queue in plan.targets:
            answer = queue.arrive(copy.message, envelope, copy.copy_id, now_ms, copy.failures)
            if answer == REFUSED:
                self._refused(copy, plan, row, queue)

    def _refused(self, copy: Copy, plan: DeathPlan, row: int, queue: Queue) -> None:
        self._shard.note_refused(queue, copy.message, plan.envelope)
        self._events.refused_deaths.setdefault(row, []).append(queue.name)


def identity_of(message: Message) -> tuple[int, int, int]:
    """What tells a message from all others."""
    return (message.topic_number, message.partition, message.offset)
