"""Publishing: from what a publisher sent to copies in queues, confirms and returns.

What becomes of a publish depends only on the publication (publishes that are alike share one) and
the publisher, until the vhost changes. So it is planned once, and the `PublishPlan` is cached.
Where a headers exchange is reached, the queues depend on the message's headers too, and are looked
up for each message.
"""

from typing import Any

from streaming.broker.context import ShardContext
from streaming.broker.dead_letters.message_route import headers_for, route_of
from streaming.broker.envelopes import envelope_of, shared_envelope
from streaming.broker.events import Actor, Kind
from streaming.broker.lanes import HOME, takes
from streaming.broker.message import (
    AWAY,
    CONFIRM,
    IMMEDIATE,
    MANDATORY,
    NO_COPY,
    Envelope,
    Message,
    Publication,
    Routed,
)
from streaming.broker.outbound import ConfirmOut, PublishErrorOut, ReturnOut
from streaming.broker.queues.queue import ACCEPTED, REFUSED, Queue
from streaming.broker.queues.registry import QueueRegistry
from streaming.broker.redrives.version_keys import version_of
from streaming.broker.redrives.versions import Versions, refuse_edit
from streaming.broker.state.vhost_codec import MissingAlternate
from streaming.broker.transactions import destinations, route_now
from topology.refusals import (
    Refusal,
    internal_exchange,
    no_exchange,
    user_id_mismatch,
)

NO_ROUTE, NO_CONSUMERS = 312, 313

MAX_PLANS = 50_000


class PublishPlan:
    """What becomes of publishes that are alike.

    Attributes:
        by_headers: the queues and missing alternates depend on the message's headers.
        queues: those that get the message from this lane, if it has the publish.
        single: those of them that are on the home lane only; empty in a vhost of one lane.
        is_split: both the home lane and the publish's own lane have queues of it.
        is_version: it is a version of a letter that a redrive edits.
        is_routed: it was routed before, in a transaction (R-TX-2).
        had_queues: it is not returned then, even if the queues are gone.
        is_lost: one of those queues is gone, so it is not confirmed.
        plain: the message only has to arrive in its queues, of which there is at least one, and
            this lane alone confirms it.

    A worker keeps plans between batches. Then they have the names of their queues, not the queues.
    """

    __slots__ = (
        "_names",
        "by_headers",
        "envelope",
        "had_queues",
        "is_lost",
        "is_routed",
        "is_split",
        "is_version",
        "missing_alternates",
        "plain",
        "queues",
        "refusal",
        "single",
    )

    def __init__(
        self,
        refusal: Refusal | None,
        envelope: Envelope,
        queues: tuple[Queue, ...] = (),
        missing_alternates: tuple[MissingAlternate, ...] = (),
        *,
        by_headers: bool = False,
        single: tuple[Queue, ...] = (),
        is_split: bool = False,
        is_version: bool = False,
        is_routed: bool = False,
        had_queues: bool = False,
        is_lost: bool = False,
    ) -> None:
        self.refusal = refusal
        self.envelope = envelope
        self.queues = queues
        self.missing_alternates = missing_alternates
        self.by_headers = by_headers
        self.single = single
        self.is_split = is_split
        self.is_version = is_version
        self.is_routed = is_routed
        self.had_queues = had_queues
        self.is_lost = is_lost
        is_rare = missing_alternates or by_headers or is_split or is_routed
        self.plain = bool(queues) and not is_rare
        self._names: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    def rest(self) -> None:
        """Refer to no queue of the batch that ends."""
        if self._names is None:
            self._names = (_names(self.queues), _names(self.single))
        self.queues = self.single = ()

    def resume(self, queues: QueueRegistry) -> None:
        """Refer to the queues of the batch that uses the plan."""
        assert self._names is not None
        names, single = self._names
        self.queues = tuple(map(queues.named, names))
        if single:
            self.single = tuple(map(queues.named, single))


def _names(queues: tuple[Queue, ...]) -> tuple[str, ...]:
    return tuple([queue.name for queue in queues])


KeptPlans = dict[str | None, dict[Publication, PublishPlan]]
"""User -> publication -> its plan."""


