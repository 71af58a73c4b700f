"""A group of destinations that match together, and how many bindings lead to each."""

from topology.declarations import Binding


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
