"""Attempts to log in with a password: limited by name and client, and never in others' way.

    attempt --too many of this name from there?--> refused, without computing
            --else--> waits; who has failed least is next --> one thread, a quarter of the time

A hash takes 16 MB and a moment by design. So one is computed at a time, away from the threads of
pages, and a failure is followed by a pause. Who has logged in before needs no hash.
"""

import itertools
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Generic, TypeVar

from topology.errors import DlxError
from topology.sentences import say

MOST: Final = 10
"""Failures of one name from one client in a window."""

WINDOW_S: Final = 60.0
MAX_WAITING: Final = 32
MAX_KNOWN: Final = 10_000
PAUSES: Final = 3.0
"""How long the pause after a failure is, in times of the processor time that it took."""

logger = logging.getLogger(__name__)

T = TypeVar("T")


class TooManyAttemptsError(DlxError):
    """An attempt is refused for now."""

    def __init__(self, retry_s: float) -> None:
        super().__init__(
            say(
                "Too many attempts to log in: try again in %(seconds)s s.",
                seconds=round(max(retry_s, 1)),
            )
        )
        self.retry_s = max(round(retry_s), 1)


_Place = tuple[str | None, str]
"""A name and a client; None: all names."""


class _Waiting(Generic[T]):
    def __init__(
        self, order: tuple[int, int, int], place: _Place, work: Callable[[], T | None]
    ) -> None:
        self.order = order
        self.place = place
        self.work = work
        self.answer: Future[T | None] = Future()


class Attempts(Generic[T]):
    """Computes attempts, one after the other.

    Args:
        monotonic: the clock; seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._recent: OrderedDict[_Place, deque[float]] = OrderedDict()
        self._waiting: list[_Waiting[T]] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "log-in")

    def submit(self, name: str, client: str, work: Callable[[], T | None]) -> "Future[T | None]":
        """Let an attempt be computed; it has failed if it returns None.

        Raises:
            TooManyAttemptsError: of this name from there, or at all.
        """
        now_s = self._monotonic()
        with self._lock:
            times = self._times((name, client), now_s)
            if len(times) >= MOST:
                raise TooManyAttemptsError(times[0] + WINDOW_S - now_s)
            of_client = self._times((None, client), now_s)
            order = (len(times), len(of_client), next(self._numbers))
            one = _Waiting(order, (name, client), work)
            if len(self._waiting) >= MAX_WAITING:
                last = max(self._waiting, key=lambda each: each.order)
                if last.order <= order:
                    raise TooManyAttemptsError(1)
                self._waiting.remove(last)
                if last.answer.set_running_or_notify_cancel():
                    last.answer.set_exception(TooManyAttemptsError(1))
            times.append(now_s)
            of_client.append(now_s)
            if len(times) == MOST:
                logger.warning("console: attempts of %r from %s are limited", name, client)
            self._waiting.append(one)
        self._pool.submit(self._next)
        return one.answer

    def _times(self, place: _Place, now_s: float) -> deque[float]:
        """The recent attempts of a place."""
        times = self._recent.setdefault(place, deque(maxlen=1_000))
        self._recent.move_to_end(place)
        while len(self._recent) > MAX_KNOWN:
            self._recent.popitem(last=False)
        while times and now_s - times[0] >= WINDOW_S:
            times.popleft()
        return times

    def _next(self) -> None:
        with self._lock:
            if not self._waiting:  # one gave way to another
                return
            one = min(self._waiting, key=lambda each: each.order)
            self._waiting.remove(one)
        if not one.answer.set_running_or_notify_cancel():  # nobody waits for it any more
            return
        began_s = time.thread_time()
        try:
            found = one.work()
        except Exception as error:  # noqa: BLE001 - the request says it
            one.answer.set_exception(error)
            return
        if found is not None:
            with self._lock:
                self._recent.pop(one.place, None)
        one.answer.set_result(found)
        if found is None:
            time.sleep(PAUSES * (time.thread_time() - began_s))
