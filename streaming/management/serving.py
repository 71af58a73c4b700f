"""The API on a port, in the event loop of the front."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

from streaming.http_connections import SETTINGS, bounded
from streaming.management.app import Management

MAX_HEADER_BYTES: Final = 64_000


class _Server(uvicorn.Server):
    """Serves until `should_exit` is set; signals are the front's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


class Serving:
    """The API while it is served."""

    def __init__(self, management: Management, listener: socket.socket) -> None:
        self._server = _Server(
            uvicorn.Config(
                management,
                log_config=None,
                log_level=logging.WARNING,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                lifespan="off",
                http=bounded(),
                **SETTINGS,
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                timeout_graceful_shutdown=1,
            )
        )
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._server.serve([listener])),
            loop.create_task(management.keep_sampling()),
        ]

    async def stop(self) -> None:
        """End the service."""
        self._server.should_exit = True
        served, sampling = self._tasks
        sampling.cancel()
        await asyncio.gather(served, sampling, return_exceptions=True)
