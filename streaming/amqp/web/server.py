"""Uvicorn beside a broker, in the event loop of the broker."""

import asyncio

from streaming.http_connections import SideServer


class WebServer(SideServer):
    """Serves the pages of a broker.

    Attributes:
        task: the one that serves; the event loop itself does not keep it.
        port: where it serves.
    """

    task: asyncio.Task[None] | None = None
    port = 0
