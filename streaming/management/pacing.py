"""Long answers are made in short steps: between two of them the broker serves its clients.

A confirm that is due waits until the step that runs is over, so none may be long: making a list,
putting it in order, writing it as JSON and sending it all pause, however many items there are.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from time import perf_counter
from typing import Any, Final, TypeVar

STEP_S: Final = 0.000_1
"""How long a step may take."""

_RUN: Final = 128
"""Items that are put in order in one go."""

T = TypeVar("T")


class Pace:
    """The steps of one answer."""

    def __init__(self) -> None:
        self._until_s = perf_counter() + STEP_S

    async def rest(self) -> None:
        """Let others be served if this step has taken long enough."""
        if perf_counter() >= self._until_s:
            await asyncio.sleep(0)
            self._until_s = perf_counter() + STEP_S

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items, with rests between them."""
        for item in items:
            if perf_counter() >= self._until_s:
                await self.rest()
            yield item

    async def in_order(
        self, keys: Sequence[Any], *, reverse: bool, most: int | None = None
    ) -> list[Any]:
        """Keys of which no two are equal, sorted; the first ones if only so many are needed."""
        runs: list[list[Any]] = []
        for start in range(0, len(keys), _RUN):
            runs.append(sorted(keys[start : start + _RUN], reverse=reverse))
            await self.rest()
        merged: Iterator[Any] = islice(merge(*runs, reverse=reverse), most)
        return [key async for key in self.each(merged)]
