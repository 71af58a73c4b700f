"""Time that is moved by hand: timers fire in order, and clients react before the next one does.

    advance 30 minutes -> the next timer is due -> deliveries go out -> clients settle, publish, ...
          ^                                                                          |
          +------------------------- until all is quiet <----------------------------+

Quiet means that nothing is on its way to a client, that none has sent anything for a moment, except
to ask a queue that is empty, and that consumers have settled what they got. The exception is who
cannot: a program with one thread that consumes and moves the clock is seen never to send anything
while time passes. It is waited for once, and then as long as who holds what it asked for itself.
"""

import asyncio
from collections.abc import Iterator
from typing import Final
from weakref import WeakSet

from streaming.amqp.clocks import END_MS, ManualClock, seconds_of_patience
from streaming.amqp.connection import Connection
from streaming.amqp.inspection import queues_of
from streaming.amqp.server import Server

POLL_S: Final = 0.002
PATIENCE_S: Final = 10.0
BUSY_S: Final = 60.0

QUIET_S: Final = 0.02
"""How long clients are silent when all is quiet."""

HOLDING_S: Final = 0.25
"""The same while any of them holds messages that it has not settled."""

PROBATION_S: Final = 1.0
"""The same, once, while a consumer does that never sent anything as time passed."""


class ManualTime:
    """Moves the clock of one server.

    Args:
        patience_s: how long any consumer may be silent that has not settled all it got; 0: as long
            as others; None: 10 s if it has ever sent anything as time passed.
        busy_s: how long clients may go on without a rest.
    """

    def __init__(
        self,
        server: Server,
        clock: ManualClock,
        *,
        patience_s: float | None = None,
        busy_s: float = BUSY_S,
    ) -> None:
        self._server = server
        self._clock = clock
        self._patience_s = seconds_of_patience(patience_s)
        self._busy_s = busy_s
        self._acting: WeakSet[Connection] = WeakSet()
        self._waiting: WeakSet[Connection] = WeakSet()

    async def advance(self, milliseconds: int, patience_s: float | None = None) -> int:
        """Let time pass; return the time then, epoch milliseconds.

        Calls at the same time follow each other, so that the time of all of them passes.

        Args:
            patience_s: other than that of all calls.

        Raises:
            ValueError: the clock does not go so far, or the patience is not a number from 0.
            TimeoutError: a consumer does not settle, or clients do not rest; the text says which.
        """
        async with self._clock.moving:
            return await self._advance(milliseconds, patience_s)

    async def _advance(self, milliseconds: int, patience_s: float | None) -> int:
        clock, server = self._clock, self._server
        until_ms = clock.now_ms() + milliseconds
        if until_ms > END_MS:
            raise ValueError("the clock ends with the year 9999")
        await self.quiet(patience_s)
        while True:
            due_ms = server.next_deadline_ms()
            if due_ms is None or due_ms > until_ms:
                break
            sent = server.bytes_sent
            clock.move_to(min(until_ms, max(due_ms, clock.now_ms() + 1)))
            server.advance()
            if server.bytes_sent != sent:
                await self.quiet(patience_s, is_moving=True)
        clock.move_to(max(until_ms, clock.now_ms()))
        server.advance()
        await self.quiet(patience_s, is_moving=True)
        return clock.now_ms()

    async def quiet(self, patience_s: float | None = None, *, is_moving: bool = False) -> None:
        """Wait until clients have reacted to everything; see `advance`.

        Args:
            is_moving: what clients send now is because time has passed.
        """
        own_s = seconds_of_patience(patience_s)
        patience_s = self._patience_s if own_s is None else own_s
        before = {each: each.bytes_received for each in self._server.connections if is_moving}
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        seen, since_s = self._activity(), began_s
        while True:
            await asyncio.sleep(POLL_S)
            activity, now_s = self._activity(), loop.time()
            if activity != seen or self._server.is_writing:
                seen, since_s = activity, now_s
                self._acting.update(each for each in before if each.bytes_received != before[each])
                if now_s - began_s >= self._busy_s:
                    what = f"clients did not rest within {self._busy_s:g} s"
                    raise TimeoutError(what + self._open())
            elif self._is_quiet(now_s - since_s, patience_s):
                return

    def _is_quiet(self, silent_s: float, patience_s: float | None) -> bool:
        """Whether clients that have been silent for so long need not be waited for.

        Raises:
            TimeoutError: one of them does not settle.
        """
        if silent_s < QUIET_S:
            return False
        holding = {connection for connection, *_ in self._unsettled()}
        if patience_s is None and not self._acting.isdisjoint(holding):
            patience_s = PATIENCE_S
        if patience_s is None and holding.difference(self._waiting):
            if silent_s < PROBATION_S:
                return False
            self._waiting.update(holding)
        if patience_s and holding:
            if silent_s < patience_s:
                return False
            raise TimeoutError(
                f"clients were silent for {patience_s:g} s{self._open()}; where that is meant, say "
                "so with a patience of 0"
            )
        return silent_s >= (HOLDING_S if self._is_held() else QUIET_S)

    def _activity(self) -> tuple[int, int]:
        """What changes when a client does anything but ask queues that are empty."""
        server = self._server
        polled = sum(vhost.polled_bytes for vhost in server.vhosts.values())
        return server.bytes_received + server.bytes_sent - polled, len(server.connections)

    def _is_held(self) -> bool:
        vhosts = self._server.vhosts.values()
        return any(queue.unacked for vhost in vhosts for queue in queues_of(vhost))

    def _open(self) -> str:
        """What clients have not finished, for an error."""
        found = [
            f"consumer '{tag}' of {connection.name} has not settled {count} of queue '{queue}'"
            for connection, tag, queue, count in self._unsettled()
        ]
        return f": {', '.join(found)}" if found else ""

    def _unsettled(self) -> Iterator[tuple[Connection, str, str, int]]:
        """Connection, tag, queue and number of deliveries of each consumer that holds any."""
        for connection in self._server.connections:
            if connection.vhost is None:
                continue
            state = connection.vhost.shard.state
            for channel in connection.channels.values():
                known = state.channels.get(connection.user, channel.name)
                for consumer in () if known is None else known.consumers.values():
                    queue = state.queues.by_number(consumer.queue_number)
                    if consumer.number and consumer.deliveries.unacked and queue is not None:
                        yield connection, consumer.label, queue.name, consumer.deliveries.unacked
