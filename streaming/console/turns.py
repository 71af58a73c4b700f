"""Whose page is next: one user has no more than a few at once, so that others need not wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

OF_USER: Final = 2
"""Pages of one user that are computed at once; fewer than `streaming.console.reader.CONCURRENT`."""


class Turns:
    """Counts the pages of each user; each event loop for itself."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def of(self, user: str) -> AsyncIterator[None]:
        """Wait until the user has a place, and hold it."""
        key = user, id(asyncio.get_running_loop())
        places, holders = self._known.get(key, (asyncio.Semaphore(OF_USER), 0))
        self._known[key] = places, holders + 1
        try:
            async with places:
                yield
        finally:
            places, holders = self._known.pop(key)
            if holders > 1:
                self._known[key] = places, holders - 1
