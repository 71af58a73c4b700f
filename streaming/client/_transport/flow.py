"""Flow control: whether the job's notices let publishers publish (D9)."""

import logging
import time
from collections.abc import Callable

from streaming.waiting import Flag

logger = logging.getLogger("dlx.client")

CHECK_EVERY_S = 0.5

FLOW_STOPPED = (
    "flow control stops publishers: the broker's memory is above its high mark until consumers "
    "take messages out"
)


class Flow:
    """Whether publishers may publish.

    Attributes:
        changed_s: when this last changed, on the monotonic clock.
    """

    def __init__(self) -> None:
        self._seq = 0
        self.changed_s = time.monotonic()
        self._flowing = Flag()
        self._flowing.set()

    @property
    def is_open(self) -> bool:
        """Whether publishers may publish."""
        return self._flowing.is_set()

    def notice(self, seq: int, *, active: bool) -> None:
        """Apply a notice of the job; it repeats them, and its heartbeat carries the latest.

        Args:
            seq: grows with each change. Notices and heartbeats have topics of their own, so either
                may lag; a notice older than the latest is ignored.
            active: whether publishers may publish.
        """
        if seq < self._seq:
            return
        self._seq = seq
        if active != self.is_open:
            self.changed_s = time.monotonic()
            logger.info("flow control: publishers %s", "resume" if active else "must stop")
        if active:
            self._flowing.set()
        else:
            self._flowing.clear()

    def release(self) -> None:
        """Let every waiting publisher continue, because the connection closes."""
        self._flowing.set()

    def wait(self, check: Callable[[], None], timeout_s: float | None = None) -> bool:
        """Wait until publishers may publish.

        Args:
            check: called twice a second; may raise to end the wait.
            timeout_s: None waits without limit.

        Returns:
            Whether publishers may publish; False after `timeout_s`.
        """
        if self.is_open:
            return True
        logger.warning("%s: waiting", FLOW_STOPPED)
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = CHECK_EVERY_S
            if deadline_s is not None:
                left_s = min(left_s, deadline_s - time.monotonic())
            if self._flowing.wait(max(left_s, 0)):
                return True
            if left_s <= 0:
                return False
            check()
