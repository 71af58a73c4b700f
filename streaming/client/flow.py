"""Flow control as a client sees it: publishers go on, or wait, as the job's notices say (D9)."""

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("dlx.client")

LOOK_S = 0.5

HELD_BACK = (
    "flow control holds publishers back: the broker's memory is above its high mark until "
    "consumers take messages out"
)


class Flow:
    """Whether publishers may publish.

    Attributes:
        changed_s: when that changed last, on the monotonic clock.
    """

    def __init__(self) -> None:
        self._seq = 0
        self.changed_s = time.monotonic()
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
            self.changed_s = time.monotonic()
            logger.info("flow control: publishers may %s", "go on" if active else "not go on")
        if active:
            self._flowing.set()
        else:
            self._flowing.clear()

    def release(self) -> None:
        """Nobody waits any more."""
        self._flowing.set()

    def wait(self, look: Callable[[], None], timeout_s: float | None = None) -> bool:
        """Wait until they may; whether they may.

        Args:
            look: called twice a second; may raise.
            timeout_s: None waits as long as it takes.
        """
        if self.is_open:
            return True
        logger.warning("%s: waiting", HELD_BACK)
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = LOOK_S if ends_s is None else min(LOOK_S, ends_s - time.monotonic())
            if self._flowing.wait(max(left_s, 0)):
                return True
            if left_s <= 0:
                return False
            look()
