"""Serves the console over HTTP, in this process."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import uvicorn

from streaming.config.console import ConsoleSettings
from streaming.console.access import TOKEN, Credentials, Guard, Logins
from streaming.console.app import MAX_HEADER_BYTES, PAGES, make_app
from streaming.console.listening import listen
from streaming.console.page import Console
from streaming.console.reader import Reader

WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104
"""Every address of the machine; links then name it localhost."""


class Server:
    """A console that listens from the moment it is created.

    Args:
        host, port: where to listen; port 0: any free one.
        config: the job's configuration, for actions; None: the console only reads.
        announce: is told each link that logs in once, or the address if there are users.

    Raises:
        ListenError: the address is in use, or not one of this machine.
        AccessError: the file of credentials cannot be read.
    """

    def __init__(
        self,
        host: str,
        port: int,
        settings: ConsoleSettings,
        reader: Reader,
        config: Path | None,
        announce: Callable[[str], None],
    ) -> None:
        self._socket = listen(host, port)
        port = self._socket.getsockname()[1]
        shown = "localhost" if host in WILDCARDS else f"[{host}]" if ":" in host else host
        self.url = settings.public_url or f"http://{shown}:{port}"
        names = {shown, "localhost", "127.0.0.1", "[::1]", socket.gethostname()}
        hosts = {f"{name}:{port}".lower() for name in names} | {urlsplit(self.url).netloc.lower()}
        credentials = None if settings.credentials is None else Path(settings.credentials)
        logins = None
        if credentials is None and settings.user_header is None:
            logins = Logins(lambda token: announce(f"{self.url}/?{TOKEN}={token}"))
        else:
            announce(f"{self.url}/")
        guard = Guard(
            frozenset(hosts),
            logins=logins,
            credentials=None if credentials is None else Credentials(credentials),
            user_header=settings.user_header,
            role_header=settings.role_header,
        )
        self._reader = reader
        console = Console(reader, PAGES, config, settings.read_only)
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(console, guard),
                log_config=None,
                log_level=logging.WARNING,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                timeout_graceful_shutdown=2,
            )
        )

    def run(self) -> None:
        """Serve until `stop`, SIGINT or SIGTERM."""
        try:
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(self._server.serve(sockets=[self._socket]))
        finally:
            self._reader.stop()

    def stop(self) -> None:
        """End `run`, from any thread."""
        self._server.should_exit = True
