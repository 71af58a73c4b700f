"""How this program serves HTTP; a connection that sends no request gives its place up.

connection --> waits for a request --> answered --> waits ...
too long, or too many connections: closed, the longest waiting first
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST: Final = 512
"""Connections at once; a page of a browser has at most seven."""

KEEP_ALIVE_S: Final = 5

REQUEST_S: Final = 10.0
"""How long the head of a request may take, however slowly it comes."""


def bounded(most: int = MOST, request_s: float = REQUEST_S) -> type[H11Protocol]:
    """Return the protocol of a server that bounds its connections."""
    waiting: dict[H11Protocol, None] = {}  # those that wait for a request, the longest first

    class BoundedProtocol(H11Protocol):
        """Aborts a connection that waits too long, or is one too many; see the module."""

        late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Take a place; if there is none, that of the one that has waited longest."""
            super().connection_made(transport)
            if len(self.connections) > most:
                idle = next(iter(waiting), None)
                (idle or self).transport.abort()
                if idle is None:
                    return
                waiting.pop(idle)
            self._wait()

        def data_received(self, data: bytes) -> None:
            """Read what has come, which may not yet be a whole request."""
            super().data_received(data)
            if self._is_answering():
                self._stop_waiting()
            else:
                self._wait()

        def on_response_complete(self) -> None:
            """Wait for the next request, unless it has come already."""
            super().on_response_complete()
            if not self._is_answering():
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            """Free the place."""
            self._stop_waiting()
            super().connection_lost(exc)

        def _is_answering(self) -> bool:
            cycle: Any = self.cycle  # None before the first request
            return cycle is not None and not cycle.response_complete

        def _wait(self) -> None:
            if self not in waiting and not self.transport.is_closing():
                waiting[self] = None
                self.late = self.loop.call_later(request_s, self.transport.abort)

        def _stop_waiting(self) -> None:
            waiting.pop(self, None)
            if self.late is not None:
                self.late.cancel()
                self.late = None

    return BoundedProtocol


def server_config(
    app: Any, max_header_bytes: int, graceful_s: int, *, lifespan: bool = False
) -> uvicorn.Config:
    """How an application is served.

    Args:
        graceful_s: how long the end waits for answers.
        lifespan: whether the application has something to do at its start or end.
    """
    return uvicorn.Config(
        app,
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="auto" if lifespan else "off",
        http=bounded(),
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_S,
        h11_max_incomplete_event_size=max_header_bytes,
        timeout_graceful_shutdown=graceful_s,
    )


class SideServer(uvicorn.Server):
    """Serves in the event loop of another service until `should_exit` is set."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the other service."""
        yield
