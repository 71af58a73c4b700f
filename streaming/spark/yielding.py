"""How far Spark yields to fronts: less while a batch takes long.

    batches are short   the session yields, and leaves cores to others
    a batch is late     it does neither, until one takes less than half as long

So what clients wait for comes first while tables follow. Tables that fall behind get their share of
a busy machine before publishers must wait for them (`amqp.max_lag_ms`).
"""

import threading
import time
from typing import Any, Final

from streaming.spark.jvm import hurry

LATE_PART: Final = 0.5
"""A batch is late that takes this part of the lag above which publishers wait."""

_LOOK_S: Final = 0.25


class Yielding:
    """Watches how long batches take, on a thread.

    Args:
        gateway: of the JVM, which yields as `make_nice` and `spare_cores` have said.
        nice, spare: what they were given.
        late_s: a batch that takes longer is late.

    Attributes:
        hurries: whether Spark yields less now.
    """

    def __init__(self, gateway: Any, nice: int, spare: int, late_s: float) -> None:
        self.hurries = False
        self._gateway = gateway
        self._nice = nice
        self._spare = spare
        self._late_s = late_s
        self._began_s: float | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="yielding", daemon=True)
        self._thread.start()

    def batch_began(self) -> None:
        """Note that a batch runs."""
        self._began_s = time.monotonic()

    def batch_done(self) -> None:
        """Note that it has ended."""
        began_s, self._began_s = self._began_s, None
        if self.hurries and began_s is not None and time.monotonic() - began_s < self._late_s / 2:
            self._hurry(hurries=False)

    def stop(self) -> None:
        """Stop; Spark yields again."""
        self._stopping.set()
        self._thread.join()
        self._hurry(hurries=False)

    def _watch(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            began_s = self._began_s
            if began_s is not None and time.monotonic() - began_s > self._late_s:
                self._hurry(hurries=True)

    def _hurry(self, *, hurries: bool) -> None:
        with self._lock:
            if hurries != self.hurries:
                hurry(self._gateway, self._nice, self._spare, hurries=hurries)
                self.hurries = hurries
