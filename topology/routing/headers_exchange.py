"""The headers exchange: bindings indexed by the pairs they require (docs/semantics.md section 4).

A binding is indexed by pairs (header name, required value), so that a message is compared only with
bindings that share a pair with it. An `any` binding is indexed by each of its pairs, an `all`
binding by the pair that has the fewest bindings when it is added. The value void requires presence
only (R-HDR-4) and is indexed as None.
"""

from collections.abc import Callable, Mapping

from topology.declarations import Binding, BindingKey
from topology.routing.bindings import Destinations
from topology.values import AmqpValue, Compat, MatchKey, Timestamp, match_key, match_key_3_10

X_MATCH = ("all", "any", "all-with-x", "any-with-x")

Pair = tuple[str, MatchKey | None]

_MS_PER_S = 1000


def _plain(value: AmqpValue, second: int) -> AmqpValue:
    """What RabbitMQ compares: a timestamp is a number to it, and bytes are a text.

    Args:
        second: the number that a second is.
    """
    match value:
        case Timestamp():
            return value.seconds * second
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return value
        case []:
            return {}
        case _:
            return value


def _key_wanted(value: AmqpValue) -> MatchKey:
    return match_key(_plain(value, 1))


def _key_of(value: AmqpValue) -> MatchKey:
    """The key of a header: RabbitMQ 4.0 keeps timestamps of messages in milliseconds."""
    return match_key(_plain(value, _MS_PER_S))


def _key_of_3_10(value: AmqpValue) -> MatchKey:
    return match_key_3_10(_plain(value, 1))


class _Rule:
    __slots__ = ("any_pair", "destinations", "index_pairs", "pairs")

    def __init__(self, binding: Binding, key_of: Callable[[AmqpValue], MatchKey]) -> None:
        x_match = binding.arguments.get("x-match", "all")
        with_x = x_match in {"all-with-x", "any-with-x"}
        self.any_pair = x_match in {"any", "any-with-x"}
        self.pairs: tuple[Pair, ...] = tuple(
            (name, None if value is None else key_of(value))
            for name, value in sorted(binding.arguments.items())
            if name != "x-match" and (with_x or not name.startswith("x-"))
        )
        self.index_pairs: tuple[Pair, ...] = ()
        self.destinations = Destinations()
        self.destinations.add(binding)


class HeadersMatcher:
    """The bindings of one headers exchange."""

    reads_headers = True

    def __init__(self, compat: Compat) -> None:
        """Start without bindings; `compat` determines what equals what (R-HDR-6)."""
        self._key_wanted = _key_of_3_10 if compat == "3.10" else _key_wanted
        self._key_of = _key_of_3_10 if compat == "3.10" else _key_of
        self._rules: dict[BindingKey, _Rule] = {}
        self._unconditional: dict[BindingKey, _Rule] = {}
        self._by_pair: dict[str, dict[MatchKey | None, dict[BindingKey, _Rule]]] = {}

    def add(self, binding: Binding) -> None:
        """Add a new binding."""
        rule = _Rule(binding, self._key_wanted)
        key = binding.key
        self._rules[key] = rule
        if rule.any_pair:
            rule.index_pairs = rule.pairs
        elif rule.pairs:
            rule.index_pairs = (min(rule.pairs, key=self._bindings_at),)
        else:
            self._unconditional[key] = rule
        for name, wanted in rule.index_pairs:
            self._by_pair.setdefault(name, {}).setdefault(wanted, {})[key] = rule

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding."""
        key = binding.key
        rule = self._rules.pop(key)
        self._unconditional.pop(key, None)
        for name, wanted in rule.index_pairs:
            by_wanted = self._by_pair[name]
            del by_wanted[wanted][key]
            if not by_wanted[wanted]:
                del by_wanted[wanted]
            if not by_wanted:
                del self._by_pair[name]

    def match(
        self,
        routing_keys: tuple[str, ...],  # noqa: ARG002 - routing keys are ignored (R-HDR-7)
        headers: Mapping[str, AmqpValue] | None,
    ) -> list[Destinations]:
        """The destinations of every binding whose pairs the headers satisfy."""
        found = dict.fromkeys(self._unconditional.values())
        if headers:
            present: dict[str, MatchKey] = {}
            for name, value in headers.items():
                by_wanted = self._by_pair.get(name)
                if by_wanted is None:
                    continue
                key = self._key_of(value)
                present[name] = key
                for wanted in (None, key):
                    for rule in by_wanted.get(wanted, _NOTHING).values():
                        if rule.any_pair or self._all_match(rule, headers, present):
                            found[rule] = None
        return [rule.destinations for rule in found]

    def _bindings_at(self, pair: Pair) -> int:
        name, wanted = pair
        return len(self._by_pair.get(name, {}).get(wanted, _NOTHING))

    def _all_match(
        self, rule: _Rule, headers: Mapping[str, AmqpValue], present: dict[str, MatchKey]
    ) -> bool:
        for name, wanted in rule.pairs:
            if name not in headers:
                return False
            if wanted is None:
                continue
            if name not in present:
                present[name] = self._key_of(headers[name])
            if present[name] != wanted:
                return False
        return True


_NOTHING: dict[BindingKey, _Rule] = {}
