"""What the traffic did, counted by several threads."""

import threading
from collections import Counter


class Counts:
    """Counters by name."""

    def __init__(self) -> None:
        self._counter: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str, number: int = 1) -> None:
        """Count."""
        with self._lock:
            self._counter[name] += number

    def now(self) -> dict[str, int]:
        """A copy."""
        with self._lock:
            return dict(self._counter)
