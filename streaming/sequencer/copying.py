"""Copies records of the job's inputs into the log of a vhost, each once, in order.

    inputs --read--> entries --submit--> the log --applied--> the next ones
                                           |
                 where to go on after a restart, or in another front (`copied_positions`)

Commands are always copied. Publishes wait while clients of AMQP would have to.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from streaming.amqp.entries import Ask, Publish
from streaming.amqp.stored import Stored
from streaming.broker.commands import Redrive
from streaming.protocol.copied_records import Source
from streaming.sequencer.applied import is_applied
from streaming.sequencer.input_reader import InputReader, PartitionKey
from streaming.sequencer.input_records import InputRecords
from streaming.sequencer.letter_contents import (
    LetterContents,
    offsets_needed,
    version_of_content,
    without,
)
from streaming.sequencer.log_reader import LogUnreadableError
from streaming.sequencer.log_vhost import LogVhost

READ_S: Final = 1.0
"""How long a read waits for records. It ends when there is one, and a stop waits for its end."""

_WAIT_S: Final = 0.1
MAX_CONTENT_BYTES: Final = 4 << 20
"""Contents of letters that are written before Kafka has to have them."""

_T = TypeVar("_T")

MAX_UNMARKED: Final = 10_000
"""Records of others behind the last copied one, before the log says how far was read."""


class Copying:
    """Copies one group of inputs while a vhost leads.

    Args:
        records: reads their records, on the thread of the reader.
        contents: reads the log.
        waits: whether nothing must be copied now.
    """

    def __init__(
        self,
        vhost: LogVhost,
        reader: InputReader,
        records: InputRecords,
        contents: LetterContents,
        waits: Callable[[], bool],
    ) -> None:
        self._vhost = vhost
        self._reader = reader
        self._records = records
        self._contents = contents
        self._waits = waits
        self._unmarked: Counter[PartitionKey] = Counter()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inputs")

    async def run(self) -> None:
        """Copy until the vhost does not lead here any more."""
        try:
            while self._vhost.leads:
                if self._waits():
                    await asyncio.sleep(_WAIT_S)
                    continue
                found = await self._in_thread(self._read)
                for source in self._reader.take_moved():
                    self._vhost.mark(source)
                if found and self._vhost.leads:
                    await self._copy(found)
        finally:
            await self._in_thread(self._contents.close)
            await self._in_thread(self._reader.close)
            self._thread.shutdown(wait=False)

    def _in_thread(self, step: Callable[[], _T]) -> Awaitable[_T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, step)

    def _read(self) -> list[tuple[Source, Ask | Publish | None]]:
        return [(each.source, self._records.entry(each)) for each in self._reader.read(READ_S)]

    async def _copy(self, found: list[tuple[Source, Ask | Publish | None]]) -> None:
        last: dict[PartitionKey, Source] = {}
        for source, entry in found:
            place = (source.topic, source.partition)
            last[place] = source
            if entry is None:
                self._unmarked[place] += 1
            else:
                await self._submit(entry)
                del self._unmarked[place]
        for place, source in last.items():
            if self._unmarked[place] >= MAX_UNMARKED:
                self._vhost.mark(source)
                del self._unmarked[place]
        if await is_applied(self._vhost):
            ends = {place: source.offset + 1 for place, source in last.items()}
            await self._in_thread(lambda: self._reader.copied(ends))

    async def _submit(self, entry: Ask | Publish) -> None:
        if isinstance(entry, Ask) and isinstance(entry.command, Redrive):
            missing = await self._write_contents(entry.command)
            entry = without(entry, entry.command, missing)
        self._vhost.submit(entry)

    async def _write_contents(self, redrive: Redrive) -> set[int]:
        """Write what the letters of a redrive need into the log; return what it has no more."""
        missing: set[int] = set()
        size = 0
        for offset in offsets_needed(self._vhost, redrive):
            stored = await self._content(offset)
            if stored is None:
                missing.add(offset)
                continue
            self._vhost.submit(version_of_content(offset, stored))
            size += len(stored.body)
            if size > MAX_CONTENT_BYTES:
                await is_applied(self._vhost)
                size = 0
        return missing

    async def _content(self, offset: int) -> Stored | None:
        """A message of the log; None if that has none there, or the vhost does not lead any more.

        While Kafka does not answer it waits, as everything does.
        """
        while True:
            try:
                return await self._in_thread(partial(self._contents.read, offset))
            except LogUnreadableError:
                if not self._vhost.leads:
                    return None
