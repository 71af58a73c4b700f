"""The samples of the last half hour, as Prometheus would have them.

A value that does not change takes one entry however long it stays, so that thousands of counters at
rest take little.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

Labels = tuple[str, ...]
Samples = Mapping[str, Mapping[Labels, float]]
"""Name -> values of the labels, in the order of the family -> value."""

KEPT_S: Final = 36 * 60.0
GAP_S: Final = 90.0
"""A value is known for so long after it was read."""


class Run:
    """A value, and from when until when it was read."""

    __slots__ = ("first_s", "last_s", "value")

    def __init__(self, at_s: float, value: float) -> None:
        self.first_s = self.last_s = at_s
        self.value = value


class History:
    """What was read, and when.

    Attributes:
        now_s: when it was read last, epoch seconds.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._series: dict[str, dict[Labels, deque[Run]]] = {}

    def add(self, now_s: float, samples: Samples) -> None:
        """Add what was read now, and forget what is too old."""
        self.now_s = now_s
        for name, values in samples.items():
            series = self._series.setdefault(name, {})
            for labels, value in values.items():
                runs = series.setdefault(labels, deque())
                if runs and runs[-1].value == value and now_s - runs[-1].last_s <= GAP_S:
                    runs[-1].last_s = now_s
                else:
                    runs.append(Run(now_s, value))
        for series in self._series.values():
            for labels, runs in list(series.items()):
                while runs and runs[0].last_s < now_s - KEPT_S:
                    runs.popleft()
                if not runs:
                    del series[labels]

    def now(self, name: str) -> dict[Labels, float]:
        """The values that were read last."""
        series = self._series.get(name, {})
        return {
            labels: runs[-1].value
            for labels, runs in series.items()
            if runs[-1].last_s == self.now_s
        }

    def at(self, name: str, ago_s: float) -> dict[Labels, float]:
        """The values of some time ago."""
        found, at_s = {}, self.now_s - ago_s
        for labels, runs in self._series.get(name, {}).items():
            run = next((one for one in reversed(runs) if one.first_s <= at_s), None)
            if run is not None and at_s - run.last_s <= GAP_S:
                found[labels] = run.value
        return found

    def over(self, name: str, window_s: float, ago_s: float = 0.0) -> dict[Labels, list[float]]:
        """The values of a window, the oldest first, each as often as it changed."""
        end_s = self.now_s - ago_s
        begin_s = end_s - window_s
        found = {}
        for labels, runs in self._series.get(name, {}).items():
            values = [one.value for one in runs if one.first_s <= end_s and one.last_s >= begin_s]
            if values:
                found[labels] = values
        return found

    def increase(self, name: str, window_s: float, ago_s: float = 0.0) -> dict[Labels, float]:
        """How much counters have grown in a window."""
        windows = self.over(name, window_s, ago_s)
        return {labels: values[-1] - values[0] for labels, values in windows.items()}


def added_up(
    values: Mapping[Labels, float],
    key: Callable[[Labels], Labels],
    wanted: Callable[[Labels], bool] = lambda _labels: True,
) -> dict[Labels, float]:
    """Sums of the series that have a key in common."""
    found: dict[Labels, float] = {}
    for labels, value in values.items():
        if wanted(labels):
            found[key(labels)] = found.get(key(labels), 0.0) + value
    return found


def total(values: Iterable[float]) -> dict[Labels, float]:
    """The sum as a series without labels; none if there is nothing."""
    found = list(values)
    return {(): sum(found)} if found else {}
