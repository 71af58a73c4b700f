"""Balances, drawn on a thread: one reads all rows since the last snapshot, which may take a while.

a page asks --> drawn before? --> yes: it is shown
                              --> no: a thread draws it; the last one is shown meanwhile
"""

import logging
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import Final, NamedTuple

from streaming.console.account import Drawn
from streaming.console.reader import Reader, read_instant
from streaming.queries.as_of.instant import resolve
from streaming.queries.audit.balance import balance as draw_balance
from streaming.queries.gone import gone
from streaming.queries.job_totals import last_batches
from topology.errors import DlxError
from topology.sentences import say

LEAST_PAUSE_S: Final = 15.0
MOST_PAUSE_S: Final = 300.0
PAUSES: Final = 20.0
"""How long the pause after a balance for the first page is, in times of how long that took."""

LIMIT_S: Final = 300.0
"""The longest time that a balance may take."""

PATIENCE_S: Final = 0.4
"""How long a page waits for a balance that has just begun."""

MAX_KEPT: Final = 16
MAX_WAITING: Final = 4
"""How many balances wait for their turn; more are begun when their pages ask again."""

logger = logging.getLogger(__name__)


class Asked(NamedTuple):
    """Which balance is asked for.

    Attributes:
        version: of the table `events`.
        as_of: the instant of the page; None: the last batch.
        vhosts: those that the user may see; None: all.
        quiet: queues whose dead letters are dropped by design.
    """

    version: int
    as_of: str | None
    vhosts: frozenset[str] | None
    quiet: tuple[str, ...] = ()


class BalanceWatch:
    """Draws one balance after the other, and keeps the latest."""

    def __init__(self) -> None:
        self._drawings: OrderedDict[Asked, Future[Drawn]] = OrderedDict()
        self._live: dict[frozenset[str] | None, Drawn] = {}
        self._next_s = 0.0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "balance")

    def last(self, reader: Reader, version: int, quiet: tuple[str, ...] = ()) -> Drawn | None:
        """Return the last balance of all vhosts; begin another if it is old; None: the first is."""
        with self._lock:
            is_due = time.monotonic() >= self._next_s
            if is_due:
                self._next_s = time.monotonic() + MOST_PAUSE_S  # until one is drawn
        if is_due:
            self._begin(reader, Asked(version, None, None, quiet))
        return self._live.get(None)

    def of(self, reader: Reader, asked: Asked) -> tuple[Drawn | None, bool]:
        """Return a balance and whether it is the one that was asked for.

        While that one is drawn, return the last of the live page; None if there is none.

        Raises:
            DlxError: it could not be drawn; the next question tries again.
        """
        drawing = self._begin(reader, asked)
        if drawing is not None and wait([drawing], PATIENCE_S).done:
            if drawing.exception() is not None:
                with self._lock:
                    self._drawings.pop(asked, None)
            return drawing.result(), True
        return (self._live.get(asked.vhosts) if asked.as_of is None else None), False

    def _begin(self, reader: Reader, asked: Asked) -> "Future[Drawn] | None":
        """Begin to draw, unless it has begun; None: too many wait."""
        with self._lock:
            known = self._drawings.get(asked)
            if known is not None:
                self._drawings.move_to_end(asked)
                return known
            if sum(not one.done() for one in self._drawings.values()) >= MAX_WAITING:
                return None
            drawing = self._drawings[asked] = self._pool.submit(self._draw, reader, asked)
            while len(self._drawings) > MAX_KEPT:
                self._drawings.popitem(last=False)
        return drawing

    def _draw(self, reader: Reader, asked: Asked) -> Drawn:
        begun_s = time.monotonic()
        try:
            with reader.background(LIMIT_S) as tables:
                tables.vhosts = asked.vhosts
                if asked.as_of is not None:
                    tables.cut = resolve(tables, asked.as_of, read_instant)
                drawn = draw_balance(tables)
                batches = last_batches(tables, 1)
                at = None
                if batches:
                    at = datetime.fromtimestamp(batches[0].at_s, UTC).isoformat()
                found = Drawn(drawn, gone(tables, asked.quiet), at)
        except DlxError:
            raise
        except Exception as error:  # the page says that it is unknown
            logger.exception("console: the balance could not be drawn")
            what = say("the balance could not be drawn: %(fault)s", fault=type(error).__name__)
            raise DlxError(what) from None
        if asked.as_of is None:
            self._live[asked.vhosts] = found
            took_s = time.monotonic() - begun_s
            with self._lock:
                self._next_s = begun_s + min(max(PAUSES * took_s, LEAST_PAUSE_S), MOST_PAUSE_S)
        return found
