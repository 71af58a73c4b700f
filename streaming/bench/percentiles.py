"""Percentiles of measurements."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies; 0.5 is the median's neighbour.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("nothing was measured")
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
