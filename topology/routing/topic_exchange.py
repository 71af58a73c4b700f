"""The topic exchange: binding keys in a trie, matched word by word (docs/semantics.md section 3).

Binding keys and routing keys are split by the same function. A node of the trie stands for a prefix
of some binding keys; its children are reached by a literal word, by `*` or by `#`.

    a.*.c     root -a-> o -*-> o -c-> (destinations)
    a.#       root -a-> o -#-> (destinations)

Matching walks all prefixes at once. After each word of the routing key, `frontier` holds the nodes
reached exactly there. A `#` node stays reached, because `#` matches any further words: it moves to
`open_hashes` and is never entered twice. A trie node has one parent, so no node is in the frontier
twice either. The work is therefore at most (words of the key) x (nodes of the trie) for any keys.
Validation also limits the number of `#` in a binding key.
"""

from collections.abc import Mapping

from topology.declarations import Binding
from topology.routing.bindings import Destinations
from topology.values import AmqpValue


def split_words(key: str) -> list[str]:
    """Split a binding key or a routing key into words; the empty key has none."""
    return key.split(".") if key else []


class _Node:
    __slots__ = ("destinations", "hash", "literals", "star")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.star: _Node | None = None
        self.hash: _Node | None = None
        self.destinations = Destinations()

    def child(self, word: str) -> "_Node | None":
        """The node behind one word of a binding key; None if it does not exist."""
        if word == "*":
            return self.star
        if word == "#":
            return self.hash
        return self.literals.get(word)

    def grow(self, word: str) -> "_Node":
        """The node behind one word of a binding key; created if it does not exist."""
        node = self.child(word)
        if node is None:
            node = _Node()
            if word == "*":
                self.star = node
            elif word == "#":
                self.hash = node
            else:
                self.literals[word] = node
        return node

    def cut(self, word: str) -> None:
        if word == "*":
            self.star = None
        elif word == "#":
            self.hash = None
        else:
            del self.literals[word]

    @property
    def bare(self) -> bool:
        return self.destinations.empty and not (self.literals or self.star or self.hash)


class TopicMatcher:
    """The bindings of one topic exchange."""

    reads_headers = False

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, binding: Binding) -> None:
        """Add a new binding."""
        node = self._root
        for word in split_words(binding.routing_key):
            node = node.grow(word)
        node.destinations.add(binding)

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding, and every node that only it needed."""
        path = [self._root]
        words = split_words(binding.routing_key)
        for word in words:
            path.append(path[-1].grow(word))
        path[-1].destinations.remove(binding)
        for parent, word, node in zip(path[-2::-1], words[::-1], path[::-1], strict=False):
            if not node.bare:
                return
            parent.cut(word)

    def match(
        self,
        routing_keys: tuple[str, ...],
        headers: Mapping[str, AmqpValue] | None,  # noqa: ARG002 - a topic exchange reads keys only
    ) -> list[Destinations]:
        """The destinations of every binding key that matches one of the routing keys."""
        if len(routing_keys) == 1:
            return self._match(routing_keys[0])
        return [found for key in routing_keys for found in self._match(key)]

    def _match(self, routing_key: str) -> list[Destinations]:
        frontier = [self._root]
        open_hashes: dict[_Node, None] = {}
        _open(self._root, open_hashes)
        for word in split_words(routing_key):
            reached: list[_Node] = []
            for node in (*frontier, *open_hashes) if open_hashes else frontier:
                child = node.literals.get(word)
                if child is not None:
                    reached.append(child)
                if node.star is not None:
                    reached.append(node.star)
            if not reached and not open_hashes:
                return []
            for node in reached:
                if node.hash is not None:
                    _open(node, open_hashes)
            frontier = reached
        found = [node.destinations for node in (*frontier, *open_hashes)]
        return [destinations for destinations in found if not destinations.empty]


def _open(node: _Node, open_hashes: dict[_Node, None]) -> None:
    """Enter the chain of `#` behind a node; each `#` also matches zero words."""
    following = node.hash
    while following is not None and following not in open_hashes:
        open_hashes[following] = None
        following = following.hash
