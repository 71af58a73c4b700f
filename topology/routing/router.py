"""Which queues does a message reach? The walk over exchanges (docs/semantics.md sections 2 and 6).

The router holds one vhost's exchanges, queue names and bindings, one matcher per exchange, and the
effective alternate exchange of each. It checks neither permissions nor validity: callers use
`validation` and `permissions` first.

The walk starts with the exchange published to. Evaluating an exchange yields the destinations that
its own bindings match; if there are none, neither queue nor exchange, its alternate exchange is the
only destination. Queues join the result, a set; exchanges met for the first time are evaluated in
turn. No exchange is evaluated twice, so bindings and alternates may form any cycle. The default
exchange routes to queues by name if it is published to, and nowhere if it is merely reached
(R-AE-9).
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from topology.declarations import PREDECLARED, Binding, BindingEnd, DestinationType, Exchange
from topology.routing.bindings import BindingTable, Destinations
from topology.routing.exchanges import Matcher, new_matcher
from topology.values import AmqpValue, Compat

MAX_KNOWN: Final = 50_000
"""Routes that a router remembers until something changes."""


class Route(msgspec.Struct, frozen=True):
    """Where a message goes.

    Attributes:
        queues: names, sorted; each gets one copy (R-ROUTE-6).
        missing_alternates: (exchange, alternate exchange) for each alternate that was needed and
            does not exist (R-AE-4).
        keyed_only: whether the result depends on exchange and routing keys alone, so that it can be
            cached by them until the topology changes.
    """

    queues: tuple[str, ...] = ()
    missing_alternates: tuple[tuple[str, str], ...] = ()
    keyed_only: bool = True


class Hop(msgspec.Struct, frozen=True):
    """One step of a message from an exchange.

    Attributes:
        via: what led there: a binding, the queue's name (default exchange), or an alternate
            exchange, which may be missing.
        binding: the binding, if `via` is one.
        again: whether the destination was reached before, so that this hop changes nothing.
    """

    exchange: str
    destination: str
    destination_type: DestinationType
    via: Literal["binding", "default exchange", "alternate exchange", "missing alternate exchange"]
    binding: Binding | None = None
    again: bool = False


class Router:
    """The exchanges, queues and bindings of one vhost; changed step by step.

    Attributes:
        exchanges: the declared exchanges by name, with those that every vhost has.
        bindings: the bindings; change them by the router's methods only.
    """

    def __init__(self, compat: Compat = "4.0") -> None:
        self.compat = compat
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, None] = {}
        self._alternates: dict[str, str] = {}
        self._matchers: dict[str, Matcher] = {}
        self._known: dict[tuple[str, tuple[str, ...]], Route] = {}
        self.bindings = BindingTable()
        for exchange in PREDECLARED:
            self.declare_exchange(exchange)

    def declare_exchange(self, exchange: Exchange, alternate: str | None = None) -> None:
        """Add an exchange that does not exist yet, of one of the four types.

        `alternate` is its effective alternate exchange (argument or policy).
        """
        assert exchange.name not in self.exchanges, f"exchange {exchange.name!r} exists"
        self._known.clear()
        self.exchanges[exchange.name] = exchange
        self._matchers[exchange.name] = new_matcher(exchange.type, self.compat)
        self.set_alternate(exchange.name, alternate)

    def set_alternate(self, name: str, alternate: str | None) -> None:
        """Set or, with None, remove the effective alternate exchange of an exchange."""
        self._known.clear()
        if alternate is None:
            self._alternates.pop(name, None)
        else:
            self._alternates[name] = alternate

    def alternate_of(self, name: str) -> str | None:
        """The effective alternate exchange of an exchange, which need not exist."""
        return self._alternates.get(name)

    def delete_exchange(self, name: str) -> list[Binding]:
        """Remove an exchange and the bindings from and to it; returns those bindings, in order."""
        self._known.clear()
        removed = self.bindings.of_exchange(name)
        del self.exchanges[name]
        del self._matchers[name]
        self._alternates.pop(name, None)
        for binding in removed:
            self.bindings.remove(binding)
            if binding.source != name:
                self._matchers[binding.source].remove(binding)
        return removed

    def declare_queue(self, name: str) -> None:
        """Add a queue, unless it exists."""
        self._known.clear()
        self.queues[name] = None

    def delete_queue(self, name: str) -> list[Binding]:
        """Remove a queue and the bindings to it; returns those bindings, in order."""
        self._known.clear()
        del self.queues[name]
        removed = self.bindings.to(("queue", name))
        for binding in removed:
            self.bindings.remove(binding)
            self._matchers[binding.source].remove(binding)
        return removed

    def bind(self, binding: Binding) -> bool:
        """Add a binding between existing ends; False if an equal one exists."""
        if not self.bindings.add(binding):
            return False
        self._known.clear()
        self._matchers[binding.source].add(binding)
        return True

    def unbind(self, binding: Binding) -> bool:
        """Remove a binding; False if there is no equal one."""
        if binding not in self.bindings:
            return False
        self._known.clear()
        self.bindings.remove(binding)
        self._matchers[binding.source].remove(binding)
        return True

    def route(
        self,
        exchange: str,
        routing_keys: tuple[str, ...],
        headers: Mapping[str, AmqpValue] | None = None,
    ) -> Route:
        """The queues that a message published to `exchange` reaches; none if it does not exist.

        The first of the routing keys is the message's own; its CC and BCC keys follow.
        """
        known = self._known.get((exchange, routing_keys))
        if known is not None:
            return known
        route = self._route(exchange, routing_keys, headers)
        if route.keyed_only:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[(exchange, routing_keys)] = route
        return route

    def _route(
        self,
        exchange: str,
        routing_keys: tuple[str, ...],
        headers: Mapping[str, AmqpValue] | None,
    ) -> Route:
        matcher = self._matchers.get(exchange)
        if matcher is None:
            return _NOWHERE
        if not exchange:
            return Route(tuple(sorted({key for key in routing_keys if key in self.queues})))
        groups = matcher.match(routing_keys, headers)
        if len(groups) == 1 and not groups[0].exchanges:
            return Route(groups[0].sorted_queues, (), not matcher.reads_headers)
        return self._walk(exchange, routing_keys, headers, groups)[0]

    def exchanges_reached(
        self,
        exchange: str,
        routing_keys: tuple[str, ...],
        headers: Mapping[str, AmqpValue] | None = None,
    ) -> list[str]:
        """The exchanges on the route of a message, `exchange` first."""
        if not exchange:
            return [exchange]
        groups = self._matchers[exchange].match(routing_keys, headers)
        return self._walk(exchange, routing_keys, headers, groups)[1]

    def _walk(
        self,
        exchange: str,
        routing_keys: tuple[str, ...],
        headers: Mapping[str, AmqpValue] | None,
        groups: list[Destinations],
    ) -> tuple[Route, list[str]]:
        """The route from an exchange that matches these destinations, and the exchanges on it."""
        matcher = self._matchers[exchange]
        queues: set[str] = set()
        missing: list[tuple[str, str]] = []
        keyed_only = True
        work = [exchange]
        seen = {exchange}
        for source in work:
            if source != exchange:
                matcher = self._matchers[source]
                groups = matcher.match(routing_keys, headers)
            keyed_only = keyed_only and not matcher.reads_headers
            following: set[str] = set()
            for group in groups:
                queues.update(group.queues)
                following.update(group.exchanges)
            if not groups and source in self._alternates:
                alternate = self._alternates[source]
                if alternate in self._matchers:
                    following.add(alternate)
                else:
                    missing.append((source, alternate))
            if following:
                work.extend(sorted(following - seen))
                seen |= following
        return Route(tuple(sorted(queues)), tuple(missing), keyed_only), work

    def match(
        self, exchange: str, routing_key: str, headers: Mapping[str, AmqpValue] | None = None
    ) -> list[Destinations]:
        """The destinations that an exchange's own bindings match, in groups."""
        return self._matchers[exchange].match((routing_key,), headers)

    def explain(
        self,
        exchange: str,
        routing_keys: tuple[str, ...],
        headers: Mapping[str, AmqpValue] | None = None,
    ) -> list[Hop]:
        """Every step of the walk that `route` makes, in order; slow: it tries each binding."""
        if not exchange:
            names = sorted({key for key in routing_keys if key in self.queues})
            return [Hop("", name, "queue", "default exchange") for name in names]
        hops: list[Hop] = []
        seen: set[BindingEnd] = {("exchange", exchange)}
        work = [exchange] if exchange in self._matchers else []
        for source in work:
            for hop in self._hops_from(source, routing_keys, headers):
                node = (hop.destination_type, hop.destination)
                hops.append(msgspec.structs.replace(hop, again=node in seen))
                if hop.via == "missing alternate exchange" or node in seen:
                    continue
                seen.add(node)
                if hop.destination_type == "exchange":
                    work.append(hop.destination)
        return hops

    def _hops_from(
        self, source: str, routing_keys: tuple[str, ...], headers: Mapping[str, AmqpValue] | None
    ) -> list[Hop]:
        hops: list[Hop] = []
        for binding in self.bindings.from_exchange(source):
            alone = new_matcher(self.exchanges[source].type, self.compat)
            alone.add(binding)
            if alone.match(routing_keys, headers):
                destination, kind = binding.destination, binding.destination_type
                hops.append(Hop(source, destination, kind, "binding", binding))
        alternate = self._alternates.get(source)
        if not hops and alternate is not None:
            if alternate in self._matchers:
                hops.append(Hop(source, alternate, "exchange", "alternate exchange"))
            else:
                hops.append(Hop(source, alternate, "exchange", "missing alternate exchange"))
        return hops


_NOWHERE = Route()
