"""At-least-once dead-lettering of quorum queues (docs/semantics.md section 18).

A dying copy stays in a buffer of its queue until every target has accepted its dead letter. If it
is refused, or no queue is reached, it is retried every `dead_letter_retry_ms`. Buffered copies are
not ready, cannot be consumed, and count towards the queue's limits (R-LEN-17). If the queue's
settings no longer ask for it, they are lost (R-ALO-7).
"""

from collections import Counter

from streaming.broker.channels.publishers import worker_of
from streaming.broker.context import ShardContext
from streaming.broker.dead_letters import planning
from streaming.broker.dead_letters.planning import DeathPlanner, identity_of
from streaming.broker.events import DIED, DeathOutcome
from streaming.broker.message import NEVER
from streaming.broker.queues.queue import DeathOutbox, Queue
from streaming.broker.state.schema import Held

MAX_IDLE_RETRIES = 10
"""When time moves far at once, a buffer that no copy leaves is retried at most this often (D11)."""

STRATEGY_CHANGED = "strategy_changed"
"""The outcome of a death that is no longer dead-lettered at least once (R-ALO-7)."""

Descendants = Counter[tuple[int, int, int]]
"""Message identity -> dead letters caused in this instant."""


class AtLeastOnce:
    """Delivers the dead letters of one shard's quorum queues until they are accepted."""

    def __init__(self, context: ShardContext, outbox: DeathOutbox, planner: DeathPlanner) -> None:
        self._context = context
        self._held = outbox.held
        self._planner = planner

    def deliver(self, descendants: Descendants) -> None:
        """Try the copies that died since the last call.

        Args:
            descendants: how many dead letters each message left in this instant (D11); updated.
        """
        for _ in range(len(self._held)):
            queue, held = self._held.popleft()
            self._try(queue, held, descendants)

    def retry(self, queue: Queue) -> None:
        """Try every copy in the buffer of a queue once."""
        clock = self._context.clock
        retry_ms = self._context.config.dead_letter_retry_ms
        due_ms = queue.held.retry_timer_ms = clock.now_ms + retry_ms
        fifo = queue.held.fifo
        descendants: Descendants = Counter()
        held = len(fifo)
        for _ in range(held):
            self._try(queue, fifo.popleft(), descendants)
        if not fifo:
            queue.held.retry_timer_ms = NEVER
            return
        if len(fifo) == held:
            due_ms = max(due_ms, clock.heading_ms - MAX_IDLE_RETRIES * retry_ms)
        queue.held.arm_retry(due_ms)

    def release_unwanted(self, queue: Queue) -> None:
        """Let go of the held copies of a queue whose new settings do not keep them (R-ALO-7)."""
        if queue.holds_deaths or not queue.quorum:
            return
        queue.channels.publishers.forget(worker_of(queue.number))
        for held in queue.held.take_all():
            plan = self._planner.new_plan(queue, held.copy, held.reason, held.died_at_s)
            planned = plan.outcome
            outcome = DeathOutcome(
                held.reason, planned.envelope, held.accepted, STRATEGY_CHANGED, planned.cycles
            )
            self._context.events.add_death(DIED, queue.name, held.copy, outcome)

    def retry_unrouted(self, queue: Queue) -> None:
        """Try the copies that never had a target, because the settings changed (R-ALO-3)."""
        if not queue.held.count:
            return
        fifo = queue.held.fifo
        descendants: Descendants = Counter()
        for _ in range(len(fifo)):
            held = fifo.popleft()
            if held.asked:
                fifo.append(held)
            else:
                self._try(queue, held, descendants)
        if not fifo:
            queue.held.retry_timer_ms = NEVER

    def _try(self, queue: Queue, held: Held, descendants: Descendants) -> None:
        copy = held.copy
        message = copy.message
        plan = self._planner.new_plan(queue, copy, held.reason, held.died_at_s)
        self._context.alternate_warnings.warn(plan.missing_alternates)
        accepted = frozenset(held.accepted)
        missing = [target for target in plan.targets if target.name not in accepted]
        willing: list[str] = []
        asked: list[Queue] = []
        for target in missing:
            if not target.would_refuse(message.size, worker_of(queue.number)):
                willing.append(target.name)
                asked.append(target)
            elif target.settings.overflow == "reject-publish-dlx":
                asked.append(target)  # it refuses the message and yet dead-letters it (R-LEN-9)
        identity = identity_of(message)
        limited = descendants[identity] + len(asked) > planning.MAX_DESCENDANTS
        if limited:
            plan = plan.cut(0)
            asked = []
        descendants[identity] += len(asked)
        routes_are_gone = bool(accepted) and plan.outcome.outcome == planning.NO_ROUTE
        done = limited or routes_are_gone or (bool(missing) and len(willing) == len(missing))
        if done:
            queue.held.release(copy)
            events = self._context.events
            if held.cause is not None:
                events.details[len(events)] = {"cause": held.cause}
            outcome = plan.outcome
            if not accepted.issubset(outcome.targets) and not limited:
                names = (*held.accepted, *willing)
                outcome = DeathOutcome(held.reason, outcome.envelope, names, "", outcome.cycles)
            events.add_death(DIED, queue.name, copy, outcome)
        now_ms = self._context.clock.now_ms
        for target in asked:
            target.arrive(message, plan.outcome.envelope, copy.copy_id, now_ms, copy.failures)
        if not done:
            held.accepted += tuple(willing)
            held.asked |= bool(plan.targets)
            queue.held.keep(held)
        queue.settled()
