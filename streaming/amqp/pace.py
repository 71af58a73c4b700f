"""When a busy server rests for a moment, so that what clients send gathers.

A read costs much, however little it brings: here, and at the client, which each answer wakes up.
Clients that go on without waiting for answers send meanwhile, and then a read brings more. Clients
that wait for each answer do not, so a rest is tried first, and repeated only while it helps.
"""

import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

WINDOW: Final = 16
"""The reads that are looked at together."""

BUSY_S: Final = 0.002
"""The server is busy if a window takes no longer."""

SMALL_BYTES: Final = 4096
"""Reads need not gather if one brings more than this."""

REST_S: Final = 0.001
HELPS: Final = 1.5
"""A rest helps if the reads of the next window bring so many times as much."""

AGAIN_S: Final = 0.1
"""So long it is taken for granted that rests help, or that they do not."""


class _Phase(Enum):
    PLAIN = auto()
    TRIAL = auto()
    RESTING = auto()


class Pace:
    """The pace of one server.

    Args:
        now_s: a clock that never goes back, in seconds.
        rest: lets seconds pass while nothing is read.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = time.perf_counter,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._now_s = now_s
        self._rest = rest
        self._phase = _Phase.PLAIN
        self._reads = self._bytes = 0
        self._since_s = now_s()
        self._plain_bytes = 0  # of a window without a rest before it
        self._until_s = 0.0  # rests are not tried again, or are taken to help

    def has_read(self, size: int) -> None:
        """Note that a client was read, and rest if that helps."""
        self._reads += 1
        self._bytes += size
        if self._reads < WINDOW:
            return
        now_s = self._now_s()
        is_busy = now_s - self._since_s < BUSY_S and self._bytes < WINDOW * SMALL_BYTES
        if self._goes_on(now_s) and is_busy:
            self._rest(REST_S)
            now_s = self._now_s()
        elif self._phase is _Phase.TRIAL:
            self._phase = _Phase.PLAIN
        self._reads = self._bytes = 0
        self._since_s = now_s

    def _goes_on(self, now_s: float) -> bool:
        """Whether a rest comes now if the server is busy."""
        match self._phase:
            case _Phase.PLAIN:
                self._plain_bytes = self._bytes
                if now_s < self._until_s:
                    return False
                self._phase = _Phase.TRIAL
                return True
            case _Phase.TRIAL:
                helps = self._bytes >= HELPS * self._plain_bytes
                self._phase = _Phase.RESTING if helps else _Phase.PLAIN
                self._until_s = now_s + AGAIN_S
                return helps
            case _Phase.RESTING:
                if now_s < self._until_s:
                    return True
                self._phase = _Phase.PLAIN  # one window without a rest, to compare with
                return False
