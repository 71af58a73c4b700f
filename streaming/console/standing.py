"""Whether the balance closes, drawn now and then on a thread: it reads the whole ledger."""

import logging
import threading
import time
from typing import Final, NamedTuple

from streaming.console.reader import Reader
from streaming.queries.audit.balance import balance

PAUSE_S: Final = 300.0
"""The shortest time between two balances."""

LIMIT_S: Final = 300.0
"""The longest time that a balance may take."""

logger = logging.getLogger(__name__)


class Standing(NamedTuple):
    """The last balance: rows that are unexplained, and up to which batch."""

    unexplained: int
    batch_id: int | None


class BalanceWatch:
    """Draws the balance while someone looks at it."""

    def __init__(self) -> None:
        self._last: Standing | None = None
        self._next_s = 0.0
        self._lock = threading.Lock()

    def last(self, reader: Reader) -> Standing | None:
        """Return the last balance, and begin another one if it is old; None: the first is drawn."""
        with self._lock:
            is_due = time.monotonic() >= self._next_s
            if is_due:
                self._next_s = float("inf")
        if is_due:
            threading.Thread(target=self._draw, args=(reader,), name="balance").start()
        return self._last

    def _draw(self, reader: Reader) -> None:
        try:
            with reader.background(LIMIT_S) as tables:
                found = balance(tables)
            self._last = Standing(found.unexplained, found.batch_id)
        except Exception as error:  # noqa: BLE001 - the page says that it is unknown
            logger.warning("console: the balance could not be drawn: %s", error)
        finally:
            self._next_s = time.monotonic() + PAUSE_S
