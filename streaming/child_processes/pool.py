"""The child processes that compute what users ask of the tables: few, bounded, and kept warm.

question --a free child--> computed within its memory and time --> answer
--none--> waits, one question of a user at a time
--the child ends, or does not answer in time--> killed, and no answer

The console has some for SQL of users, and the management API has others for `/api/dlx`.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

import msgspec

from streaming.child_processes.frames import LENGTH, framed

MOST: Final = 2
"""Child processes at once."""

OF_USER: Final = 4
"""Questions of one user at once: one is computed, others wait."""

START_S: Final = 60.0
IDLE_S: Final = 120.0
"""How long a child waits for the next question before it ends."""

_CHUNK: Final = 1 << 20

T = TypeVar("T")


class TooManyQuestionsError(Exception):
    """The user has too many questions that are not answered yet."""


class NoAnswerError(Exception):
    """The child has ended, or had to be ended: it took too long, or too much memory."""


class StoppedError(Exception):
    """The process that asks ends."""


class Child:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._questions, self._answers = process.stdin, process.stdout
        self.is_ready = False
        self.idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def begin(self, content: bytes) -> None:
        """Send the first frame; whether it has arrived, the first answer tells."""
        self._questions.write(framed(content))

    async def send(self, content: bytes) -> None:
        """Send a frame."""
        self._questions.write(framed(content))
        await self._questions.drain()

    async def receive(self) -> bytes:
        """Receive a frame."""
        size = int.from_bytes(await self._answers.readexactly(LENGTH), "big")
        return await self._answers.readexactly(size)

    def kill(self) -> None:
        """Kill it; who waits for its answer gets none."""
        if self._process.returncode is None:
            self._process.kill()

    async def end(self) -> None:
        """End it, and wait for it; nobody may wait for an answer."""
        if self.idle is not None:
            self.idle.cancel()
        self.kill()
        self._questions.close()
        while await self._answers.read(_CHUNK):
            pass
        await self._process.wait()


class Children:
    """Asks child processes; they start when they are needed.

    Args:
        module: what a child runs: it reads frames and answers each, first the settings.
        settings: as msgpack; secrets are among them, in the text that a child needs.
    """

    def __init__(self, module: str, settings: msgspec.Struct) -> None:
        self._module = module
        self._settings = msgspec.msgpack.encode(settings, enc_hook=_plain)
        self._free: list[Child] = []
        self._all: set[Child] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(MOST)
        self._turns: dict[str, asyncio.Lock] = {}
        self._asked: Counter[str] = Counter()
        self._starting = 0
        self._is_stopped = False

    async def prepare(self) -> None:
        """Start a child, unless there is one: somebody is about to ask."""
        if not self._all and not self._starting and not self._is_stopped:
            with suppress(StoppedError):
                self._rest(await self._start())

    async def ask(
        self,
        user: str,
        question: bytes,
        budget_s: float,
        read: Callable[[Child], Awaitable[tuple[T, bool]]],
    ) -> T:
        """Ask a child.

        Args:
            budget_s: how long it may take before it is killed.
            read: reads the answer, and whether the child ends after it.

        Raises:
            TooManyQuestionsError: of this user.
            NoAnswerError: the child took too much, or has ended.
            StoppedError: no more questions are answered.
        """
        async with self._turn(user), self._places:
            child, is_last = await self._take(), True
            try:
                if not child.is_ready:
                    async with asyncio.timeout(START_S):
                        await child.receive()
                    child.is_ready = True
                async with asyncio.timeout(budget_s):
                    await child.send(question)
                    found, is_last = await read(child)
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as error:
                raise NoAnswerError(repr(error)) from None
            finally:
                if is_last or self._is_stopped:
                    self._discard(child)
                else:
                    self._rest(child)
        return found

    def unanswered(self, user: str) -> int:
        """How many questions of a user are computed, or wait."""
        return self._asked[user]

    def pids(self) -> list[int]:
        """The process ids of the children."""
        return [one.pid for one in self._all]

    async def stop(self) -> None:
        """End all children; who asks now is refused."""
        self._is_stopped = True
        for one in list(self._all):
            one.kill()
        for _ in range(MOST):  # nobody waits for an answer any more
            await self._places.acquire()
        for one in list(self._all):
            self._discard(one)
        await asyncio.gather(*self._ending)
        for _ in range(MOST):
            self._places.release()

    @asynccontextmanager
    async def _turn(self, user: str) -> AsyncIterator[None]:
        if self._asked[user] >= OF_USER:
            raise TooManyQuestionsError
        self._asked[user] += 1
        try:
            async with self._turns.setdefault(user, asyncio.Lock()):
                yield
        finally:
            self._asked[user] -= 1
            if not self._asked[user]:
                del self._asked[user], self._turns[user]

    async def _take(self) -> Child:
        if self._is_stopped:
            raise StoppedError
        if not self._free:
            return await self._start()
        child = self._free.pop()
        if child.idle is not None:
            child.idle.cancel()
        return child

    async def _start(self) -> Child:
        self._starting += 1
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", self._module),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "MALLOC_ARENA_MAX": "2"},
            )
        finally:
            self._starting -= 1
        child = Child(process)
        self._all.add(child)
        if self._is_stopped:
            self._discard(child)
            raise StoppedError
        child.begin(self._settings)
        return child

    def _rest(self, child: Child) -> None:
        child.idle = asyncio.get_running_loop().call_later(IDLE_S, self._discard, child)
        self._free.append(child)

    def _discard(self, child: Child) -> None:
        if child not in self._all:
            return
        self._all.remove(child)
        ending = asyncio.create_task(child.end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        if child in self._free:
            self._free.remove(child)


def _plain(value: object) -> str:
    """The text of a secret, which is a kind of `str`."""
    if isinstance(value, str):
        return str(value)
    raise NotImplementedError(f"settings cannot have {type(value).__name__}")
