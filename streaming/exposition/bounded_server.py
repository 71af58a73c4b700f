"""An HTTP server on a few threads: a client that sends nothing gives its place to the next one.

connection --a free thread?--> waits for a request --> answers --> waits ...
           --none, but one waits--> the one that has waited longest is closed
           --all answer--> one that has been read too slowly is closed, or else the new one
"""

import logging
import threading
import time
from contextlib import suppress
from http.server import ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import Any, Final

MOST: Final = 16
"""Connections, and threads that answer them."""

SLOW_S: Final = 5.0
"""How long an answer may take while others wait for a place."""

logger = logging.getLogger(__name__)


class BoundedServer(ThreadingHTTPServer):
    """Has at most so many connections at once."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self._waiting: dict[socket, float] = {}  # since when, the longest first
        self._answering: dict[socket, float] = {}  # likewise
        self._lock = threading.Lock()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection on a thread, if there is a place for it."""
        with self._lock:
            if len(self._waiting) + len(self._answering) >= MOST and not self._make_room():
                self.shutdown_request(request)
                return
            self._waiting[request] = time.monotonic()
        super().process_request(request, client_address)

    def _make_room(self) -> bool:
        """Close a connection; its own thread then ends. Return whether there was one to close."""
        chosen = next(iter(self._waiting), None)
        if chosen is None:
            chosen, since_s = next(iter(self._answering.items()))
            if time.monotonic() - since_s < SLOW_S:
                return False
        self._forget(chosen)
        with suppress(OSError):  # it has just gone
            chosen.shutdown(SHUT_RDWR)
        return True

    def _forget(self, request: Any) -> bool:
        """Free a place; return whether there was one."""
        places = (self._waiting.pop(request, None), self._answering.pop(request, None))
        return places != (None, None)

    def answers(self, request: Any) -> None:
        """Notify that a request has come."""
        with self._lock:
            if self._forget(request):
                self._answering[request] = time.monotonic()

    def waits(self, request: Any) -> None:
        """Notify that the request is answered."""
        with self._lock:
            if self._forget(request):
                self._waiting[request] = time.monotonic()

    def close_request(self, request: Any) -> None:
        """Free its place."""
        with self._lock:
            self._forget(request)
        super().close_request(request)

    def handle_error(self, _request: object, client_address: object) -> None:
        """Log what the base class would print."""
        logger.debug("a request of %s failed", client_address)
