"""Which queues could a message reach, if only its routing key is known, or not even that?

`Router` answers for one message. Here the answer holds for any message: it may name a queue that no
actual message reaches, and never omits one. Keys are `str`, or None if unknown. CC and BCC keys are
ignored.
"""

from topology.analysis.key_patterns import is_literal, pattern_of
from topology.declarations import Binding, BindingEnd
from topology.vhost import Vhost

Key = str | None


class Reach:
    """Possible destinations in a vhost that does not change; caches its answers."""

    def __init__(self, vhost: Vhost) -> None:
        self._queues = vhost.queues
        self._router = vhost.router
        self._any_hops: dict[str, tuple[BindingEnd, ...]] = {}
        self._known: dict[tuple[str, Key], tuple[str, ...]] = {}
        self._reads_key: dict[str, bool] = {}
        self._depends: dict[str, bool] = {}

    def from_exchange(self, exchange: str, key: Key) -> tuple[str, ...]:
        """The queues, sorted, that a message published to an exchange may reach.

        The default exchange with an unknown key may reach every queue (R-ROUTE-1); a missing
        exchange reaches none.
        """
        if not exchange and key is not None:
            return (key,) if key in self._queues else ()
        if exchange and key is not None and not self._depends_on_key(exchange):
            key = None
        asked = (exchange, key)
        if asked not in self._known:
            ends = self._ends(exchange, key) if exchange else [("queue", q) for q in self._queues]
            self._known[asked] = tuple(sorted(name for kind, name in ends if kind == "queue"))
        return self._known[asked]

    def arrival_keys(self, queue: str) -> list[Key]:
        """The routing keys with which messages may arrive over the bindings to a queue, sorted.

        None, first, means that at least one binding matches more than one key.
        """
        keys = {self._key_of(binding) for binding in self._router.bindings.to(("queue", queue))}
        return [*({None} & keys), *sorted(key for key in keys if key is not None)]

    def hops(self, exchange: str, key: Key) -> tuple[BindingEnd, ...]:
        """The queues and exchanges one step behind an exchange, its alternate exchange last."""
        if key is None or not self.reads_key(exchange):
            if exchange not in self._any_hops:
                self._any_hops[exchange] = self._all_hops(exchange)
            return self._any_hops[exchange]
        groups = self._router.match(exchange, key)
        if not groups:
            return self._alternate_hop(exchange)
        ends: dict[BindingEnd, None] = {}
        for group in groups:
            ends |= {("queue", name): None for name in group.queues}
            ends |= {("exchange", name): None for name in group.exchanges}
        return tuple(ends)

    def reads_key(self, exchange: str) -> bool:
        """Whether the routing key determines where an exchange routes."""
        if exchange not in self._reads_key:
            declared = self._router.exchanges.get(exchange)
            kind = declared.type if declared is not None else None
            leaving = self._router.bindings.from_exchange(exchange)
            self._reads_key[exchange] = kind == "direct" or (
                kind == "topic" and any(each.routing_key != "#" for each in leaving)
            )
        return self._reads_key[exchange]

    def _depends_on_key(self, exchange: str) -> bool:
        """Whether the exchange, or any exchange behind it, reads the routing key."""
        if exchange not in self._depends:
            self._depends[exchange] = any(
                kind == "exchange" and self.reads_key(name)
                for kind, name in self._ends(exchange, None)
            )
        return self._depends[exchange]

    def _ends(self, exchange: str, key: Key) -> list[BindingEnd]:
        ends: list[BindingEnd] = [("exchange", exchange)]
        seen = set(ends)
        for kind, name in ends:
            if kind == "exchange":
                following = [end for end in self.hops(name, key) if end not in seen]
                ends.extend(following)
                seen.update(following)
        return ends

    def _all_hops(self, exchange: str) -> tuple[BindingEnd, ...]:
        """The hops of all messages, whatever their keys and headers are."""
        declared = self._router.exchanges.get(exchange)
        if declared is None:
            return ()
        bindings = self._router.bindings.from_exchange(exchange)
        ends = dict.fromkeys((each.destination_type, each.destination) for each in bindings)
        always_matches = (declared.type == "fanout" and bindings) or (
            declared.type == "topic" and any(each.routing_key == "#" for each in bindings)
        )
        return (*ends, *(() if always_matches else self._alternate_hop(exchange)))

    def _alternate_hop(self, exchange: str) -> tuple[BindingEnd, ...]:
        """The alternate exchange; the default exchange takes nothing as an alternate (R-AE-9)."""
        alternate = self._router.alternate_of(exchange)
        if not alternate or alternate not in self._router.exchanges:
            return ()
        return (("exchange", alternate),)

    def _key_of(self, binding: Binding) -> Key:
        pattern = pattern_of(binding, self._router.exchanges[binding.source].type)
        return binding.routing_key if is_literal(pattern) else None
