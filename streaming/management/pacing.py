"""Long answers are made in short steps: between two of them the broker serves its clients.

A confirm that is due waits until the step that runs is over, so none may be long: making a list,
putting it in order, writing it as JSON and sending it all pause, however many items there are.
However many answers are made at the same time, one of them takes one step, and then the broker's
clients have their turn.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from time import perf_counter
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

STEP_S: Final = 0.000_1
"""How long a step may take."""

_RUN: Final = 128
"""Items that are put in order in one go."""

_PART: Final = 32
"""Items that are looked at in one go."""

T = TypeVar("T")


class _Turns:
    """Lets those that wait go on one by one, each in another round of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait for the next turn, behind all that wait already."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._next)
        await turn

    def _next(self) -> None:
        while self._waiting[0].cancelled() and len(self._waiting) > 1:
            self._waiting.popleft()
        turn = self._waiting.popleft()
        if not turn.cancelled():
            turn.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)


_turns: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns]] = WeakKeyDictionary()


async def next_turn() -> None:
    """Let the broker's clients be served, and other answers make a step."""
    loop = asyncio.get_running_loop()
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = _Turns()
    await turns.wait()


class Pace:
    """The steps of one answer."""

    def __init__(self) -> None:
        self._until_s = perf_counter() + STEP_S

    async def rest(self) -> None:
        """Let others be served if this step has taken long enough."""
        if perf_counter() >= self._until_s:
            await next_turn()
            self._until_s = perf_counter() + STEP_S

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items, with rests between them."""
        for item in items:
            if perf_counter() >= self._until_s:
                await self.rest()
            yield item

    async def parts(self, items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
        """The items some at a time, with rests between: for what is soon done with each of them."""
        for start in range(0, len(items), _PART):
            await self.rest()
            yield items[start : start + _PART]

    async def drop(self, items: list[Any]) -> None:
        """Let go of very many items: to free them all at once takes milliseconds."""
        while items:
            del items[-_PART:]
            await self.rest()

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
