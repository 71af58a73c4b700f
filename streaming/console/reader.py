"""Opens the tables for a page: as of an instant, for one user, within a budget."""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import duckdb

from streaming.queries.as_of import resolve
from streaming.queries.duckdb_tables import QueryError, Tables

BUDGET_S: Final = 20.0
"""The longest that the queries of one page may take."""

MEMORY: Final = "512MB"
CONCURRENT: Final = 2
"""How many pages are computed at once; others wait."""

_CLOCK: Final = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?")


class BudgetError(QueryError):
    """A page took too long."""


class Reader:
    """The tables of a job, for pages that are computed on threads.

    Args:
        root: the folder or URL of the tables.
        options: storage options for object stores.
    """

    def __init__(self, root: str, options: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.options = dict(options or {})
        self._slots = threading.BoundedSemaphore(CONCURRENT)

    @contextmanager
    def open(self, as_of: str | None = None) -> Iterator[Tables]:
        """Open the tables as they were at an instant; None: after the last batch.

        Raises:
            BudgetError: the queries took longer than the budget.
            QueryError: the tables do not have that instant.
        """
        with self._slots:
            tables = Tables(self.root, self.options, threads=1)
            watch = threading.Timer(BUDGET_S, tables.connection.interrupt)
            watch.daemon = True
            watch.start()
            try:
                tables.connection.execute(f"SET memory_limit = '{MEMORY}'")
                if as_of is not None:
                    tables.cut = resolve(tables, as_of, read_instant)
                yield tables
            except duckdb.InterruptException:
                what = f"the page took longer than {BUDGET_S:.0f} s; narrow what it asks for"
                raise BudgetError(what) from None
            except duckdb.OutOfMemoryException:
                what = f"the page needs more than {MEMORY}; narrow what it asks for"
                raise BudgetError(what) from None
            finally:
                watch.cancel()
                tables.close()


def read_instant(text: str) -> datetime:
    """Read an instant as the pages write it: UTC unless it names a zone.

    Raises:
        QueryError: it is not an instant.
    """
    wanted = text.strip().upper()
    now = datetime.now(UTC)
    try:
        if _CLOCK.fullmatch(wanted):
            clock = datetime.fromisoformat(f"{now:%Y-%m-%d}T{wanted.zfill(5)}").replace(tzinfo=UTC)
            return clock if clock <= now else clock - timedelta(days=1)
        found = datetime.fromisoformat(wanted.removesuffix(" UTC"))
    except ValueError:
        what = "expected a batch such as 1234, UTC such as 2026-11-22 10:05 or 10:05, or a message"
        raise QueryError(f"cannot read the instant {text!r}: {what}") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
