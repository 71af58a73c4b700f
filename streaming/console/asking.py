"""Asks elsewhere for what no table has, on a thread, while somebody looks at a page.

    a page --> asked in the last seconds? --> yes: the answer
                                          --> no: a thread asks, and the page waits a moment for it

An answer of longer ago says nothing about now: without a newer one, nothing is known.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

logger = logging.getLogger(__name__)

FRESH_S: Final = 3.0
"""How long nobody is asked again."""

OLD_S: Final = 10.0
"""How long an answer is used."""

T = TypeVar("T")


class Asking(Generic[T]):
    """What was answered last.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._answer: T | None = None
        self._answered_s = self._asked_s = float("-inf")
        self._is_asking = self._has_failed = False

    def get(self, ask: Callable[[], T], patience_s: float) -> T | None:
        """Return the answer; None: it is not known.

        Args:
            patience_s: how long to wait for an answer; after a failure, nobody waits for the next.
        """
        with self._changed:
            if not self._is_asking and time.monotonic() - self._asked_s >= FRESH_S:
                self._is_asking, self._asked_s = True, time.monotonic()
                arguments = (ask,)
                threading.Thread(
                    target=self._run, args=arguments, name=self._name, daemon=True
                ).start()
            if self._is_old() and not self._has_failed:
                left_s = self._asked_s + patience_s - time.monotonic()
                self._changed.wait_for(lambda: not self._is_asking, max(left_s, 0.0))
            return None if self._is_old() else self._answer

    def _is_old(self) -> bool:
        return time.monotonic() - self._answered_s > OLD_S

    def _run(self, ask: Callable[[], T]) -> None:
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001 - the page says that it is unknown
            logger.debug("console: no answer about %s: %s", self._name, error)
            answer = None
        with self._changed:
            self._has_failed = answer is None
            self._answer, self._is_asking = answer, False
            self._answered_s = float("-inf") if answer is None else time.monotonic()
            self._changed.notify_all()
