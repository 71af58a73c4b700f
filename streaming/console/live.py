"""Tells open pages about new batches, by server-sent events that resume by batch number.

the log of `events` --one poll for all pages--> last batch --> id: 1234, event: batch
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Final

from deltalake import DeltaTable
from starlette.concurrency import run_in_threadpool

from streaming.console.reader import Reader
from streaming.queries.as_of.instant import last_batch
from streaming.queries.duckdb_tables import QueryError
from streaming.queries.job_totals import last_batches

POLL_S: Final = 1.0
BEAT_S: Final = 15.0
"""How often a silent stream sends a comment, so that proxies keep it open."""

MAX_STREAMS: Final = 200

logger = logging.getLogger(__name__)


class Live:
    """Follows the batches while anybody listens.

    Attributes:
        batch: the last batch that was told; None: nobody has listened yet.
        at_s: when it was committed.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._events: DeltaTable | None = None
        self._version = -1
        self.batch: int | None = None
        self.at_s = 0.0
        self._changed = asyncio.Condition()
        self._listeners = 0
        self._poll: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_following(self) -> bool:
        """Whether `batch` is at most as old as the last poll."""
        is_polling = self._poll is not None and not self._poll.done()
        return is_polling and self.batch is not None

    async def stream(self, since: int | None) -> AsyncIterator[str]:
        """Yield server-sent events: the last batch if it is after `since`, then each new one.

        Args:
            since: the last batch that the page knows, its `Last-Event-ID`.
        """
        if self._listeners >= MAX_STREAMS:
            yield "retry: 30000\n\n"
            return
        self._listeners += 1
        if self._poll is None or self._poll.done():
            self._poll = asyncio.create_task(self._follow())
        try:
            yield "retry: 1000\n\n"
            while not self._is_closed:
                batch = self.batch
                if batch is not None and batch != since:
                    age_s = max(round(time.time() - self.at_s), 0)
                    data = f'{{"batch": {batch}, "age_s": {age_s}}}'
                    yield f"id: {batch}\nevent: batch\ndata: {data}\n\n"
                    since = batch
                try:
                    async with asyncio.timeout(BEAT_S), self._changed:
                        await self._changed.wait()
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners -= 1

    async def close(self) -> None:
        """End all streams."""
        self._is_closed = True
        async with self._changed:
            self._changed.notify_all()
        if self._poll is not None:
            self._poll.cancel()

    async def _follow(self) -> None:
        while self._listeners and not self._is_closed:
            try:
                batch = await run_in_threadpool(self._last_batch)
            except Exception as error:  # noqa: BLE001 - the tables may be unreachable for a while
                logger.debug("live: %s", error)
                batch = None
            if batch is not None and batch != (self.batch, self.at_s):
                self.batch, self.at_s = batch
                async with self._changed:
                    self._changed.notify_all()
            await asyncio.sleep(POLL_S)

    def _last_batch(self) -> tuple[int, float] | None:
        """The last batch and when it was, if the table has changed since it was asked."""
        if self._events is not None:
            self._events.update_incremental()
            if self._events.version() == self._version:
                return None
        try:
            with self._reader.open() as tables:
                self._events = self._events or tables.table("events")
                batch = last_batch(tables)
                rows = last_batches(tables, 1)
        except QueryError:  # no batch yet
            return None
        self._version = self._events.version()
        return batch, rows[0].at_s if rows else 0.0
