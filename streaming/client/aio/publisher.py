"""A publisher and a transaction for asyncio."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, Self

from streaming.client import transaction
from streaming.client.aio.channel import Channel
from streaming.client.aio.threads import Thread, Threads, result
from streaming.client.messages import Returned, Settled
from streaming.client.publisher import Message
from streaming.client.publisher import Publisher as SyncPublisher
from streaming.protocol.defaults import REQUEUE

P = ParamSpec("P")


def _publishing(
    method: Callable[Concatenate[Any, P], Future[None]],
) -> Callable[Concatenate[Any, P], asyncio.Task[None]]:
    """Make the method that publishes in order and returns a task that waits for the confirm."""

    def publish(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Task[None]:
        work = functools.partial(method, self._sync, *args, **kwargs)
        task = asyncio.create_task(_confirmed(self._sending.submit(work)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    functools.update_wrapper(publish, method)
    publish.__dict__["__signature__"] = _with_return(method, "Task[None]")
    publish.__doc__ = """Publish a message; the arguments are those of the synchronous publisher.

        Returns:
            A task. Await it to wait for the broker's confirm; await it later to have many messages
            under way. It raises what the synchronous method and its future raise. Cancelled before
            the message is sent, it is not sent.
        """
    return publish


def _with_return(method: Callable[..., object], annotation: str) -> inspect.Signature:
    return inspect.signature(method).replace(return_annotation=annotation)


async def _confirmed(sending: Future[Future[None]]) -> None:
    await result(await result(sending))


class Publisher:
    """Publishes messages in order; created by `Connection.publisher`.

    Attributes:
        name: the channel that the publisher's records name.
    """

    def __init__(self, threads: Threads, publisher: SyncPublisher) -> None:
        self.name = publisher.name
        self._sync = publisher
        self._threads = threads
        self._sending = threads.in_order("publish")
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    publish = _publishing(SyncPublisher.publish)

    def publish_many(self, messages: Iterable[Message]) -> list[asyncio.Task[None]]:
        """Publish messages in order; `wait_for_confirms` waits for all of them."""
        return [self.publish(*message) for message in messages]

    async def wait_for_confirms(self, timeout_s: float | None = None) -> None:
        """Wait until nothing is unconfirmed. Errors are in the tasks.

        Args:
            timeout_s: None waits without limit.

        Raises:
            NoAnswerError: something is still unconfirmed after `timeout_s`.
        """
        await self._sending.run(_nothing)  # after what is published before this
        await self._threads.run(functools.partial(self._sync.wait_for_confirms, timeout_s))

    @property
    def returned(self) -> list[Returned]:
        """The latest 10,000 messages that the broker returned."""
        return list(self._sync.returned)

    @property
    def unconfirmed(self) -> int:
        """How many publishes are unconfirmed."""
        return len(self._tasks)

    async def close(self) -> None:
        """Wait until every publish is confirmed or has failed, then stop."""
        await self._sending.run(_nothing)
        await self._threads.run(self._sync.close)
        self._sending.end()


def _nothing() -> None:
    pass


class Confirmation:
    """The confirm of a publish in a transaction: await it after the block."""

    def __init__(self, confirm: Future[None]) -> None:
        self._confirm = confirm

    def __await__(self) -> Generator[Any, None, None]:
        transaction.check_can_wait(self._confirm)
        return asyncio.wrap_future(self._confirm).__await__()


def _in_transaction(
    method: Callable[Concatenate[Any, P], Future[None]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, Confirmation]]:
    async def publish(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Confirmation:
        work = functools.partial(method, self._sync, *args, **kwargs)
        return Confirmation(await self._thread.run(work))

    functools.update_wrapper(publish, method)
    publish.__dict__["__signature__"] = _with_return(method, "Confirmation")
    publish.__doc__ = """Publish a message; see `Publisher.publish` for arguments and errors.

        Returns:
            A `Confirmation` to await after the commit.
        """
    return publish


class Transaction:
    """Publishes and settlements that take effect together; created by `Connection.transaction`."""

    def __init__(self, opened: transaction.Transaction, thread: Thread) -> None:
        self._sync = opened
        self._thread = thread

    publish = _in_transaction(transaction.Transaction.publish)

    async def ack(self, channel: Channel, delivery: Settled, *, multiple: bool = False) -> None:
        """Acknowledge deliveries of a channel; see `Channel.ack`."""
        ack = functools.partial(self._sync.ack, channel, delivery, multiple=multiple)
        await self._thread.run(ack)

    async def nack(
        self,
        channel: Channel,
        delivery: Settled,
        *,
        multiple: bool = False,
        requeue: bool = REQUEUE,
        reason: str | None = None,
    ) -> None:
        """Requeue or dead-letter deliveries of a channel; see `Channel.nack`."""
        options: Any = {"multiple": multiple, "requeue": requeue, "reason": reason}
        await self._thread.run(functools.partial(self._sync.nack, channel, delivery, **options))

    async def reject(
        self,
        channel: Channel,
        delivery: Settled,
        *,
        requeue: bool = REQUEUE,
        reason: str | None = None,
    ) -> None:
        """Requeue or dead-letter deliveries of a channel; see `Channel.reject`."""
        options: Any = {"requeue": requeue, "reason": reason}
        await self._thread.run(functools.partial(self._sync.reject, channel, delivery, **options))
