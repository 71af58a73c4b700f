"""Opens the tables for a page: as of an instant, for one user, within a budget."""

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import duckdb

from streaming.queries.as_of.instant import BATCH
from streaming.queries.duckdb_tables import QueryError, Tables, new_engine
from streaming.queries.known_tables import KnownTables
from streaming.queries.message_attributes import RECORD
from streaming.storage.location import local_path
from topology.sentences import say

BUDGET_S: Final = 20.0
"""The longest that the queries of one page may take."""

MEMORY: Final = "512MB"
"""The most memory that a page takes."""

THREADS: Final = min(os.cpu_count() or 1, 2)
"""How many threads a page computes with; beside a job they have a low priority."""

CONCURRENT: Final = 3
"""How many pages are computed at once; others wait. One user has at most two of them."""

_STOP_POLL_S: Final = 0.05

_CLOCK: Final = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?")


class BudgetError(QueryError):
    """A page took too long, or too much memory."""


def too_much() -> BudgetError:
    """Why a page that takes too much memory is not shown."""
    return BudgetError(
        say("the page needs more than %(memory)s of memory; narrow what it asks for", memory=MEMORY)
    )


class _Engine(NamedTuple):
    """What a page leaves for a later one: DuckDB with a limit of its memory, and what it loaded."""

    connection: duckdb.DuckDBPyConnection
    memory: str
    known: KnownTables


class Reader:
    """The tables of a job, for pages that are computed on threads.

    Args:
        root: the folder or URL of the tables.
        options: storage options for object stores.
        pool: how much memory DuckDB takes before it writes to temporary files, in a process for
            SQL of users; None: MEMORY, and pages reuse the engines of earlier ones.

    Attributes:
        is_exhausted: whether a page has taken too much memory.
    """

    def __init__(
        self, root: str, options: Mapping[str, str] | None = None, *, pool: str | None = None
    ) -> None:
        self.root = root
        self.options = dict(options or {})
        self.is_exhausted = False
        self._pool = pool
        self._slots = threading.BoundedSemaphore(CONCURRENT)
        self._open_tables: set[Tables] = set()
        self._stopping = threading.Event()
        self._idle_engines: list[_Engine] = []
        is_local = local_path(root) is not None  # else an engine knows the files of one page
        self._reuses_engines = pool is None and is_local

    @contextmanager
    def open(self) -> Iterator[Tables]:
        """Open the tables for a page.

        Raises:
            BudgetError: the queries took longer than the budget.
        """
        with self._slots, self.background(BUDGET_S) as tables:
            yield tables

    @contextmanager
    def background(self, budget_s: float) -> Iterator[Tables]:
        """Open the tables for a question that no page waits for.

        Raises:
            BudgetError: the queries took longer than `budget_s`, or the console ends.
        """
        if self._stopping.is_set():
            raise BudgetError(say("the console ends"))
        engine, is_reusable = self._take_engine(), False
        tables = Tables(self.root, self.options, engine=engine.connection, known=engine.known)
        watch = threading.Timer(budget_s, tables.connection.interrupt)
        watch.daemon = True
        watch.start()
        self._open_tables.add(tables)
        try:
            if self._stopping.is_set():
                raise BudgetError(say("the console ends"))
            yield tables
            is_reusable = self._reuses_engines
        except (duckdb.Error, KeyError, QueryError, MemoryError) as error:
            # a question may have called it a mistake in the user's SQL
            causes = (error, error.__context__)
            if any(isinstance(one, duckdb.InterruptException) for one in causes):
                what = say(
                    "the page took longer than %(seconds)s s; narrow what it asks for",
                    seconds=round(budget_s),
                )
                raise BudgetError(what) from None
            if any(isinstance(one, duckdb.OutOfMemoryException | MemoryError) for one in causes):
                self.is_exhausted = True
                raise too_much() from None
            fault = None if isinstance(error, QueryError | MemoryError) else tables.fault(error)
            if fault is None:
                raise
            raise fault from None
        finally:
            watch.cancel()
            self._open_tables.discard(tables)
            tables.close()
            self._put_back(engine, is_reusable=is_reusable)

    def _take_engine(self) -> _Engine:
        memory = self._pool or MEMORY
        try:
            engine = self._idle_engines.pop()
        except IndexError:
            engine = _Engine(new_engine(THREADS), "", KnownTables())
        if engine.memory != memory:  # only then: DuckDB gives back what it has cached
            engine.connection.execute(f"SET memory_limit = '{memory}'")
        return engine._replace(memory=memory)

    def _put_back(self, engine: _Engine, *, is_reusable: bool) -> None:
        """Keep for a later page an engine that answered without a fault; close any other."""
        if is_reusable and len(self._idle_engines) < CONCURRENT and not self._stopping.is_set():
            self._idle_engines.append(engine)
        else:
            engine.connection.close()

    def stop(self) -> None:
        """End the questions that run, and wait until they have ended.

        A thread inside DuckDB when Python ends would abort the process.
        """
        self._stopping.set()
        while self._open_tables:
            for tables in list(self._open_tables):
                with contextlib.suppress(duckdb.Error):  # it has just been closed
                    tables.connection.interrupt()
            time.sleep(_STOP_POLL_S)
        while self._idle_engines:
            self._idle_engines.pop().connection.close()


def portable(text: str) -> str:
    """An instant of a page as `dlx` reads it in every time zone.

    Raises:
        QueryError: it is not an instant.
    """
    wanted = text.strip()
    if BATCH.fullmatch(wanted) or RECORD.fullmatch(wanted):
        return wanted
    return read_instant(wanted).isoformat().replace("+00:00", "Z")


def is_clock(text: str) -> bool:
    """Whether a text is a time of day alone."""
    return _CLOCK.fullmatch(text.strip()) is not None


def with_date(text: str) -> str:
    """A time of day with its date: the last one that has been.

    Raises:
        QueryError: there is no such time.
    """
    return f"{read_instant(text):%Y-%m-%d} {text.strip().zfill(5)}"


def read_instant(text: str) -> datetime:
    """Read an instant as the pages write it, UTC unless it names a zone; or @, and epoch seconds.

    Raises:
        QueryError: it is not an instant.
    """
    wanted = text.strip().upper()
    now = datetime.now(UTC)
    try:
        if wanted.startswith("@"):  # as the links of alerts have it
            return datetime.fromtimestamp(float(wanted[1:]), UTC)
        if _CLOCK.fullmatch(wanted):
            clock = datetime.fromisoformat(f"{now:%Y-%m-%d}T{wanted.zfill(5)}").replace(tzinfo=UTC)
            return clock if clock <= now else clock - timedelta(days=1)
        found = datetime.fromisoformat(wanted.removesuffix(" UTC"))
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        what = say(
            "cannot read the instant %(text)s: expected a batch such as 1234, UTC such as "
            "2026-11-22 10:05 or 10:05, or a message",
            text=repr(text),
        )
        raise QueryError(what) from None
