"""Calls of the synchronous client on threads, awaited and safe to cancel."""

import asyncio
import functools
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from streaming.client.errors import ClientError, ConnectionClosedError
from streaming.waiting import CHECK_S

P = ParamSpec("P")
R = TypeVar("R")

MAX_THREADS = 64
"""Calls of one connection that wait for the job at the same time; more are queued."""


class Thread:
    """A thread that keeps the order of its calls; it starts with the first one."""

    def __init__(self, name: str, count: int = 1) -> None:
        self._executor = ThreadPoolExecutor(count, f"dlx-client-aio-{name}")

    def submit(self, call: Callable[[], R]) -> Future[R]:
        """Queue a call; it sees the context variables of the caller.

        Raises:
            ConnectionClosedError: after `end`.
        """
        try:
            return self._executor.submit(copy_context().run, call)
        except RuntimeError as error:
            raise ConnectionClosedError("the connection or channel is closed") from error

    async def run(self, call: Callable[[], R], undo: Callable[[R], object] | None = None) -> R:
        """Run a call and wait for its result; see `result`."""
        return await result(self.submit(call), undo)

    def end(self) -> None:
        """Accept no more calls; those that are queued are run."""
        self._executor.shutdown(wait=False)


class Threads(Thread):
    """The threads of one connection: a pool for calls that wait, and threads that keep an order."""

    def __init__(self) -> None:
        super().__init__("call", MAX_THREADS)
        self._in_order: list[Thread] = []

    def in_order(self, name: str) -> Thread:
        """Return a thread that ends with the others."""
        thread = Thread(name)
        self._in_order.append(thread)
        return thread

    def end(self) -> None:
        """Accept no more calls on any thread."""
        super().end()
        for thread in self._in_order:
            thread.end()


class Pulse:
    """Wakes the running event loop again and again, until `end`.

    A loop that waits for nothing else looks for no signal: Ctrl-C just before it began to wait
    would end nothing (`streaming.waiting`).
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._beat()

    def _beat(self) -> None:
        self._next = self._loop.call_later(CHECK_S, self._beat)

    def end(self) -> None:
        """Wake it no more."""
        self._next.cancel()


async def result(future: Future[R], undo: Callable[[R], object] | None = None) -> R:
    """Wait for a call on a thread.

    If the waiting task is cancelled, a call that has not begun never does. The result of another
    one is undone when it comes.
    """
    try:
        return await asyncio.wrap_future(future)
    except CancelledError:
        if undo is not None and not future.cancelled():
            future.add_done_callback(functools.partial(_undo, undo))
        raise


def _undo(undo: Callable[[R], object], future: Future[R]) -> None:
    if not future.cancelled() and future.exception() is None:
        with suppress(ClientError):  # the channel or connection is closed, which undoes it too
            undo(future.result())


def awaited(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Make the coroutine method that runs a method of the synchronous twin on a thread."""

    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        work: Callable[[], R] = functools.partial(method, self._sync, *args, **kwargs)
        return await result(self._threads.submit(work))

    functools.update_wrapper(call, method)
    return call


def on_loop(callback: Callable[[R], object]) -> Callable[[R], None]:
    """Make a function that calls another one on the running event loop, from any thread."""
    loop = asyncio.get_running_loop()

    def call(value: R) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(callback, value)

    return call


class Opening(Generic[R]):
    """What is being opened: `await` it, or use it with `async with`, which closes it at the end."""

    def __init__(self, opening: Coroutine[Any, Any, R]) -> None:
        self._opening = opening
        self._opened: Any = None

    def __await__(self) -> Generator[Any, None, R]:
        return self._opening.__await__()

    async def __aenter__(self) -> R:
        opened = await self._opening
        self._opened = opened
        return opened

    async def __aexit__(self, *_: object) -> None:
        await self._opened.close()
