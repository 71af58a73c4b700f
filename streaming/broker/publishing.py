"""Publishing: from what a publisher sent to copies in queues, confirms and returns.

What becomes of a publish depends on the publication (shared by alike publishes) and the publisher
alone, until the topology changes; so it is worked out once and remembered as a `PublishPlan`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from streaming.broker.dead_letters.x_death import matching_headers
from streaming.broker.events import Kind
from streaming.broker.message import NO_COPY, Envelope, Message, Publication
from streaming.broker.outbound import ConfirmOut, PublishErrorOut, ReturnOut
from streaming.broker.queues.queue import ACCEPTED, REFUSED
from topology.refusals import Refusal, internal_exchange, no_exchange, precondition_failed
from topology.values import amqp_type

if TYPE_CHECKING:
    from streaming.broker.queues.queue import Queue
    from streaming.broker.shard import Shard

MANDATORY, IMMEDIATE, CONFIRM = 1, 2, 4
"""Flags of a publish."""

MAX_EXPIRATION_MS = 315_360_000_000
"""Ten years (R-TTL-6)."""

MAX_PRIORITY = 255
"""AMQP gives the priority one byte."""

NO_ROUTE, NO_CONSUMERS = 312, 313

MAX_PLANS = 50_000

_INTEGER = re.compile(r"([+-]?[0-9]+)(.*)", re.DOTALL)
_LINE = 80


class PublishPlan:
    """What becomes of alike publishes.

    Attributes:
        plain: nothing but to let the message arrive in the queues, of which there is one at least.
    """

    __slots__ = ("envelope", "missing_alternates", "plain", "queues", "refusal")

    def __init__(
        self,
        refusal: Refusal | None,
        envelope: Envelope,
        queues: tuple[Queue, ...] = (),
        missing_alternates: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.refusal = refusal
        self.envelope = envelope
        self.queues = queues
        self.missing_alternates = missing_alternates
        self.plain = bool(queues) and not missing_alternates


class Publishing:
    """The publishes of one shard.

    Attributes:
        plans: those of the user who acts now.
    """

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.plans: dict[Publication, PublishPlan] = {}
        self._plans_of: dict[str | None, dict[Publication, PublishPlan]] = {}
        self._routes: dict[tuple[str, tuple[str, ...]], Any] = {}
        self.act(shard.actor.user)

    def act(self, user: str | None) -> None:
        """From now on this user publishes."""
        self.plans = self._plans_of.setdefault(user, {})

    def forget_plans(self) -> None:
        """The topology changed."""
        self._plans_of = {}
        self._routes = {}
        self.act(self._shard.actor.user)

    def publish(self, message: Message, publication: Publication, flags: int) -> None:
        """Carry one publish out, but for the dead letters it causes."""
        shard = self._shard
        plan = self.plans.get(publication)
        if plan is None:
            if len(self.plans) >= MAX_PLANS:
                self.plans.clear()
            plan = self.plans[publication] = self._plan(publication, shard.actor.user)
        if flags or not plan.queues:
            self._publish_with_care(message, plan, flags)
            return
        for queue in plan.queues:
            if queue.arrive(message, plan.envelope, NO_COPY, shard.publish_base_ms) == REFUSED:
                shard.note_refused(queue, message, plan.envelope)
        if plan.missing_alternates:
            shard.alternate_warnings.warn(plan.missing_alternates)

    def _publish_with_care(self, message: Message, plan: PublishPlan, flags: int) -> None:
        """Everything that is not a plain publish to some queue."""
        shard = self._shard
        events = shard.events
        if plan.refusal is not None:
            detail = {"code": plan.refusal.code, "text": plan.refusal.text}
            row = events.add(Kind.PUBLISH_ERROR, detail=detail)
            events.messages[row] = (message, plan.envelope)
            shard.outbound.append(PublishErrorOut(row, shard.actor, message, plan.refusal))
            shard.sessions.close_after_error(shard.actor)
            return
        shard.alternate_warnings.warn(plan.missing_alternates)
        queues = plan.queues
        if flags & IMMEDIATE:
            queues = self._immediate_queues(plan)
        if not queues:
            self._unroutable(message, plan, flags)
            return
        row = len(events)
        accepted = True
        for queue in queues:
            result = queue.arrive(message, plan.envelope, NO_COPY, shard.publish_base_ms)
            if result != ACCEPTED:
                accepted = False
                if result == REFUSED:
                    shard.note_refused(queue, message, plan.envelope)
        if flags & CONFIRM:
            shard.outbound.append(ConfirmOut(row, shard.actor, message, accepted))

    def _unroutable(self, message: Message, plan: PublishPlan, flags: int) -> None:
        """R-ROUTE-9: returned if mandatory (or immediate), else dropped; confirmed either way."""
        shard = self._shard
        events = shard.events
        envelope = plan.envelope
        code, text = 0, ""
        if flags & MANDATORY and not plan.queues:
            code, text = NO_ROUTE, "NO_ROUTE"
        elif flags & IMMEDIATE:
            code, text = NO_CONSUMERS, "NO_CONSUMERS"
        if code:
            row = events.add(Kind.RETURNED, number=code)
            shard.outbound.append(ReturnOut(row, shard.actor, message, envelope, code, text))
        else:
            row = events.add(Kind.UNROUTABLE)
        events.messages[row] = (message, envelope)
        if flags & CONFIRM:
            shard.outbound.append(ConfirmOut(row, shard.actor, message, ack=True))

    def _immediate_queues(self, plan: PublishPlan) -> tuple[Queue, ...]:
        """The queues that can deliver at once; along the alternate exchanges until some can."""
        shard = self._shard
        router = shard.topology.router
        envelope = plan.envelope
        queues = plan.queues
        exchange: str | None = envelope.exchange
        seen = set()
        while True:
            ready = tuple(queue for queue in queues if shard.consumers.can_take(queue))
            seen.add(exchange)
            exchange = router.alternate_of(exchange) if exchange else None
            if ready or exchange is None or exchange in seen:
                return ready
            route = router.route(exchange, envelope.routing_keys, matching_headers(envelope))
            queues = tuple(shard.queues.named(name) for name in route.queues)

    def refuse(self, publication: Publication, user: str | None) -> Refusal | None:
        """Why a publish by this user would be refused; None if it would not."""
        _, malformed = _envelope(publication, self._shard.config.compat)
        return self._refuse(publication.exchange, user, malformed)

    def _refuse(self, name: str, user: str | None, malformed: Refusal | None) -> Refusal | None:
        """The checks, in RabbitMQ's order.

        Args:
            malformed: what is wrong with the message itself.
        """
        topology = self._shard.topology
        vhost = self._shard.config.vhost
        forbidden = topology.refuse_access(user, [("write", "exchange", name)], vhost)
        if forbidden is not None:
            return forbidden
        exchange = topology.router.exchanges.get(name)
        if exchange is None:
            return no_exchange(name, vhost)
        return internal_exchange(name, vhost) if exchange.internal else malformed

    def _plan(self, publication: Publication, user: str | None) -> PublishPlan:
        """The checks, then the route."""
        shard = self._shard
        topology = shard.topology
        name = publication.exchange
        envelope, malformed = _envelope(publication, shard.config.compat)
        refusal = self._refuse(name, user, malformed)
        if refusal is not None:
            return PublishPlan(refusal, envelope)
        known = self._routes.get((name, envelope.routing_keys))
        if known is not None:
            return PublishPlan(None, envelope, *known)
        route = topology.router.route(name, envelope.routing_keys, matching_headers(envelope))
        queues = tuple(shard.queues.named(queue) for queue in route.queues)
        if route.keyed_only and len(self._routes) < MAX_PLANS:
            self._routes[(name, envelope.routing_keys)] = (queues, route.missing_alternates)
        return PublishPlan(None, envelope, queues, route.missing_alternates)


def _envelope(publication: Publication, compat: str) -> tuple[Envelope, Refusal | None]:
    """The envelope of a publication, and what is wrong with it (R-TTL-6, R-CC-4)."""
    properties = publication.properties
    refusal = None
    expiration = properties.get("expiration")
    ttl_ms = None
    if expiration is not None:
        ttl_ms, reason = _expiration(str(expiration))
        if reason:
            refusal = precondition_failed(_wrapped(f"invalid expiration '{expiration}': ", reason))
        elif compat != "3.10":
            expiration = str(ttl_ms)
        properties = {key: value for key, value in properties.items() if key != "expiration"}
    headers = publication.headers
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    if headers is not None and ("CC" in headers or "BCC" in headers):
        for header in ("CC", "BCC"):
            value = headers.get(header, [])
            if not isinstance(value, list):
                fault = f'{{unacceptable_type_in_header,"{header}",{amqp_type(value)}}}'
                refusal = refusal or precondition_failed(f"invalid message: {fault}")
                continue
            keys = tuple(key for key in value if isinstance(key, str))
            if header == "CC":
                cc = keys
            else:
                bcc = keys
        headers = {key: value for key, value in headers.items() if key != "BCC"}
    priority = properties.get("priority")
    envelope = Envelope(
        publication.exchange,
        (publication.routing_key, *cc, *bcc),
        bcc,
        properties,
        headers,
        expiration,
        ttl_ms,
        min(max(int(priority), 0), MAX_PRIORITY) if isinstance(priority, int) else 0,
        foreign=publication.foreign,
    )
    return envelope, refusal


def _expiration(text: str) -> tuple[int | None, str]:
    """Milliseconds, or why not, in RabbitMQ's words (R-TTL-6)."""
    match = _INTEGER.match(text)
    if match is None:
        return None, "no_integer"
    digits, rest = match.groups()
    if rest:
        return None, f'{{leftover_string,"{rest}"}}'
    number = int(digits) if len(digits) < _LINE else MAX_EXPIRATION_MS + 1
    if number < 0:
        return None, f"{{value_negative,{number}}}"
    if number > MAX_EXPIRATION_MS:
        return None, f"{{value_too_large,{digits.lstrip('+')}}}"
    return number, ""


def _wrapped(start: str, term: str) -> str:
    """A term as RabbitMQ prints it: broken after the comma where it would pass column 80."""
    head, comma, tail = term.partition(",")
    if comma and len(start) + len(term) > _LINE:
        return f"{start}{head},\n{' ' * (len(start) + 1)}{tail}"
    return start + term
