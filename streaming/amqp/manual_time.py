"""Time that is moved by hand: timers fire in order, and clients react before the next one does.

    advance 30 minutes -> the next timer is due -> deliveries go out -> clients settle, publish, ...
          ^                                                                          |
          +------------------------- until all is quiet <----------------------------+

Quiet means that nothing is on its way to a client, and that none has sent anything for a moment. A
client that holds a delivery is given longer.
"""

import asyncio
from typing import Final

from streaming.amqp.clocks import END_MS, ManualClock
from streaming.amqp.inspection import queues_of
from streaming.amqp.server import Server

POLL_S: Final = 0.002
QUIET_S: Final = 0.02
HOLDING_S: Final = 0.25


class ManualTime:
    """Moves the clock of one server.

    Args:
        quiet_s: how long clients are silent when all is quiet.
        holding_s: the same while any of them holds deliveries that it has not settled.
    """

    def __init__(
        self,
        server: Server,
        clock: ManualClock,
        *,
        quiet_s: float = QUIET_S,
        holding_s: float = HOLDING_S,
    ) -> None:
        self._server = server
        self._clock = clock
        self._quiet_s = quiet_s
        self._holding_s = holding_s

    async def advance(self, milliseconds: int) -> int:
        """Let time pass; return the time then, epoch milliseconds.

        Raises:
            ValueError: the clock does not go so far.
        """
        clock, server = self._clock, self._server
        until_ms = clock.now_ms() + milliseconds
        if until_ms > END_MS:
            raise ValueError("the clock ends with the year 9999")
        await self.quiet()
        while True:
            due_ms = server.next_deadline_ms()
            if due_ms is None or due_ms > until_ms:
                break
            sent = server.bytes_sent
            clock.move_to(min(until_ms, max(due_ms, clock.now_ms() + 1)))
            server.advance()
            if server.bytes_sent != sent:
                await self.quiet()
        clock.move_to(max(until_ms, clock.now_ms()))
        server.advance()
        await self.quiet()
        return clock.now_ms()

    async def quiet(self) -> None:
        """Wait until clients have reacted to everything."""
        loop = asyncio.get_running_loop()
        seen, since_s = self._activity(), loop.time()
        while True:
            await asyncio.sleep(POLL_S)
            activity = self._activity()
            if activity != seen or self._server.is_writing:
                seen, since_s = activity, loop.time()
            elif loop.time() - since_s >= self._patience_s():
                return

    def _activity(self) -> tuple[int, int, int]:
        server = self._server
        return server.bytes_received, server.bytes_sent, len(server.connections)

    def _patience_s(self) -> float:
        vhosts = self._server.vhosts.values()
        holds = any(queue.unacked for vhost in vhosts for queue in queues_of(vhost))
        return self._holding_s if holds else self._quiet_s