class Publishing:
    """Carries out the publishes of one shard.

    Args:
        kept: plans of earlier batches, by user; their vhost and configuration were the same.

    Attributes:
        plans: the cached plans of the current user; all are of one version of the vhost.
    """

    def __init__(self, context: ShardContext, queues: QueueRegistry, kept: KeptPlans) -> None:
        self._context = context
        self._clock = context.clock
        self._queues = queues
        self._versions = Versions(context)
        self.plans: dict[Publication, PublishPlan] = {}
        self._version = context.vhost.version
        self._plans_of: KeptPlans = {}
        self._kept = kept
        self._kept_plans: dict[Publication, PublishPlan] = {}  # of the current user
        self._allowed: set[tuple[str, str | None]] = set()  # exchange and user
        self.act(context.actor)

    def refresh(self) -> None:
        """Invalidate all plans if the vhost changed."""
        version = self._context.vhost.version
        if version == self._version:
            return
        self._version = version
        self._plans_of = {}
        self._kept = {}
        self._allowed = set()
        self.act(self._context.actor)

    def act(self, actor: Actor) -> None:
        """Switch to the plans of an actor's user."""
        self.plans = self._plans_of.setdefault(actor.user, {})
        self._kept_plans = self._kept.setdefault(actor.user, {})

    def plan(self, publication: Publication, message: Message) -> PublishPlan:
        """Plan the publishes that are alike, of which `message` is the first; cache the plan."""
        if len(self.plans) >= MAX_PLANS:
            self.plans.clear()
            self._kept_plans.clear()
        plan = self._kept_plans.get(publication)
        if plan is None:
            plan = self._plan(publication, self._context.actor.user, message)
        else:
            plan.resume(self._queues)
        self.plans[publication] = plan
        return plan

    def save(self) -> KeptPlans:
        """Return the plans that may be kept for batches with the same vhost."""
        kept = {user: plans for user, plans in self._kept.items() if len(plans) <= MAX_PLANS}
        for user, plans in self._plans_of.items():
            kept_plans = kept.setdefault(user, {})
            for publication, plan in plans.items():
                if publication.headers is None:  # others are not interned
                    plan.rest()
                    kept_plans[publication] = plan
        return {user: plans for user, plans in kept.items() if plans}

    def publish(self, message: Message, plan: PublishPlan, flags: int) -> Refusal | None:
        """Publish without a queue, with a refusal, a warning or rare flags, or on several lanes.

        `Shard.publish` handles other plans itself. The dead letters that this causes are not
        delivered yet.

        Returns:
            Why it was refused; the caller closes the channel.
        """
        context = self._context
        events = context.events
        lane = context.config.lane
        if plan.refusal is not None:
            if lane != HOME:  # the home lane tells the publisher
                return plan.refusal
            detail = {"code": plan.refusal.code, "text": plan.refusal.text}
            row = events.add(Kind.PUBLISH_ERROR, detail=detail)
            events.messages[row] = (message, plan.envelope)
            context.outbound.append(PublishErrorOut(row, context.actor, message, plan.refusal))
            return plan.refusal
        if plan.by_headers:
            plan = self._routed(plan.envelope, message)
        queues = plan.queues
        is_away = flags & AWAY > 0
        if is_away:
            if plan.is_version or (queues and not plan.single):
                return None  # another lane does all of it
            queues = plan.single
        elif lane != HOME and not queues and not plan.is_version:
            return None
        is_part = plan.is_split and (lane != HOME or is_away)
        if lane == HOME:
            context.alternate_warnings.warn(plan.missing_alternates)
        if flags & IMMEDIATE:
            queues = self._immediate_queues(plan, message, queues, is_away=is_away)
        if not queues:
            self._unroutable(message, plan, flags, is_part=is_part)
            return None
        row = len(events)
        accepted = not plan.is_lost
        for queue in queues:
            answer = queue.arrive(message, plan.envelope, NO_COPY, self._clock.publish_base_ms)
            if answer != ACCEPTED:
                accepted &= plan.is_routed and queue.quorum  # see R-TX-3
                if answer == REFUSED:
                    events.add_refused(queue.name, message, plan.envelope)
        if flags & CONFIRM:
            context.outbound.append(ConfirmOut(row, context.actor, message, accepted, is_part))
        return None

    def _unroutable(
        self, message: Message, plan: PublishPlan, flags: int, *, is_part: bool
    ) -> None:
        """Return the message if it is mandatory or immediate, else drop it; confirm both ways.

        See R-ROUTE-9.
        """
        context = self._context
        events = context.events
        envelope = plan.envelope
        code, text = 0, ""
        if flags & MANDATORY and not plan.queues and not plan.had_queues:
            code, text = NO_ROUTE, "NO_ROUTE"
        elif flags & IMMEDIATE:
            code, text = NO_CONSUMERS, "NO_CONSUMERS"
        if code:
            row = events.add(Kind.RETURNED, number=code)
            context.outbound.append(ReturnOut(row, context.actor, message, envelope, code, text))
        else:
            if plan.is_version:
                version = version_of(envelope.exchange, envelope.routing_keys[0])
                self._versions.keep(version, message)
            row = events.add(Kind.EDITED if plan.is_version else Kind.UNROUTABLE)
        events.messages[row] = (message, envelope)
        if flags & CONFIRM:
            accepted = not plan.is_lost
            context.outbound.append(ConfirmOut(row, context.actor, message, accepted, is_part))

    def _immediate_queues(
        self, plan: PublishPlan, message: Message, queues: tuple[Queue, ...], *, is_away: bool
    ) -> tuple[Queue, ...]:
        """The queues that can deliver at once.

        If there are none, the message follows the alternate exchanges of all exchanges on its
        route, until some queue can.
        """
        router = self._context.vhost.router
        keys = plan.envelope.routing_keys
        missing: list[MissingAlternate] = []
        exchanges = [plan.envelope.exchange]
        for exchange in exchanges:
            headers = headers_for(self._context, exchange, plan.envelope, message)
            if exchange != plan.envelope.exchange:
                route = router.route(exchange, keys, headers)
                queues = tuple([self._queues.named(name) for name in route.queues])
                queues = self._of_this_lane(queues, is_away=is_away)
                missing += route.missing_alternates
            queues = tuple([queue for queue in queues if queue.can_deliver()])
            if queues:
                break
            for reached in router.exchanges_reached(exchange, keys, headers):
                alternate = router.alternate_of(reached)
                if alternate is None or alternate in exchanges:
                    continue
                if alternate in router.exchanges:
                    exchanges.append(alternate)
                else:
                    missing.append((reached, alternate))
        self._context.alternate_warnings.warn(tuple(missing))
        return queues

    def route(
        self, publication: Publication, user: str | None, headers: dict[str, Any] | None
    ) -> Routed | Refusal | None:
        """Where a publish in a transaction goes when that is committed (R-TX-2).

        Args:
            headers: of the message.

        Returns:
            Why it is refused, or its queues; None: the commit checks and routes it.
        """
        context = self._context
        envelope, malformed = envelope_of(publication, context.config.compat)
        refusal = self._refuse(publication, envelope, user, malformed)
        if refusal is not None:
            return refusal
        if version_of(publication.exchange, publication.routing_key):
            return None
        return route_now(context, self._queues, envelope, headers)

    def refuse(self, publication: Publication, user: str | None) -> Refusal | None:
        """Why a publish by this user would be refused; None if it would be accepted."""
        envelope, malformed = envelope_of(publication, self._context.config.compat)
        return self._refuse(publication, envelope, user, malformed)

    def _refuse(
        self,
        publication: Publication,
        envelope: Envelope,
        user: str | None,
        malformed: Refusal | None,
    ) -> Refusal | None:
        """Check a publish in RabbitMQ's order.

        Args:
            malformed: what is wrong with the message itself.
        """
        name = publication.exchange
        vhost = self._context.vhost
        vhost_name = self._context.config.vhost
        forbidden = vhost.refuse_access(user, [("write", "exchange", name)], vhost_name)
        if forbidden is not None:
            return forbidden
        exchange = vhost.router.exchanges.get(name)
        if exchange is None:
            return no_exchange(name, vhost_name)
        if exchange.internal:
            return internal_exchange(name, vhost_name)
        if self._context.config.compat == "3.10":
            keys = envelope.routing_keys[:1]
            forbidden = vhost.refuse_topics(user, "write", exchange, keys, vhost_name)
            return forbidden or self._refuse_user_id(publication, user) or malformed
        return (
            malformed
            or vhost.refuse_topics(user, "write", exchange, envelope.routing_keys, vhost_name)
            or self._refuse_user_id(publication, user)
        )

    def _refuse_user_id(self, publication: Publication, user: str | None) -> Refusal | None:
        """406 if the message names another user (R-USER-1); an edited letter keeps its own."""
        user_id = publication.user_id
        if user_id is None or user is None or user_id == user:
            return None
        if user in self._context.config.impersonators:
            return None
        if version_of(publication.exchange, publication.routing_key):
            return None
        return user_id_mismatch(user_id, user)

    def _plan(self, publication: Publication, user: str | None, message: Message) -> PublishPlan:
        """Check and route a publication."""
        name = publication.exchange
        envelope, malformed = shared_envelope(publication, self._context.config.compat)
        if publication.routed is not None:
            queues, had_queues, is_lost = destinations(
                self._context, self._queues, publication.routed
            )
            return PublishPlan(
                None, envelope, queues, is_routed=True, had_queues=had_queues, is_lost=is_lost
            )
        is_version = bool(version_of(name, publication.routing_key))
        is_allowed = (name, user) in self._allowed and publication.user_id is None
        if malformed is not None or is_version or not is_allowed:
            refusal = self._refuse(publication, envelope, user, malformed)
            if is_version and refusal is None:
                refusal = refuse_edit(self._context.config, user)
            if refusal is not None or is_version:
                return PublishPlan(refusal, envelope, is_version=is_version)
            if not self._context.vhost.topic_permissions.knows(user, name):
                self._allowed.add((name, user))
        return self._routed(envelope, message)

    def _routed(self, envelope: Envelope, message: Message) -> PublishPlan:
        """Plan a publish that is accepted."""
        route = route_of(self._context, envelope, message)
        queues = tuple([self._queues.named(queue) for queue in route.queues])
        single = self._of_this_lane(queues, is_away=True)
        return PublishPlan(
            None,
            envelope,
            self._of_this_lane(queues, is_away=False),
            route.missing_alternates,
            by_headers=not route.keyed_only,
            single=single,
            is_split=0 < len(single) < len(queues),
        )

    def _of_this_lane(self, queues: tuple[Queue, ...], *, is_away: bool) -> tuple[Queue, ...]:
        """The queues that get a message from this lane; see `lanes.takes`."""
        config = self._context.config
        if config.lanes == 1:
            return () if is_away else queues
        return tuple([queue for queue in queues if takes(config, queue.settings, is_away=is_away)])
