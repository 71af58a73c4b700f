"""Which queues could a message reach, when only its routing key is known, or not even that?

`Router` answers for one message; here the answer holds for any message, so it may name a queue that
no actual message reaches, and never leaves one out. Keys are `str`, or None for an unknown one.
CC and BCC keys are left out of account.
"""

from topology.declarations import Binding
from topology.vhost import Vhost

Key = str | None


class Reach:
    """Possible destinations in one compiled topology; remembers what it was asked."""

    def __init__(self, compiled: Vhost) -> None:
        """Ask about a topology that does not change any more."""
        self._router = compiled.router
        self._queues = compiled.queues
        self._known: dict[tuple[str, Key], tuple[str, ...]] = {}

    def from_exchange(self, exchange: str, key: Key) -> tuple[str, ...]:
        """The queues, sorted, that a message published to an exchange may reach.

        The default exchange with an unknown key may reach every queue (R-ROUTE-1); a missing
        exchange reaches none.
        """
        asked = (exchange, key)
        if asked not in self._known:
            self._known[asked] = self._find(exchange, key)
        return self._known[asked]

    def arrival_keys(self, queue: str) -> list[Key]:
        """The routing keys with which messages may arrive over the bindings to a queue, sorted.

        None, first, means that at least one binding takes keys that its binding key does not tell.
        """
        keys = {self._binding_takes(binding) for binding in self._router.bindings_to(queue)}
        return [*({None} & keys), *sorted(key for key in keys if key is not None)]

    def _find(self, exchange: str, key: Key) -> tuple[str, ...]:
        if not exchange:
            return (
                tuple(sorted(self._queues))
                if key is None
                else self._router.route("", (key,)).queues
            )
        if key is not None:
            route = self._router.route(exchange, (key,))
            if route.keyed_only:
                return route.queues
        return self._closure(exchange)

    def _closure(self, exchange: str) -> tuple[str, ...]:
        """Every queue behind an exchange, whatever the key and the headers are."""
        router = self._router
        queues: set[str] = set()
        work = [exchange] if exchange in router.exchanges else []
        seen = set(work)
        for source in work:
            following = []
            for binding in router.bindings_from(source):
                if binding.destination_type == "queue":
                    queues.add(binding.destination)
                else:
                    following.append(binding.destination)
            alternate = router.alternate_of(source)
            if alternate in router.exchanges and alternate and not self._always_matches(source):
                following.append(alternate)
            work.extend(name for name in dict.fromkeys(following) if name not in seen)
            seen.update(following)
        return tuple(sorted(queues))

    def _always_matches(self, exchange: str) -> bool:
        """Whether some binding takes every message, so that the alternate is never used."""
        kind = self._router.exchanges[exchange].type
        return any(
            kind == "fanout" or (kind == "topic" and binding.routing_key == "#")
            for binding in self._router.bindings_from(exchange)
        )

    def _binding_takes(self, binding: Binding) -> Key:
        kind = self._router.exchanges[binding.source].type
        wild = {"*", "#"} & set(binding.routing_key.split("."))
        literal = kind == "direct" or (kind == "topic" and not wild)
        return binding.routing_key if literal else None
