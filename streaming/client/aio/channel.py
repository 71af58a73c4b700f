"""A channel for asyncio, its consumers and its deliveries."""

from __future__ import annotations

import asyncio
import functools
from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Self

from streaming.client import messages, tracing
from streaming.client._deliveries import Consumer as SyncConsumer
from streaming.client.aio.threads import Opening, Threads, awaited
from streaming.client.channel import Channel as SyncChannel
from streaming.client.channel import MessageId
from streaming.client.messages import ReceivedMessage, Settled
from streaming.protocol.defaults import PREFETCH, REQUEUE

OnMessage = Callable[["Delivery"], Awaitable[object]]


class Delivery(ReceivedMessage, kw_only=True):
    """A message that a queue delivered to this client.

    Attributes:
        channel: the channel that received it and settles it.
    """

    channel: Channel

    async def ack(self, *, multiple: bool = False) -> None:
        """Acknowledge the delivery."""
        await self.channel.ack(self, multiple=multiple)
        self.is_settled = True

    async def nack(
        self, *, multiple: bool = False, requeue: bool = REQUEUE, reason: str | None = None
    ) -> None:
        """Requeue the delivery, or dead-letter it with `requeue=False`; see `Channel.nack`."""
        await self.channel.nack(self, multiple=multiple, requeue=requeue, reason=reason)
        self.is_settled = True

    async def reject(self, *, requeue: bool = REQUEUE, reason: str | None = None) -> None:
        """Requeue the delivery, or dead-letter it with `requeue=False`; see `Channel.nack`."""
        await self.channel.reject(self, requeue=requeue, reason=reason)
        self.is_settled = True

    def synchronous(self) -> messages.Delivery:
        """Return the same delivery with methods for a thread."""
        return messages.Delivery(**_values(self), channel=self.channel.settler)


