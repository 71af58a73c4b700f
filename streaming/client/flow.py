"""Flow control as a client sees it: publishers go on, or wait, as the job's notices say (D9)."""

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("dlx.client")

LOOK_S = 0.5


class Flow:
    """Whether publishers may publish."""

    def __init__(self) -> None:
        self._seq = 0
        self._flowing = threading.Event()
        self._flowing.set()

    @property
    def is_open(self) -> bool:
        """Whether they may."""
        return self._flowing.is_set()

    def notice(self, seq: int, *, active: bool) -> None:
        """The job says so, in a notice or with its heartbeat; it repeats itself.

        Args:
            seq: goes up with each change. The two come in topics of their own, so that one may be
                behind the other: what is older than what is known says nothing.
        """
        if seq < self._seq:
            return
        self._seq = seq
        if active != self.is_open:
            logger.info("flow control: publishers may %s", "go on" if active else "not go on")
        if active:
            self._flowing.set()
        else:
            self._flowing.clear()

    def release(self) -> None:
        """Nobody waits any more."""
        self._flowing.set()

    def wait(self, look: Callable[[], None]) -> None:
        """Wait until they may; `look` is called twice a second and may raise."""
        while not self._flowing.wait(LOOK_S):
            look()
