"""Functions that consume queues, and the program that runs them.

    @consumer("orders", concurrency=4, retries=3)
    def ship(delivery):
        ...

    run(address="localhost:9092")

A delivery is acknowledged when its function returns. If the function raises, the delivery is
requeued up to `retries` times and then rejected, so that it is dead-lettered. The exception's type
and text are the reason of both. A function may also settle the delivery itself.

    delivered --> returns --> acked
                  raises  --> delivery_count < retries: requeued, else dead-lettered
                  SIGTERM --> what has begun ends as above; the rest is requeued
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial, update_wrapper
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from streaming.client import tracing
from streaming.client.errors import ClientError
from streaming.protocol.defaults import PREFETCH, STOP_TIMEOUT_S, TIMEOUT_S

if TYPE_CHECKING:
    from streaming.client import aio
    from streaming.client.address import Address

logger = logging.getLogger("dlx.client")

Function = Callable[[Any], object]

_declared: list[QueueConsumer] = []


class QueueConsumer:
    """A function that consumes a queue; created by `consumer`. It can be called as before.

    Attributes:
        function: the function.
        queue: the name of the queue.
        concurrency: how many deliveries the function handles at the same time.
        prefetch: the most unacknowledged deliveries.
        retries: how often a delivery is requeued after an exception; None means no limit.
    """

    def __init__(
        self, function: Function, queue: str, concurrency: int, prefetch: int, retries: int | None
    ) -> None:
        self.function = function
        self.queue = queue
        self.concurrency = concurrency
        self.prefetch = max(prefetch, concurrency) if prefetch else 0
        self.retries = retries
        update_wrapper(self, function)

    def __call__(self, delivery: Any) -> Any:
        """Call the function, for example in a test."""
        return self.function(delivery)

    def requeues(self, delivery_count: int) -> bool:
        """Return whether a delivery whose function raised is tried again."""
        return self.retries is None or delivery_count < self.retries


def consumer(
    queue: str,
    *,
    concurrency: int = 1,
    prefetch: int = PREFETCH,
    retries: int | None = 0,
) -> Callable[[Function], QueueConsumer]:
    """Declare that a function consumes a queue; `run` runs it.

    The function gets each delivery. It is a plain function, which runs on a thread, or a coroutine
    function, whose delivery has the methods of `streaming.client.aio`.

    Args:
        queue: the name of the queue; it must exist when `run` starts.
        concurrency: how many deliveries the function handles at the same time. With 1 they keep
            their order.
        prefetch: the most unacknowledged deliveries; 0 means no limit.
        retries: how often a delivery is requeued after an exception before it is dead-lettered;
            None means without limit. It is delivered again at once: for a pause, let it be
            dead-lettered to a queue with a TTL.

    Raises:
        ClientError: an option is not valid.
    """
    _check_whole("concurrency", concurrency, 1)
    _check_whole("prefetch", prefetch, 0)
    _check_whole("retries", 0 if retries is None else retries, 0)

    def declare(function: Function) -> QueueConsumer:
        declared = QueueConsumer(function, queue, concurrency, prefetch, retries)
        _declared.append(declared)
        return declared

    return declare


def reason_of(error: Exception) -> str:
    """The type and the text of an exception, as a traceback ends with them."""
    return "".join(traceback.format_exception_only(error)).strip()


def _check_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or value < least:
        raise ClientError(f"{name} must be a whole number from {least} on, not {value!r}")


def run(
    *consumers: QueueConsumer,
    address: Address | str = "localhost:9092",
    user: str | None = None,
    vhost: str | None = None,
    kafka: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    stop_timeout_s: float = STOP_TIMEOUT_S,
) -> None:
    """Consume until SIGTERM or Ctrl-C.

    At a signal, no further delivery begins and what is prefetched is requeued. Functions that run
    may end within `stop_timeout_s`; after that their deliveries are requeued as well. A second
    signal ends the process at once.

    Args:
        consumers: functions with `consumer`; by default all of this process.
        address: Kafka's `HOST:PORT`, or an `Address`.
        user: the user to act as.
        vhost: the vhost to connect to.
        kafka: further librdkafka properties, such as security.
        timeout_s: how long to wait for Kafka and for the job, in seconds.
        stop_timeout_s: how long functions may run after a signal, in seconds.

    Raises:
        ClientError: there is no consumer; a queue does not exist, or was deleted; the job or Kafka
            is down at the start.
    """
    from streaming.client import aio  # noqa: PLC0415 - only programs with `run` need it

    chosen = consumers or tuple(_declared)
    if not chosen:
        raise ClientError("there is nothing to run: no function has the decorator `consumer`")
    connection = partial(
        aio.Connection, address, user=user, vhost=vhost, kafka=kafka, timeout_s=timeout_s
    )
    asyncio.run(_run(chosen, connection, stop_timeout_s))


async def _run(
    consumers: tuple[QueueConsumer, ...],
    connect: Callable[[], aio.Connection],
    stop_timeout_s: float,
) -> None:
    stopping = asyncio.Event()
    _stop_on_signals(stopping)
    async with connect() as connection:
        tasks = [
            asyncio.create_task(_Running(each, stopping).run(connection)) for each in consumers
        ]
        logger.info("consuming %s", ", ".join(each.queue for each in consumers))
        waiting = asyncio.create_task(stopping.wait())
        await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        stopping.set()  # if one has failed, the others end too
        _, late = await asyncio.wait(tasks, timeout=stop_timeout_s)
        for task in late:
            logger.warning("a function still runs after %g s: requeued", stop_timeout_s)
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for task in tasks:
            if task not in late:
                task.result()


def _stop_on_signals(stopping: asyncio.Event) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def stop(number: signal.Signals) -> None:
        logger.info("%s: finishing what has begun", number.name)
        stopping.set()
        for each in signals:
            loop.remove_signal_handler(each)

    for number in signals:
        loop.add_signal_handler(number, stop, number)


class _Threads:
    """The threads of one function: daemons, so one that never returns does not keep the process."""

    def __init__(self, declared: QueueConsumer) -> None:
        self._function = declared.function
        self._count = declared.concurrency
        self._waiting: SimpleQueue[tuple[Callable[[], object], Future[object]] | None] = (
            SimpleQueue()
        )
        for number in range(self._count):
            name = f"dlx-consumer-{declared.queue}-{number}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, delivery: Any) -> Future[object]:
        """Let a thread call the function."""
        future: Future[object] = Future()
        call = partial(copy_context().run, self._function, delivery)
        self._waiting.put((call, future))
        return future

    def end(self) -> None:
        """End each thread after its present call."""
        for _ in range(self._count):
            self._waiting.put(None)

    def _work(self) -> None:
        while (given := self._waiting.get()) is not None:
            call, future = given
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 (whoever waits for the future gets it)
                future.set_exception(error)


class _Running:
    """One consumer while it runs."""

    def __init__(self, declared: QueueConsumer, stopping: asyncio.Event) -> None:
        self._declared = declared
        self._stopping = stopping
        self._slots = asyncio.Semaphore(declared.concurrency)
        self._handling: set[asyncio.Task[None]] = set()
        self._threads: _Threads | None = None
        if not inspect.iscoroutinefunction(declared.function):
            self._threads = _Threads(declared)

    async def run(self, connection: aio.Connection) -> None:
        """Handle deliveries until the end; requeue what has not begun, wait for what has."""
        async with connection.channel() as channel:
            consuming = await channel.consume(
                self._declared.queue, prefetch=self._declared.prefetch
            )
            failure: ClientError | None = None
            try:
                await self._take_deliveries(consuming)
            except ClientError as error:
                failure = error
            with suppress(ClientError):  # the channel is closed: the broker requeues
                await consuming.close()
            if self._handling:
                await asyncio.wait(self._handling)
            if self._threads is not None:
                self._threads.end()
            with suppress(ClientError):
                await channel.sync()
            if failure is not None:
                raise failure

    async def _take_deliveries(self, consuming: aio.Consumer) -> None:
        stop = asyncio.create_task(self._stopping.wait())
        try:
            while True:
                slot = asyncio.create_task(self._slots.acquire())
                await asyncio.wait({slot, stop}, return_when=asyncio.FIRST_COMPLETED)
                if not slot.done():
                    slot.cancel()
                    return
                taking = asyncio.create_task(consuming.take())
                await asyncio.wait({taking, stop}, return_when=asyncio.FIRST_COMPLETED)
                if not taking.done():
                    taking.cancel()
                    return
                delivery = taking.result()
                if delivery is None:
                    raise ClientError(
                        f"queue {self._declared.queue!r} is gone: its consumer has ended"
                    )
                if self._stopping.is_set():
                    await delivery.nack(requeue=True)
                    return
                task = asyncio.create_task(self._handle(delivery))
                self._handling.add(task)
                task.add_done_callback(self._done)
        finally:
            stop.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._handling.discard(task)
        self._slots.release()
        if not task.cancelled() and task.exception() is not None:
            logger.warning("a delivery could not be settled: %s", task.exception())

    async def _handle(self, delivery: aio.Delivery) -> None:
        with tracing.processing(delivery) as span:
            await self._call(delivery, span)

    async def _call(self, delivery: aio.Delivery, span: Any) -> None:
        declared = self._declared
        given: Any = delivery
        try:
            if self._threads is None:
                awaitable = declared.function(delivery)
                assert isinstance(awaitable, Awaitable)
                await awaitable
            else:
                given = delivery.synchronous()
                await asyncio.wrap_future(self._threads.submit(given))
        except Exception as error:
            tracing.failed(span, error)
            outcome = "settled by the function"
            if not given.is_settled:
                requeue = declared.requeues(delivery.delivery_count)
                outcome = "requeued" if requeue else "rejected"
                await delivery.reject(requeue=requeue, reason=reason_of(error))
            name = getattr(declared.function, "__name__", declared.function)
            text = "%s failed on delivery %s of queue %r, which is %s"
            logger.exception(text, name, delivery.delivery_id, declared.queue, outcome)
        else:
            if not given.is_settled:
                await delivery.ack()
