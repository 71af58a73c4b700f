"""Which seeds a random test plays: in every run a few, at night the same with others."""

import pytest


def seeds(every: int, at_night: int) -> list[object]:
    """The seeds from 0; those from `every` on have the mark `nightly`.

    Args:
        every: seeds of every run, at least 1.
        at_night: seeds of a nightly run, `every` or more.
    """
    others = (pytest.param(seed, marks=pytest.mark.nightly) for seed in range(every, at_night))
    return [*range(every), *others]
