"""The metrics and health checks of a front, served by threads beside its event loop.

thread of a request --gather--> event loop: a copy of all figures, in short turns
        |                           |
        +-- families, text <--------+
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLateError
from typing import Any, Final, TypeVar

from prometheus_client.core import Metric

from streaming.amqp.server import Server
from streaming.amqp.vhosts import OpenVhost
from streaming.exposition.server import Answers, ExpositionServer
from streaming.front_metrics.families import FRONT
from streaming.front_metrics.figures import Deaths, FrontFigures
from streaming.management.counting import Counting
from streaming.sequencer.log_state import LogState

ANSWER_S: Final = 15.0
ALIVE_S: Final = 5.0

MAX_SERIES: Final = 20_000
"""Of a response, if no configuration says another number."""

_T = TypeVar("_T")


class FrontMetrics:
    """Counts what a front does from now on. Make it on the event loop of the server.

    Args:
        name: of the front; RabbitMQ's dashboards call it the cluster.
        counting: what counts already; None: count here.
        logs: how each vhost on Kafka is doing.
        not_ready: why clients cannot use the front; empty if they can.
    """

    def __init__(
        self,
        server: Server,
        name: str,
        *,
        counting: Counting | None = None,
        logs: Callable[[], Mapping[str, LogState]] = dict,
        not_ready: Callable[[], str] = str,
        max_series: int = MAX_SERIES,
    ) -> None:
        self._server = server
        self._name = name
        self._counts_here = counting is None
        self._counting = counting or Counting()
        self._logs = logs
        self._not_ready = not_ready
        self._max_series = max_series
        self._started_s = time.time()
        self._deaths: dict[str, Deaths] = {}
        self._loop = asyncio.get_running_loop()
        self._one = threading.Lock()
        self._exposed: ExpositionServer | None = None
        server.opened.append(self._watch)
        for vhost in server.vhosts.values():
            self._watch(vhost)

    def serve(self, who: str, host: str, port: int, hosts: Sequence[str] = ()) -> int:
        """Serve on an address; return the port, which the system chooses if it is 0.

        Raises:
            ListenError: the address cannot be used.
        """
        answers = Answers(self._metrics, self._not_alive, self._why_not_ready)
        self._exposed = ExpositionServer(who, host, port, answers, hosts)
        self._exposed.start()
        return self._exposed.port

    def stop(self) -> None:
        """Release the address."""
        if self._exposed is not None:
            self._exposed.stop()

    def _watch(self, vhost: OpenVhost) -> None:
        if self._counts_here:
            self._counting.watch(vhost)
        deaths = self._deaths[vhost.name] = Deaths()
        vhost.watchers.append(deaths.watch)

    async def figures(self, *, by_queue: bool) -> FrontFigures:
        """All figures now.

        Args:
            by_queue: whether counts of single queues are wanted, too.
        """
        found = FrontFigures(self._name, self._started_s, self._server)
        found.logs = self._logs()
        for name in self._deaths.keys() - self._server.vhosts.keys():
            del self._deaths[name]
        self._counting.keep(self._server.vhosts)
        for vhost in list(self._server.vhosts.values()):
            deaths = self._deaths.get(vhost.name)
            if deaths is None:  # deleted meanwhile
                continue
            for _ in found.add(vhost, self._counting, deaths, by_queue=by_queue):
                await asyncio.sleep(0)
        return found

    # -- on the threads of the server

    def _metrics(
        self, endpoint: str, families: Sequence[str], vhosts: Sequence[str] | None
    ) -> list[Metric]:
        with self._one:  # others wait: the event loop has clients to serve
            figures = self._ask(self.figures(by_queue=endpoint != "aggregated"), ANSWER_S)
        return FRONT.collect(figures, endpoint, self._max_series, families=families, vhosts=vhosts)

    def _not_alive(self) -> str:
        try:
            self._ask(asyncio.sleep(0), ALIVE_S)
        except TooLateError:
            return f"the event loop has not answered for {ALIVE_S:g} s"
        return ""

    def _why_not_ready(self) -> str:
        return self._not_alive() or self._not_ready()

    def _ask(self, question: Coroutine[Any, Any, _T], timeout_s: float) -> _T:
        asked = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return asked.result(timeout_s)
        except TooLateError:
            asked.cancel()
            raise
