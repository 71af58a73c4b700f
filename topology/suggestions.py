"""Suggestions: the known name that is most similar to an unknown one."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache

from topology.sentences import say

MAX_CANDIDATES = 500
MAX_HINTS = 100
"""Limits, since comparing is slow: a document may have thousands of names and mistakes."""

MAX_SHOWN = 5
"""How many known names are shown if none is similar."""

_LENGTHS_APART = 3
_LIKENESS = 0.7
_LIKENESS_OF_SHORT = 0.6
"""For names of three letters, one of which is wrong or two of which are swapped."""
_SHORT = 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'orders'?)`, to append to a message; empty if no name is similar."""
    return _hint(name, tuple(known))


def did_you_mean_or_known(name: str, known: Iterable[str]) -> str:
    """As `did_you_mean`; without a similar name, ` (there are 'a', 'b')`, the first known names."""
    names = tuple(known)
    hint = did_you_mean(name, names)
    if hint:
        return hint
    if not names:
        return " (there are none)"
    shown = ", ".join(map(repr, names[:MAX_SHOWN]))
    more = ", ..." if len(names) > MAX_SHOWN else ""
    return f" (there {'is' if len(names) == 1 else 'are'} {shown}{more})"


class Hints:
    """Suggestions for many unknown names, of several kinds; at most `MAX_HINTS` of them."""

    def __init__(self, known: Mapping[str, Sequence[str]]) -> None:
        self._known = known
        self._given: dict[tuple[str, str], str] = {}

    def hint(self, kind: str, name: str) -> str:
        """As `did_you_mean`; empty for further names after `MAX_HINTS` searches."""
        hint = self._given.get((kind, name))
        if hint is None:
            enough = len(self._given) >= MAX_HINTS
            hint = "" if enough else did_you_mean(name, self._known[kind])
            self._given[kind, name] = hint
        return hint


@lru_cache(maxsize=256)
def _hint(name: str, known: tuple[str, ...]) -> str:
    candidates: list[str] = []
    for candidate in known:
        if candidate and abs(len(candidate) - len(name)) <= _LENGTHS_APART:
            candidates.append(candidate)
            if len(candidates) == MAX_CANDIDATES:
                break
    cutoff = _LIKENESS_OF_SHORT if len(name) <= _SHORT else _LIKENESS
    closest = get_close_matches(name, candidates, n=1, cutoff=cutoff)
    return say(" (did you mean %(name)s?)", name=repr(closest[0])) if closest else ""
