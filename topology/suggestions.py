"""`Did you mean`: the known name that is most like an unknown one."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST_CANDIDATES = 500
"""Comparing is slow: a document may have thousands of names and as many mistakes."""

_LENGTHS_APART = 3
_LIKENESS = 0.7


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'orders'?)`, to be put behind a message; empty if nothing is alike."""
    candidates: list[str] = []
    for candidate in known:
        if candidate and abs(len(candidate) - len(name)) <= _LENGTHS_APART:
            candidates.append(candidate)
            if len(candidates) == MOST_CANDIDATES:
                break
    closest = get_close_matches(name, candidates, n=1, cutoff=_LIKENESS)
    return f" (did you mean {closest[0]!r}?)" if closest else ""
