"""With which routing keys do messages come to a queue? What its bindings tell about them.

Anybody may publish anything to most exchanges. So only what is likely counts: an exchange that dead
letters or other exchanges lead to is taken to receive nothing else, and the keys of messages that
come through a fanout or headers exchange are unknown unless those that are sent there are known.
Messages that a queue lets expire usually return to where they came from, so they do not count if
the bindings there tell which keys come.
"""

from collections.abc import Collection, Iterator
from itertools import islice

from topology.analysis.key_patterns import (
    ANY_KEY,
    KeyPattern,
    TooManyPatternsError,
    Wild,
    common_keys,
    is_literal,
    literal,
    pattern_of,
    sample_keys,
    word_beside,
)
from topology.declarations import Binding
from topology.sentences import say
from topology.vhost import Vhost

_MAX_FEEDS = 100
"""Origins of an exchange's messages that are looked at: thousands have little more to tell."""


class Arrivals:
    """The likely routing keys of the messages in each queue of a vhost that does not change."""

    def __init__(self, vhost: Vhost, unknown: Collection[str] = ()) -> None:
        """Look at the bindings and exits of a vhost; of `unknown` exchanges nothing is known."""
        self._router = vhost.router
        self._unknown = unknown
        self._fed: dict[str, dict[KeyPattern, None]] = {}
        self._led_to: set[str] = set()
        patterns = []
        for binding in vhost.router.bindings.all():
            patterns.append(self._pattern(binding))
            if binding.destination_type == "exchange":
                self._feed(binding.destination, [self._known(binding)])
                self._led_to.add(binding.destination)
        for queue, settings in vhost.all_settings().items():
            for exchange, key in (
                (settings.dead_letter_exchange, settings.dead_letter_routing_key),
                (settings.alternate_exchange, None),
            ):
                if exchange is not None:
                    self._feed(exchange, self._keys_in(queue) if key is None else [literal(key)])
                    if settings.message_ttl_ms is None:
                        self._led_to.add(exchange)
        for exchange in vhost.router.exchanges:
            if (alternate := vhost.router.alternate_of(exchange)) is not None:
                self._feed(alternate, [])
                self._led_to.add(alternate)
        words = {word for pattern in patterns for word in pattern if not isinstance(word, Wild)}
        self._word = word_beside(words)
        self._longest = max(map(len, patterns), default=0) + 1

    def of(self, queue: str) -> Iterator[tuple[str, Iterator[str]]]:
        """How messages come to a queue: words that precede a key, and samples of their keys."""
        told: set[KeyPattern] = set()
        for binding in self._router.bindings.to(("queue", queue)):
            for pattern in self._likely(binding):
                if pattern not in told:
                    told.add(pattern)
                    with_key = say("with routing key")
                    if not is_literal(pattern):
                        with_key = say(
                            "by binding %(key)s with a routing key such as",
                            key=repr(binding.routing_key),
                        )
                    yield with_key, sample_keys(pattern, self._word, self._longest)

    def _likely(self, binding: Binding) -> list[KeyPattern]:
        if binding.source in self._unknown:
            return []
        own, known = self._pattern(binding), self._known(binding)
        tells = own != ANY_KEY and binding.source not in self._led_to
        if binding.source not in self._fed or is_literal(own) or tells:
            return [] if known is None else [known]
        found: dict[KeyPattern, None] = {}
        for fed in islice(self._fed[binding.source], _MAX_FEEDS):
            try:
                found |= dict.fromkeys(sorted(common_keys(own, fed), key=repr))
            except TooManyPatternsError:
                continue
        return list(found)

    def _pattern(self, binding: Binding) -> KeyPattern:
        return pattern_of(binding, self._router.exchanges[binding.source].type)

    def _known(self, binding: Binding) -> KeyPattern | None:
        """The keys that a binding matches; None if it says nothing about keys."""
        reads_keys = self._router.exchanges[binding.source].type in {"direct", "topic"}
        return self._pattern(binding) if reads_keys else None

    def _keys_in(self, queue: str) -> list[KeyPattern | None]:
        bindings = self._router.bindings.to(("queue", queue))
        return [self._known(each) for each in bindings] or [literal(queue)]

    def _feed(self, exchange: str, patterns: list[KeyPattern | None]) -> None:
        fed = self._fed.setdefault(exchange, {})
        fed |= {pattern: None for pattern in patterns if pattern is not None}
