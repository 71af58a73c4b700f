"""The API on a port, in the event loop of the front."""

import asyncio
import socket
from typing import Final

from streaming.http_connections import SideServer, server_config
from streaming.management.app import Management

MAX_HEADER_BYTES: Final = 64_000


class Serving:
    """The API while it is served.

    Args:
        listeners: on which it is.
    """

    def __init__(self, management: Management, listeners: list[socket.socket]) -> None:
        self._server = SideServer(server_config(management, MAX_HEADER_BYTES, graceful_s=1))
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._server.serve(listeners)),
            loop.create_task(management.keep_sampling()),
        ]

    async def stop(self) -> None:
        """End the service."""
        self._server.should_exit = True
        served, sampling = self._tasks
        sampling.cancel()
        await asyncio.gather(served, sampling, return_exceptions=True)
