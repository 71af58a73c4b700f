"""The processes that read the tables for `/api/dlx`: few, bounded, and kept warm.

question --a free process--> answered within its memory and time --> answer
--none--> waits, one question of a user at a time
--it ends, or does not answer in time--> killed; the answer says so
"""

import asyncio
import logging
import os
import sys
from collections import Counter
from importlib.util import find_spec
from typing import Final

import msgspec

from streaming.dlx_api.asking import NO_TABLES, Ask, Settings, Told
from streaming.management.errors import ApiError

MOST: Final = 2
"""Processes at once."""

OF_USER: Final = 4
"""Questions of one user at once: one is answered, others wait."""

BUDGET_S: Final = 25.0
"""How long a process may take for an answer before it is killed."""

START_S: Final = 60.0
IDLE_S: Final = 120.0
"""How long a process waits for the next question before it ends."""

_LENGTH: Final = 4
_ENDED: Final = (asyncio.IncompleteReadError, ConnectionError)

logger = logging.getLogger(__name__)


class _Child:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._questions, self._answers = process.stdin, process.stdout
        self.is_ready = False
        self.idle: asyncio.TimerHandle | None = None

    async def send(self, content: bytes) -> None:
        self._questions.write(len(content).to_bytes(_LENGTH, "big") + content)
        await self._questions.drain()

    async def receive(self) -> bytes:
        size = int.from_bytes(await self._answers.readexactly(_LENGTH), "big")
        return await self._answers.readexactly(size)

    def end(self) -> None:
        if self.idle is not None:
            self.idle.cancel()
        if self._process.returncode is None:
            self._process.kill()

    async def ended(self) -> None:
        await self._process.wait()


class Readers:
    """Answers questions from tables.

    Attributes:
        budget_s: how long an answer may take.
    """

    def __init__(self, settings: Settings) -> None:
        self.budget_s = BUDGET_S
        self._settings = settings
        self._free: list[_Child] = []
        self._all: set[_Child] = set()
        self._places = asyncio.Semaphore(MOST)
        self._asked: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Lock] = {}

    async def ask(self, ask: Ask) -> Told:
        """Answer a question.

        Raises:
            ApiError: 429, the user has too many questions; 503, it took too long; 409, packages
                are missing.
        """
        if find_spec("duckdb") is None:
            what = "the tables of the job need the extra job: pip install 'dlx-stream[job]'"
            raise ApiError(409, NO_TABLES, what)
        user = ask.user
        if self._asked[user] >= OF_USER:
            what = f"you have {OF_USER} questions that are not answered yet: wait for one"
            raise ApiError(429, "too_many_requests", what)
        self._asked[user] += 1
        try:
            async with self._turns.setdefault(user, asyncio.Lock()), self._places:
                return await self._answered(ask)
        finally:
            self._asked[user] -= 1
            if not self._asked[user]:
                del self._asked[user], self._turns[user]

    def pids(self) -> list[int]:
        """The process ids of the processes."""
        return [one._process.pid for one in self._all]  # noqa: SLF001 - of this file

    async def stop(self) -> None:
        """End all processes."""
        everyone = list(self._all)
        for one in everyone:
            self._discard(one)
        for one in everyone:
            await one.ended()

    async def _answered(self, ask: Ask) -> Told:
        child = self._free.pop() if self._free else await self._started()
        if child.idle is not None:
            child.idle.cancel()
        told = None
        try:
            if not child.is_ready:
                async with asyncio.timeout(START_S):
                    await child.send(msgspec.msgpack.encode(self._settings))
                    await child.receive()
                child.is_ready = True
            async with asyncio.timeout(self.budget_s):
                await child.send(msgspec.msgpack.encode(ask))
                told = msgspec.msgpack.decode(await child.receive(), type=Told)
        except (TimeoutError, *_ENDED) as error:
            logger.warning("management: the process that reads the tables was ended: %r", error)
            what = (
                f"it took more than {self.budget_s:.0f} s, or too much memory: ask for less at once"
            )
            raise ApiError(503, "takes_too_long", what) from None
        finally:
            if told is None or told.is_last:
                self._discard(child)
            else:
                self._rest(child)
        return told

    async def _started(self) -> _Child:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "streaming.dlx_api.child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "MALLOC_ARENA_MAX": "2"},
        )
        child = _Child(process)
        self._all.add(child)
        return child

    def _rest(self, child: _Child) -> None:
        child.idle = asyncio.get_running_loop().call_later(IDLE_S, self._discard, child)
        self._free.append(child)

    def _discard(self, child: _Child) -> None:
        child.end()
        self._all.discard(child)
        if child in self._free:
            self._free.remove(child)
