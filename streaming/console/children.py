"""The child processes that compute what SQL of users asks for: few, bounded, and kept warm.

request with SQL --a free child--> computed within its memory and time --> answer
--none--> waits, one query of a user at a time
--the child ends, or does not answer in time--> killed; the answer says so
"""

import logging
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

import msgspec

from streaming.console.answering import Answered, Asked
from streaming.console.child import ChildSettings, Head
from streaming.console.frames import receive, send
from streaming.console.page import Refused
from streaming.console.reader import BUDGET_S, MEMORY, BudgetError
from streaming.sentences import say

MOST: Final = 2
"""Child processes at once."""

OF_USER: Final = 4
"""Queries of one user at once: one is computed, others wait."""

GRACE_S: Final = 5.0
"""How much longer than its budget a child may take before it is killed."""

START_S: Final = 60.0
IDLE_S: Final = 120.0
"""How long a child waits for the next request before it ends."""

_KEPT_BYTES: Final = 4_000_000
"""Larger answers are kept in a temporary file until they are sent."""

_CHUNK: Final = 65_536

logger = logging.getLogger(__name__)


class _Child:
    """One process."""

    def __init__(self, settings: ChildSettings) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "streaming.console.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "MALLOC_ARENA_MAX": "2"},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.requests: IO[bytes] = self.process.stdin
        self.answers: IO[bytes] = self.process.stdout
        self.is_ready = False
        self.idle: threading.Timer | None = None
        with suppress(BrokenPipeError):  # it has ended, as the first request will tell
            send(self.requests, msgspec.msgpack.encode(settings))

    def ask(self, asked: Asked, budget_s: float) -> tuple[Head, IO[bytes]] | None:
        """Return an answer and its body; None: it did not answer, and has ended."""
        watch = threading.Timer(budget_s + GRACE_S, self.process.kill)
        watch.daemon = True
        try:
            if not self.is_ready:
                self._wait_until_ready()
            watch.start()
            send(self.requests, msgspec.msgpack.encode(asked))
            return self._answer()
        except (BrokenPipeError, ValueError):  # it has ended; `end` has closed the pipes meanwhile
            return None
        finally:
            watch.cancel()

    def _answer(self) -> tuple[Head, IO[bytes]] | None:
        first = receive(self.answers)
        if first is None:
            return None
        body = tempfile.SpooledTemporaryFile(max_size=_KEPT_BYTES)  # noqa: SIM115 - it is returned
        while part := receive(self.answers):
            body.write(part)
        if part is None:
            body.close()
            return None
        body.seek(0)
        return msgspec.msgpack.decode(first, type=Head), body

    def _wait_until_ready(self) -> None:
        watch = threading.Timer(START_S, self.process.kill)
        watch.daemon = True
        watch.start()
        receive(self.answers)  # None if it has ended, which the next answer tells too
        watch.cancel()
        self.is_ready = True

    def end(self) -> None:
        """End the process, and wait for it."""
        self.process.kill()
        for pipe in (self.requests, self.answers):
            with suppress(BrokenPipeError):
                pipe.close()
        self.process.wait()


class Children:
    """Answers requests in child processes; they start when they are needed.

    Attributes:
        budget_s: how long a query may take.
    """

    def __init__(self, settings: ChildSettings) -> None:
        self.budget_s = BUDGET_S
        self._settings = settings
        self._free: list[_Child] = []
        self._all: set[_Child] = set()
        self._places = threading.Semaphore(MOST)
        self._turns: dict[str, threading.Lock] = {}
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._is_stopped = False
        self._end = weakref.finalize(self, _end, self._all)

    def prepare(self) -> None:
        """Start a child, unless there is one: somebody is about to write a query."""
        with self._lock:
            if self._all or self._is_stopped:
                return
            child = self._start()
        self._rest(child)

    def answer(self, asked: Asked) -> Answered:
        """Compute an answer in a child.

        Raises:
            Refused: the user has too many queries, or the console ends.
            BudgetError: the query takes too much, and had to be ended.
        """
        with self._turn(asked.user.name), self._places:
            child = self._take()
            found = child.ask(asked, self.budget_s)
            if found is None or found[0].is_last:
                self._discard(child)
            else:
                self._rest(child)
        self.prepare()  # another one, if this was the last
        if found is None:
            logger.warning("console: the process of a query has ended without an answer")
            raise BudgetError(
                say(
                    "the query took more than %(memory)s of memory or %(seconds)s s, so its "
                    "process was ended; narrow what it asks for",
                    memory=MEMORY,
                    seconds=round(self.budget_s),
                )
            )
        head, body = found
        if head.is_file:
            return Answered(head.status, head.headers, file=_parts(body))
        with body:
            return Answered(head.status, head.headers, body.read())

    def stop(self) -> None:
        """End all children; who asks now is refused."""
        with self._lock:
            self._is_stopped = True
            _end(self._all)

    def unanswered(self, user: str) -> int:
        """How many queries of a user are computed, or wait."""
        with self._lock:
            return self._asked[user]

    def pids(self) -> list[int]:
        """The process ids of the children."""
        with self._lock:
            return [one.process.pid for one in self._all]

    @contextmanager
    def _turn(self, user: str) -> Iterator[None]:
        with self._lock:
            if self._asked[user] >= OF_USER:
                what = say(
                    "You have %(count)s queries that are not answered yet: wait for one.",
                    count=OF_USER,
                )
                raise Refused(429, what)
            self._asked[user] += 1
            turn = self._turns.setdefault(user, threading.Lock())
        try:
            with turn:
                yield
        finally:
            with self._lock:
                self._asked[user] -= 1
                if not self._asked[user]:
                    del self._asked[user], self._turns[user]

    def _start(self) -> _Child:
        child = _Child(self._settings)
        self._all.add(child)
        return child

    def _take(self) -> _Child:
        with self._lock:
            if self._is_stopped:
                raise Refused(503, say("The console ends."))
            if not self._free:
                return self._start()
            child = self._free.pop()
            if child.idle is not None:
                child.idle.cancel()
            return child

    def _rest(self, child: _Child) -> None:
        child.idle = threading.Timer(IDLE_S, self._retire, [child])
        child.idle.daemon = True
        child.idle.start()
        with self._lock:
            self._free.append(child)

    def _retire(self, child: _Child) -> None:
        with self._lock:
            if child not in self._free:
                return
            self._free.remove(child)
        self._discard(child)

    def _discard(self, child: _Child) -> None:
        child.end()
        with self._lock:
            self._all.discard(child)


def _end(children: set[_Child]) -> None:
    for one in list(children):
        if one.idle is not None:
            one.idle.cancel()
        one.end()
    children.clear()


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(_CHUNK):
            yield part
