"""A connection for asyncio: its channels, publishers and transactions."""

import asyncio
import functools
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from streaming.client import connection as synchronous
from streaming.client.address import Address
from streaming.client.aio.channel import Channel
from streaming.client.aio.publisher import Publisher, Transaction
from streaming.client.aio.threads import Opening, Pulse, Threads, awaited, on_loop
from streaming.client.channel import Channel as SyncChannel
from streaming.client.errors import ClientError, ConnectionClosedError
from streaming.client.messages import Returned
from streaming.client.publisher import OnFlow
from streaming.protocol.defaults import (
    DEFAULT_USER,
    DEFAULT_VHOST,
    LEASE_S,
    MAX_UNCONFIRMED,
    TIMEOUT_S,
)


class Connection:
    """A connection to one vhost of a job, as one user. The tasks of one event loop can share it.

    It needs no configuration of the job: the job's heartbeat says which topics to use. `async with`
    opens and closes it; so do `await connection.open()` and `close()`.

    Args:
        address: Kafka's `HOST:PORT`, or several, separated by commas; or an `Address`.
        user: the user to act as.
        vhost: the vhost to connect to.
        kafka: further librdkafka properties, such as
            `{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", ...}`.
        timeout_s: how long to wait for Kafka and for the job, in seconds.
        on_outage: called with a text when Kafka or the job goes down, and when the job answers
            again. It runs on the event loop.
    """

    def __init__(
        self,
        address: Address | str = "localhost:9092",
        *,
        user: str | None = None,
        vhost: str | None = None,
        kafka: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        on_outage: Callable[[str], None] | None = None,
    ) -> None:
        self._connect: Callable[..., synchronous.Connection] = functools.partial(
            synchronous.Connection,
            address,
            user=user,
            vhost=vhost,
            kafka=kafka,
            timeout_s=timeout_s,
        )
        self._on_outage = on_outage
        self._opened: synchronous.Connection | None = None
        self._pulse: Pulse | None = None
        self._threads = Threads()
        self._transaction_thread = self._threads.in_order("transaction")
        self._transaction_lock = asyncio.Lock()
        self._in_transaction: asyncio.Task[Any] | None = None

    @classmethod
    def from_config(
        cls,
        file: Path | str = "dlx.toml",
        *,
        user: str = DEFAULT_USER,
        vhost: str = DEFAULT_VHOST,
        timeout_s: float = TIMEOUT_S,
        on_outage: Callable[[str], None] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a connection to the job of a `dlx.toml`, which is read when it is opened.

        Args:
            file: the path of the `dlx.toml`.
            user: the user to act as.
            vhost: the vhost to connect to.
            timeout_s: how long to wait for Kafka and for the job, in seconds.
            on_outage: as for `Connection`.
            environ: where secrets are looked up; by default the environment of this process.
        """
        connection = cls(on_outage=on_outage)
        connection._connect = functools.partial(
            synchronous.Connection.from_config,
            file,
            user=user,
            vhost=vhost,
            timeout_s=timeout_s,
            environ=environ,
        )
        return connection

    async def open(self) -> Self:
        """Connect.

        Raises:
            KafkaUnreachableError: Kafka does not answer.
            ClientError: no job serves this vhost and user, or its topics do not exist; the
                `dlx.toml` is invalid, or a secret cannot be found.
        """
        on_outage = None if self._on_outage is None else on_loop(self._on_outage)
        connect = functools.partial(self._connect, on_outage=on_outage)
        self._pulse = Pulse()
        try:
            self._opened = await self._threads.run(connect, synchronous.Connection.close)
        except BaseException:
            self._pulse.end()
            raise
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _sync(self) -> synchronous.Connection:
        if self._opened is None:
            raise ConnectionClosedError(
                "the connection is not open: use `async with`, or `await connection.open()`"
            )
        return self._opened

    @property
    def address(self) -> Address:
        """Where the connection writes and reads."""
        return self._sync.address

    @property
    def is_flowing(self) -> bool:
        """Whether flow control lets publishers publish."""
        return self._sync.is_flowing

    @property
    def outage(self) -> str:
        """The present outage of Kafka or the job as a text; empty if there is none."""
        return self._sync.outage

    def channel(self, name: str | None = None, *, lease_s: float = LEASE_S) -> Opening[Channel]:
        """Open a channel: await the result, or use it with `async with`.

        Args:
            name: one that other processes know; by default a new one.
            lease_s: the broker closes a channel without a command for this long, and requeues
                what is unacknowledged on it. The client renews the lease in the background.

        Raises:
            ClientError: this connection has a channel of that name.
            NoAnswerError, KafkaUnreachableError: the job, or Kafka, is down.
        """
        return Opening(
            self._open_channel(functools.partial(self._sync.channel, name, lease_s=lease_s))
        )

    async def _open_channel(self, open_it: Callable[[], SyncChannel]) -> Channel:
        return Channel(self._threads, await self._threads.run(open_it, SyncChannel.close))

    def publisher(
        self,
        *,
        confirms: bool = True,
        on_return: Callable[[Returned], None] | None = None,
        on_flow: OnFlow = "block",
        blocked_timeout_s: float | None = None,
        max_unconfirmed: int = MAX_UNCONFIRMED,
    ) -> Publisher:
        """Create a publisher; the arguments are those of the synchronous connection.

        Args:
            on_return: called on the event loop with each returned message.
            on_flow: `"block"` lets a publish wait while flow control stops publishers, `"raise"`
                raises FlowStoppedError.
        """
        publisher = self._sync.publisher(
            confirms=confirms,
            on_return=None if on_return is None else on_loop(on_return),
            on_flow=on_flow,
            blocked_timeout_s=blocked_timeout_s,
            max_unconfirmed=max_unconfirmed,
        )
        return Publisher(self._threads, publisher)

    @asynccontextmanager
    async def transaction(self, *, on_flow: OnFlow = "block") -> AsyncIterator[Transaction]:
        """Let publishes and settlements take effect together, or not at all.

        An exception inside the block aborts the transaction, and so does a cancellation. Other
        tasks wait until the block has ended.

        Args:
            on_flow: as for `publisher`; the transaction waits before its block starts.

        Raises:
            ClientError: this task is in a transaction, or the job has no topic for them.
            BrokerError: the broker would refuse some of it: nothing takes effect.
            TransactionAbortedError: Kafka aborted it.
        """
        task = asyncio.current_task()
        if task is not None and self._in_transaction is task:
            raise ClientError("this task is in a transaction already; transactions do not nest")
        async with self._transaction_lock:
            self._in_transaction = task
            try:
                thread = self._transaction_thread  # a transaction belongs to one thread
                block = self._sync.transaction(on_flow=on_flow)
                cancelled = functools.partial(
                    block.__exit__, CancelledError, CancelledError(), None
                )
                opened = await thread.run(block.__enter__, lambda _: thread.submit(cancelled))
                try:
                    yield Transaction(opened, thread)
                except BaseException as error:
                    await thread.run(functools.partial(block.__exit__, type(error), error, None))
                    raise
                await thread.run(functools.partial(block.__exit__, None, None, None))
            finally:
                self._in_transaction = None

    request = awaited(synchronous.Connection.request)
    send = awaited(synchronous.Connection.send)
    require_job = awaited(synchronous.Connection.require_job)

    async def close(self) -> None:
        """Close the channels, wait for Kafka to accept what is queued, and stop.

        The broker requeues what is unacknowledged. Publishes without a confirm fail with
        ConnectionClosedError. A callback that still runs has `timeout_s` to return. Closing twice
        is harmless.
        """
        if self._opened is not None:
            closing = asyncio.to_thread(self._opened.close)
            await asyncio.shield(asyncio.create_task(closing))
        self._threads.end()
        if self._pulse is not None:
            self._pulse.end()
