"""Waits and flags that no signal can leave hanging, at whatever instant it comes.

Python runs the handler of a signal, which may raise KeyboardInterrupt or set a flag, between two
instructions of the main thread. So here

- no wait in C is longer than `CHECK_S`: a signal that comes after the last instruction before it,
  or to another thread, does not end it;
- nobody waits with a lock held, and no lock is taken by Python's own code. `Condition`, `Event` and
  `Future` do that: an interrupt there leaves a lock held for ever, and a handler that sets the
  `Event` that is waited for may wait for itself. `with` a plain lock is safe.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import TypeVar

logger = logging.getLogger("dlx.client")

T = TypeVar("T")

CHECK_S = 0.5


def take(waiting: queue.SimpleQueue[T], timeout_s: float | None) -> T:
    """Wait for the next item of a queue; None waits without limit.

    Raises:
        queue.Empty: none came within `timeout_s`.
    """
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = CHECK_S if deadline_s is None else deadline_s - time.monotonic()
        if left_s <= CHECK_S and deadline_s is not None:
            return waiting.get(timeout=max(left_s, 0))
        with suppress(queue.Empty):
            return waiting.get(timeout=CHECK_S)


def end(thread: threading.Thread, timeout_s: float) -> None:
    """Wait for the end of a thread that was told to end, unless it is the caller's own.

    A callback of the user may never return: after `timeout_s` the thread is left to itself.
    """
    if threading.current_thread() is thread:
        return
    thread.join(timeout_s)
    if thread.is_alive():
        text = "%s has not ended within %g s: a callback does not return"
        logger.warning(text, thread.name, timeout_s)


class Changes:
    """Wakes those who wait for a condition."""

    def __init__(self) -> None:
        self._waiting: list[queue.SimpleQueue[None]] = []

    def tell(self) -> None:
        """Let everyone who waits look again."""
        for one in self._waiting.copy():
            if one.empty():
                one.put(None)

    def wait_for(self, condition: Callable[[], object], timeout_s: float | None) -> bool:
        """Wait until a condition holds; False after `timeout_s`, None waits without limit."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        told: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._waiting.append(told)
        try:
            while not condition():
                left_s = CHECK_S if deadline_s is None else deadline_s - time.monotonic()
                if left_s <= 0:
                    return False
                with suppress(queue.Empty):
                    told.get(timeout=min(left_s, CHECK_S))
        finally:
            self._waiting.remove(told)
        return True


class Flag:
    """What `threading.Event` is."""

    def __init__(self) -> None:
        self._is_set = False
        self._changes = Changes()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake those who wait."""
        self._is_set = True
        self._changes.tell()

    def clear(self) -> None:
        """Take it back."""
        self._is_set = False

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until it is set; False after `timeout_s`."""
        return self._changes.wait_for(self.is_set, timeout_s)


class SafeCondition(threading.Condition):
    """A condition whose `with` takes and releases its lock in C, like that of the lock itself."""

    __enter__ = property(attrgetter("_lock.__enter__"))
    __exit__ = property(attrgetter("_lock.__exit__"))
