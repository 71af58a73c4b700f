"""Uvicorn beside a broker, in the event loop of the broker."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn


class WebServer(uvicorn.Server):
    """Serves until `should_exit` is set; signals are the broker's.

    Attributes:
        task: the one that serves; the event loop itself does not keep it.
        port: where it serves.
    """

    task: asyncio.Task[None] | None = None
    port = 0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield
