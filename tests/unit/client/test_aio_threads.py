"""Calls on threads: what a cancelled task leaves behind."""

import asyncio
import threading
from functools import partial

import pytest

from streaming.client import ClientError, ConnectionClosedError
from streaming.client.aio.threads import Thread, Threads, on_loop

WAIT_S = 60


async def cancelled_while_it_runs(thread, call, undo):
    """Start a call, cancel its task once the call runs, and let it end."""
    running, may_end = threading.Event(), threading.Event()

    def work():
        running.set()
        assert may_end.wait(WAIT_S)
        return call()

    task = asyncio.create_task(thread.run(work, undo))
    await asyncio.to_thread(running.wait, WAIT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_end.set()
    await thread.run(lambda: None)  # after the call


def test_the_result_of_a_call_whose_task_was_cancelled_is_undone():
    undone: list[str] = []

    asyncio.run(cancelled_while_it_runs(Thread("test"), lambda: "a delivery", undone.append))

    assert undone == ["a delivery"]


def test_a_call_that_failed_is_not_undone_and_a_closed_channel_needs_no_undoing():
    undone = []

    def fails():
        raise ClientError("refused")

    def undo(_result):
        undone.append("tried")
        raise ClientError("closed")

    asyncio.run(cancelled_while_it_runs(Thread("test"), fails, undo))
    assert undone == []
    asyncio.run(cancelled_while_it_runs(Thread("test"), lambda: "it", undo))
    assert undone == ["tried"]


def test_a_call_that_has_not_begun_never_does():
    called = []

    async def main():
        thread, may_end = Thread("test"), threading.Event()
        first = asyncio.create_task(thread.run(lambda: may_end.wait(WAIT_S)))
        second = asyncio.create_task(thread.run(lambda: called.append("second"), called.append))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        may_end.set()
        assert await first
        await thread.run(lambda: called.append("third"))

    asyncio.run(main())
    assert called == ["third"]


def test_calls_keep_their_order_and_the_loop_stays_free():
    async def main():
        thread, may_end = Thread("test"), threading.Event()
        order: list[int] = []
        first = asyncio.create_task(thread.run(lambda: may_end.wait(WAIT_S)))
        others = [
            asyncio.create_task(thread.run(partial(order.append, number))) for number in range(100)
        ]
        await asyncio.sleep(0)  # the loop runs although the thread waits
        may_end.set()
        await asyncio.gather(first, *others)
        return order

    assert asyncio.run(main()) == list(range(100))


def test_nothing_is_accepted_after_the_end():
    async def main():
        threads = Threads()
        in_order = threads.in_order("test")
        assert await in_order.run(lambda: 1) == 1
        threads.end()
        for thread in (threads, in_order):
            with pytest.raises(ConnectionClosedError):
                await thread.run(lambda: 1)

    asyncio.run(main())


def test_a_callback_from_a_thread_runs_on_the_loop_unless_that_has_ended():
    found = []

    async def main():
        called = asyncio.Event()

        def callback(value):
            found.append((value, threading.current_thread() is threading.main_thread()))
            called.set()

        from_thread = on_loop(callback)
        await asyncio.to_thread(from_thread, "outage")
        await asyncio.wait_for(called.wait(), WAIT_S)
        return from_thread

    late = asyncio.run(main())
    late("after the end")
    assert found == [("outage", True)]
