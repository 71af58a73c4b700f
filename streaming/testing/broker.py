"""A broker for tests, in a thread of its own, whose clock the test holds.

broker = TestBroker()
broker.start()
...                          # connect any AMQP client to broker.url
broker.advance("30 minutes")
broker.messages("failed")
broker.stop()
"""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, get_args
from urllib.parse import quote

from streaming.amqp.clocks import ManualClock, milliseconds
from streaming.amqp.inspection import (
    DeathRecord,
    HeldMessage,
    HeldQueue,
    messages_in,
    queues_of,
)
from streaming.amqp.login import LOOPBACK_USER
from streaming.amqp.manual_time import ManualTime
from streaming.amqp.memory import MemoryBroker
from streaming.amqp.vhosts import OpenVhost
from streaming.protocol.defaults import DEFAULT_VHOST
from topology.errors import InvalidTopologyError, Problem
from topology.values import Compat

logger = logging.getLogger(__name__)

T = TypeVar("T")
_POLL_S = 0.01


class TestBroker:
    """A broker in memory that a test drives; all methods may be called from any thread.

    Args:
        port: where to listen on 127.0.0.1; 0 for a free port.
        compat: the version of RabbitMQ to behave like.
        patience_s: how long a consumer may be silent before it settles what it got; see `advance`.

    Attributes:
        url: for any AMQP client: the user guest in the vhost `/`.

    Raises:
        ValueError: there is no such `compat`, or the patience is not a number from 0.
    """

    __test__ = False  # pytest collects what begins with Test

    def __init__(
        self, *, port: int = 0, compat: Compat = "4.0", patience_s: float | None = None
    ) -> None:
        if compat not in get_args(Compat):
            raise ValueError(f"compat is {' or '.join(get_args(Compat))}, not {compat!r}")
        self.url = ""
        self._port = port
        self._compat: Compat = compat
        self._clock = ManualClock()
        self._broker = MemoryBroker(self._clock, compat)
        self._time = ManualTime(self._broker.server, self._clock, patience_s=patience_s)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="dlx", daemon=True)

    def start(self) -> "TestBroker":
        """Listen; return this broker.

        Raises:
            OSError: the port is in use.
        """
        self._thread.start()
        server = self._broker.server
        server.follows_wall_clock = False
        self._port = self._run(server.listen("127.0.0.1", self._port))
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}/"
        return self

    def stop(self) -> None:
        """Close all connections and stop listening; a broker that does not run stays as it is."""
        if not self._thread.is_alive():
            return
        self._run(self._broker.server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- time

    def advance(self, duration: str | float, *, patience_s: float | None = None) -> None:
        """Let time pass, and wait until clients have reacted to what it caused.

        Timers fire in order. Between them, deliveries go out and consumers settle them.

        Args:
            duration: seconds, or text such as `30 minutes`.
            patience_s: how long a consumer may be silent that has not settled all it got. 0: do
                not wait for it. By default that of the broker; without one 10 s, for consumers
                that have settled anything while time passed.

        Raises:
            ValueError: the duration cannot be read, or the patience is not a number from 0.
            RuntimeError: the broker does not run, as for every other method.
            TimeoutError: a consumer does not settle, or clients never rest; the text names them.
        """
        self._run(self._time.advance(milliseconds(duration), patience_s))

    def settle(self, *, patience_s: float | None = None) -> None:
        """Wait until clients have reacted to what was sent to them; no time passes.

        Args:
            patience_s: see `advance`.

        Raises:
            TimeoutError: see `advance`.
        """
        self._run(self._time.quiet(patience_s))

    def wait_for_consumer(
        self, queue: str, vhost: str = DEFAULT_VHOST, *, timeout_s: float = 30
    ) -> None:
        """Wait until a queue has a consumer, for example one that another thread starts.

        Raises:
            TimeoutError: it has none after that many seconds; the text says what there is.
        """
        until_s = time.monotonic() + timeout_s
        while True:
            found = self.queues(vhost).get(queue)
            if found is not None and found.consumers:
                return
            if time.monotonic() >= until_s:
                what = "no consumer" if found is not None else "not been declared"
                raise TimeoutError(f"queue '{queue}' has {what} after {timeout_s} seconds")
            time.sleep(_POLL_S)

    @property
    def now_ms(self) -> int:
        """The broker's time, epoch milliseconds."""
        return self._clock.now_ms()

    # -- what is in it

    def queues(self, vhost: str = DEFAULT_VHOST) -> dict[str, HeldQueue]:
        """The queues now, by name.

        Raises:
            KeyError: there is no such vhost; the message names those that there are.
        """
        found = self._do(lambda: queues_of(self._vhost(vhost)))
        return {queue.name: queue for queue in found}

    def messages(self, queue: str, vhost: str = DEFAULT_VHOST) -> list[HeldMessage]:
        """The ready messages of a queue, in the order in which they would be delivered.

        Raises:
            KeyError: there is no such queue, or vhost; the message names those that there are.
        """
        names = ", ".join(sorted(self.queues(vhost))) or "none"
        try:
            return self._do(lambda: messages_in(self._vhost(vhost), queue))
        except KeyError:
            raise KeyError(f"no queue '{queue}' in vhost '{vhost}'; there are: {names}") from None

    def deaths(self, vhost: str = DEFAULT_VHOST) -> list[DeathRecord]:
        """Every death of a message since the start or the last reset, in order.

        Raises:
            KeyError: there is no such vhost; the message names those that there are.
        """
        name = self._do(lambda: self._vhost(vhost).name)
        return self._do(self._broker.deaths[name].newest_last)

    def assert_empty(self, queue: str, vhost: str = DEFAULT_VHOST) -> None:
        """Fail if a queue has messages, ready or unacknowledged; the text shows them."""
        found = self.queues(vhost).get(queue)
        assert found is not None, f"there is no queue '{queue}' in vhost '{vhost}'"
        if not found.ready and not found.unacked:
            return
        lines = [f"queue '{queue}' has {found.ready} ready and {found.unacked} unacked messages"]
        for message in self.messages(queue, vhost)[:10]:
            deaths = ", ".join(
                f"{death['reason']} in {death['queue']} x{death['count']}"
                for death in message.x_death
            )
            lines.append(f"  {message.body[:80]!r}{f' ({deaths})' if deaths else ''}")
        raise AssertionError("\n".join(lines))

    # -- topology

    def load(self, definitions: str | PathLike[str] | Mapping[str, Any]) -> None:
        """Declare a definitions document: a file, as RabbitMQ exports it, or its content.

        What was declared before stays, and `guest` may do everything in its vhosts. What is not
        supported is skipped; the log names it.

        Raises:
            InvalidTopologyError: it cannot be used; carries every problem.
        """
        document = definitions if isinstance(definitions, Mapping) else _read(Path(definitions))
        self._do(lambda: self._broker.load_for_test(document))
        for problem in self._broker.skipped:
            logger.warning("definitions: skipped: %s", problem)

    def add_vhost(self, name: str) -> str:
        """Make a vhost in which guest may do everything; return its URL.

        One that exists keeps what is in it.

        Raises:
            ValueError: the name is empty.
        """
        if not name:
            raise ValueError("the name of a vhost is not empty")
        self._do(lambda: self._broker.grant(self._broker.add_vhost(name), LOOPBACK_USER))
        return self.url + quote(name, safe="")

    def delete_vhost(self, name: str) -> None:
        """Delete a vhost with everything in it; its connections end, as in RabbitMQ.

        Raises:
            KeyError: there is no such vhost; the message names those that there are.
        """
        self._do(lambda: self._broker.delete_vhost(self._vhost(name).name))

    def reset(self) -> None:
        """Close all connections and forget everything: topology, messages, deaths and users."""
        self._run(self._reset())

    async def _reset(self) -> None:
        await self._broker.server.close_connections()
        self._broker.reset()

    def _vhost(self, name: str) -> OpenVhost:
        vhosts = self._broker.server.vhosts
        if name not in vhosts:
            names = ", ".join(sorted(vhosts)) or "none"
            raise KeyError(f"no vhost '{name}'; there are: {names}")
        return vhosts[name]

    # -- the thread

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("the broker does not run: call start() first, and no stop() before")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _do(self, work: Callable[[], T]) -> T:
        async def do() -> T:
            return work()

        return self._run(do())


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes())
    except ValueError as error:
        raise InvalidTopologyError([Problem(str(file), f"is not JSON: {error}")]) from None
    if not isinstance(document, dict):
        raise InvalidTopologyError([Problem(str(file), "is not a JSON object")])
    return document
