"""The bindings of a vhost, indexed by both of their ends, and groups of their destinations."""

from collections.abc import Mapping

from topology.declarations import Binding, BindingEnd, BindingKey


class BindingTable:
    """The bindings of one vhost; all lists are ordered by binding key."""

    def __init__(self) -> None:
        self._from: dict[str, dict[BindingKey, Binding]] = {}
        self._to: dict[BindingEnd, dict[BindingKey, Binding]] = {}

    def __contains__(self, binding: Binding) -> bool:
        return binding.key in self._from.get(binding.source, _NONE)

    def add(self, binding: Binding) -> bool:
        """Add a binding; False if an equal one exists."""
        key = binding.key
        leaving = self._from.setdefault(binding.source, {})
        if key in leaving:
            return False
        leaving[key] = binding
        self._to.setdefault((binding.destination_type, binding.destination), {})[key] = binding
        return True

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding."""
        key = binding.key
        end: BindingEnd = (binding.destination_type, binding.destination)
        del self._from[binding.source][key]
        if not self._from[binding.source]:
            del self._from[binding.source]
        del self._to[end][key]
        if not self._to[end]:
            del self._to[end]

    def any_from(self, exchange: str) -> bool:
        """Whether any binding leaves the exchange."""
        return exchange in self._from

    def count_from(self, exchange: str) -> int:
        """How many bindings leave an exchange."""
        return len(self._from.get(exchange, _NONE))

    def all(self) -> list[Binding]:
        """All bindings."""
        return _ordered(*self._from.values())

    def from_exchange(self, exchange: str) -> list[Binding]:
        """The bindings that leave an exchange."""
        return _ordered(self._from.get(exchange, _NONE))

    def to(self, end: BindingEnd) -> list[Binding]:
        """The bindings that lead to a queue or exchange."""
        return _ordered(self._to.get(end, _NONE))

    def of_exchange(self, exchange: str) -> list[Binding]:
        """The bindings that leave an exchange or lead to it, each once."""
        return _ordered(
            self._from.get(exchange, _NONE), self._to.get(("exchange", exchange), _NONE)
        )


_NONE: dict[BindingKey, Binding] = {}


def _ordered(*groups: Mapping[BindingKey, Binding]) -> list[Binding]:
    merged: dict[BindingKey, Binding] = {}
    for group in groups:
        merged.update(group)
    return [merged[key] for key in sorted(merged)]


class Destinations:
    """Queues and exchanges; each stays while at least one binding leads to it."""

    __slots__ = ("_sorted_queues", "exchanges", "queues")

    def __init__(self) -> None:
        self.queues: dict[str, int] = {}
        self.exchanges: dict[str, int] = {}
        self._sorted_queues: tuple[str, ...] | None = None

    def add(self, binding: Binding) -> None:
        """Count one more binding to its destination."""
        group = self._group_of(binding)
        group[binding.destination] = group.get(binding.destination, 0) + 1

    def remove(self, binding: Binding) -> None:
        """Count one binding less; the last one removes the destination."""
        group = self._group_of(binding)
        group[binding.destination] -= 1
        if not group[binding.destination]:
            del group[binding.destination]

    @property
    def empty(self) -> bool:
        """Whether no binding is left."""
        return not self.queues and not self.exchanges

    @property
    def sorted_queues(self) -> tuple[str, ...]:
        """The queues by name; cached until the next change, since large fanouts are read often."""
        if self._sorted_queues is None:
            self._sorted_queues = tuple(sorted(self.queues))
        return self._sorted_queues

    def _group_of(self, binding: Binding) -> dict[str, int]:
        """The counts of the binding's kind of destination, which are about to change."""
        if binding.destination_type == "exchange":
            return self.exchanges
        self._sorted_queues = None
        return self.queues
