"""The four exchange types: which destinations does a message match?

Each type is a matcher. Adding or removing a binding takes the same time however many bindings there
are; `match` returns groups of destinations. A matcher knows only its own exchange: `router` walks
from one exchange to the next.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from topology.declarations import Binding
from topology.routing.bindings import Destinations
from topology.routing.headers_exchange import HeadersMatcher
from topology.routing.topic_exchange import TopicMatcher
from topology.values import AmqpValue, Compat

EXCHANGE_TYPES = ("direct", "fanout", "headers", "topic")


class Matcher(Protocol):
    """The bindings of one exchange, indexed for its type."""

    reads_headers: bool
    """Whether the result depends on the headers too."""

    def add(self, binding: Binding) -> None:
        """Add a new binding."""

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding."""

    def match(
        self, routing_keys: tuple[str, ...], headers: Mapping[str, AmqpValue] | None
    ) -> list[Destinations]:
        """The groups of destinations that the message matches; no group is empty."""


class DirectMatcher:
    """A binding matches a routing key equal to its binding key (R-ROUTE-2)."""

    reads_headers = False

    def __init__(self) -> None:
        self._by_key: dict[str, Destinations] = {}

    def add(self, binding: Binding) -> None:
        """Add a new binding."""
        self._by_key.setdefault(binding.routing_key, Destinations()).add(binding)

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding."""
        destinations = self._by_key[binding.routing_key]
        destinations.remove(binding)
        if destinations.empty:
            del self._by_key[binding.routing_key]

    def match(
        self,
        routing_keys: tuple[str, ...],
        headers: Mapping[str, AmqpValue] | None,  # noqa: ARG002 - a direct exchange reads keys only
    ) -> list[Destinations]:
        """The destinations bound with one of the keys."""
        by_key = self._by_key
        return [by_key[key] for key in routing_keys if key in by_key]


class FanoutMatcher:
    """Every binding matches (R-ROUTE-3)."""

    reads_headers = False

    def __init__(self) -> None:
        self._destinations = Destinations()

    def add(self, binding: Binding) -> None:
        """Add a new binding."""
        self._destinations.add(binding)

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding."""
        self._destinations.remove(binding)

    def match(
        self,
        routing_keys: tuple[str, ...],  # noqa: ARG002 - a fanout exchange reads nothing
        headers: Mapping[str, AmqpValue] | None,  # noqa: ARG002
    ) -> list[Destinations]:
        """All destinations."""
        return [] if self._destinations.empty else [self._destinations]


_MATCHERS: dict[str, Callable[[Compat], Matcher]] = {
    "direct": lambda _compat: DirectMatcher(),
    "fanout": lambda _compat: FanoutMatcher(),
    "headers": HeadersMatcher,
    "topic": lambda _compat: TopicMatcher(),
}


def new_matcher(exchange_type: str, compat: Compat) -> Matcher:
    """Create an empty matcher of one of `EXCHANGE_TYPES`."""
    return _MATCHERS[exchange_type](compat)