class Consumer:
    """The deliveries of one queue, in order; created by `Channel.consume`.

    Iterate over it to wait for deliveries. The iteration ends when the consumer is cancelled, when
    its channel is closed by this client, or when `timeout_s` passes without a delivery. If the
    broker closes the channel, the iteration raises the broker's error.

    Attributes:
        tag: the consumer tag.
        queue: the name of the queue.
        prefetch: the most unacknowledged deliveries; 0 means no limit.
        auto_ack: whether deliveries are acknowledged automatically.
    """

    def __init__(self, channel: Channel, consumer: SyncConsumer, timeout_s: float | None) -> None:
        self.tag = consumer.tag
        self.queue = consumer.queue
        self.prefetch = consumer.prefetch
        self.auto_ack = consumer.auto_ack
        self._channel = channel
        self._arrivals = consumer.arrivals
        self._timeout_s = timeout_s
        self._changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        consumer.arrivals.on_change = functools.partial(_wake, loop, self._changed)

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        while (delivery := await self.next(self._timeout_s)) is not None:
            yield delivery

    async def next(self, timeout_s: float | None = None) -> Delivery | None:
        """Wait for the next delivery.

        Args:
            timeout_s: None waits without limit.

        Returns:
            The delivery; None after `timeout_s`, or if the consumer has ended.

        Raises:
            BrokerError: the broker closed the channel.
        """
        delivery = await self.take(timeout_s)
        tracing.received([delivery])
        return delivery

    async def take(self, timeout_s: float | None = None) -> Delivery | None:
        """Wait for the next delivery, for someone who makes a span of its handling; see `next`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while True:
                    self._changed.clear()
                    delivery = self._arrivals.next(0)
                    if delivery is not None:
                        return _adopted(delivery, self._channel)
                    if self._arrivals.has_ended:
                        return None
                    await self._changed.wait()
        return None

    async def cancel(self) -> None:
        """Stop the consumer; see `Channel.cancel`."""
        await self._channel.cancel(self)

    async def close(self) -> None:
        """Stop the consumer, unless it has ended."""
        if not self._arrivals.has_ended:
            await self.cancel()


def _wake(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(changed.set)


class ConsumerOpening(Opening[Consumer]):
    """A consumer that is being started: `await` it, or iterate over it."""

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        async for delivery in await self._opening:
            yield delivery


class Channel:
    """Gets, consumes, settles and declares; created by `Connection.channel`.

    Its methods and errors are those of the synchronous channel.

    Attributes:
        name: identifies the channel together with the user.
        lease_s: how long the broker keeps the channel without a command.
    """

    def __init__(self, threads: Threads, channel: SyncChannel) -> None:
        self.name = channel.name
        self.lease_s = channel.lease_s
        self._sync = channel
        self._threads = threads
        self._settling = threads.in_order("settle")
        self._callbacks: dict[Consumer, OnMessage] = {}
        self._stopping = asyncio.Event()
        self._calling = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def settler(self) -> messages.Settler:
        """What settles deliveries from a thread."""
        return self._sync

    @property
    def is_open(self) -> bool:
        """Whether the channel can be used."""
        return self._sync.is_open

    @property
    def reopen_count(self) -> int:
        """How often the broker had closed the channel and the client reopened it."""
        return self._sync.reopen_count

    async def close(self) -> None:
        """Close the channel: its consumers end and the broker requeues what is unacknowledged."""
        if self.is_open:
            await self._settling.run(self._sync.close)
        self._settling.end()

    async def detach(self) -> None:
        """Leave the channel open at the broker until its lease ends.

        Another process can continue with it by its name.
        """
        await self._settling.run(self._sync.detach)
        self._settling.end()

    # -- deliveries

    async def get(
        self, queue: str, *, auto_ack: bool = False, message: MessageId | None = None
    ) -> Delivery | None:
        """Get one message from the head of a queue, or a certain one of it.

        Args:
            queue: the name of the queue.
            auto_ack: acknowledge at once.
            message: get this message instead, wherever it is in the queue.

        Returns:
            The delivery; None if the queue is empty, or the message is not ready in it.

        Raises:
            NotFoundError: the queue does not exist.
        """
        deliveries = await self.get_many(queue, 1, auto_ack=auto_ack, message=message)
        return deliveries[0] if deliveries else None

    async def get_many(
        self, queue: str, count: int, *, auto_ack: bool = False, message: MessageId | None = None
    ) -> list[Delivery]:
        """Get up to `count` messages, or copies of one message; see `get`."""
        found = await self._threads.run(
            functools.partial(
                self._sync.get_many, queue, count, auto_ack=auto_ack, message=message
            ),
            self._requeue,
        )
        return [_adopted(each, self) for each in found]

    def consume(
        self,
        queue: str,
        callback: OnMessage | None = None,
        *,
        prefetch: int = PREFETCH,
        auto_ack: bool = False,
        consumer_tag: str | None = None,
        timeout_s: float | None = None,
    ) -> ConsumerOpening:
        """Start a consumer. Iterate over the result with `async for`, or await it.

        Args:
            queue: the name of the queue.
            callback: a coroutine function; `start_consuming` awaits it with each delivery.
            prefetch: the most unacknowledged deliveries; 0 means no limit.
            auto_ack: acknowledge each delivery at once.
            consumer_tag: by default a new one.
            timeout_s: ends the iteration after this time without a delivery.

        Raises:
            NotFoundError: the queue does not exist.
            NotAllowedError: the consumer tag is in use on this channel, which stays open.
        """
        start = functools.partial(
            self._sync.consume,
            queue,
            prefetch=prefetch,
            auto_ack=auto_ack,
            consumer_tag=consumer_tag,
        )
        return ConsumerOpening(self._consume(start, callback, timeout_s))

    async def _consume(
        self,
        start: Callable[[], SyncConsumer],
        callback: OnMessage | None,
        timeout_s: float | None,
    ) -> Consumer:
        started = await self._threads.run(start, self._sync.cancel)
        consumer = Consumer(self, started, timeout_s)
        if callback is not None:
            self._callbacks[consumer] = callback
        return consumer

    async def start_consuming(self, timeout_s: float | None = None) -> None:
        """Await the callbacks of this channel's consumers, one at a time.

        Returns after `stop_consuming`, when no consumer with a callback is left, and when this
        client closes the channel.

        Args:
            timeout_s: return after this time; None means no limit.

        Raises:
            BrokerError: the broker closed the channel. Exceptions of a callback pass through.
        """
        self._stopping.clear()
        stopping = asyncio.create_task(self._stopping.wait())
        running = {
            asyncio.create_task(self._run_callback(consumer, callback))
            for consumer, callback in self._callbacks.items()
        }
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await _until_one_fails_or_all_end(running, stopping)
            self._stopping.set()
            async with self._calling:  # the present callback ends first
                pass
        finally:
            for task in (stopping, *running):
                task.cancel()
            await asyncio.gather(stopping, *running, return_exceptions=True)

    async def _run_callback(self, consumer: Consumer, callback: OnMessage) -> None:
        while (delivery := await consumer.take()) is not None:
            try:
                await self._calling.acquire()
            except CancelledError:
                self._requeue_soon(delivery)
                raise
            try:
                if self._stopping.is_set():
                    self._requeue_soon(delivery)
                else:
                    with tracing.processing(delivery):
                        await callback(delivery)
            finally:
                self._calling.release()
        self._callbacks.pop(consumer, None)

    def stop_consuming(self) -> None:
        """Let `start_consuming` return after the present callback."""
        self._stopping.set()

    async def cancel(self, consumer: Consumer | str) -> None:
        """Stop a consumer.

        Deliveries that it has not handed out are requeued; the others stay unacknowledged.

        Args:
            consumer: the consumer or its tag.
        """
        tag = consumer.tag if isinstance(consumer, Consumer) else consumer
        await self._threads.run(functools.partial(self._sync.cancel, tag))

    # -- settlements: sent in order, without waiting for the broker

    async def ack(self, delivery: Settled, *, multiple: bool = False) -> None:
        """Acknowledge deliveries. Does not wait for the broker; `sync` does.

        Args:
            delivery: a delivery, its `delivery_id`, or several of them.
            multiple: also acknowledge every earlier delivery of this channel.
        """
        await self._settling.run(functools.partial(self._sync.ack, delivery, multiple=multiple))

    async def nack(
        self,
        delivery: Settled,
        *,
        multiple: bool = False,
        requeue: bool = REQUEUE,
        reason: str | None = None,
    ) -> None:
        """Return deliveries to their queue, or dead-letter them with `requeue=False`; see `ack`.

        Args:
            reason: why, as text. The dead letters show it, and carry it in the header
                `x-exception-message` (R-SET-9). It is cut to 1,024 bytes.
        """
        nack = functools.partial(
            self._sync.nack, delivery, multiple=multiple, requeue=requeue, reason=reason
        )
        await self._settling.run(nack)

    async def reject(
        self, delivery: Settled, *, requeue: bool = REQUEUE, reason: str | None = None
    ) -> None:
        """Return deliveries, or dead-letter them with `requeue=False`; see `nack`."""
        reject = functools.partial(self._sync.reject, delivery, requeue=requeue, reason=reason)
        await self._settling.run(reject)

    recover = awaited(SyncChannel.recover)
    sync = awaited(SyncChannel.sync)

    # -- queues, exchanges and bindings

    declare_queue = awaited(SyncChannel.declare_queue)
    delete_queue = awaited(SyncChannel.delete_queue)
    purge_queue = awaited(SyncChannel.purge_queue)
    approve_redrive = awaited(SyncChannel.approve_redrive)
    control_redrive = awaited(SyncChannel.control_redrive)
    queue_depth = awaited(SyncChannel.queue_depth)
    declare_exchange = awaited(SyncChannel.declare_exchange)
    delete_exchange = awaited(SyncChannel.delete_exchange)
    bind_queue = awaited(SyncChannel.bind_queue)
    unbind_queue = awaited(SyncChannel.unbind_queue)
    bind_exchange = awaited(SyncChannel.bind_exchange)
    unbind_exchange = awaited(SyncChannel.unbind_exchange)

    # -- for administrators

    set_policy = awaited(SyncChannel.set_policy)
    clear_policy = awaited(SyncChannel.clear_policy)
    set_permissions = awaited(SyncChannel.set_permissions)
    clear_permissions = awaited(SyncChannel.clear_permissions)
    deployed = awaited(SyncChannel.deployed)
    import_definitions = awaited(SyncChannel.import_definitions)
    export_definitions = awaited(SyncChannel.export_definitions)

    def _requeue(self, deliveries: list[messages.Delivery]) -> None:
        """Undo a get whose task was cancelled."""
        unacked = [each for each in deliveries if each.delivery_id]
        if unacked:
            self._sync.nack(unacked, requeue=True)

    def _requeue_soon(self, delivery: Delivery) -> None:
        if delivery.delivery_id:
            self._settling.submit(functools.partial(self._sync.nack, delivery, requeue=True))


async def _until_one_fails_or_all_end(
    running: set[asyncio.Task[None]], stopping: asyncio.Task[bool]
) -> None:
    waiting = set(running)
    while waiting and not stopping.done():
        done, _ = await asyncio.wait({*waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done & waiting:
            task.result()
        waiting -= done


def _adopted(delivery: messages.Delivery, channel: Channel) -> Delivery:
    """Return a delivery whose methods are awaited."""
    return Delivery(**_values(delivery), channel=channel)


def _values(delivery: ReceivedMessage) -> dict[str, Any]:
    return {name: getattr(delivery, name) for name in ReceivedMessage.__struct_fields__}
