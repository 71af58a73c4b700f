"""Serves the console over HTTP, in this process."""

import asyncio
import contextlib
import gc
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

import uvicorn

from streaming.config.console import ConsoleSettings
from streaming.console.app import MAX_HEADER_BYTES, PAGES, make_app
from streaming.console.front_clients import FrontClients
from streaming.console.languages import Languages
from streaming.console.live import Live
from streaming.console.logins import (
    Credentials,
    Guard,
    Logins,
    read_proxy_secret,
)
from streaming.console.page import Console, View
from streaming.console.pages.causes import causes
from streaming.console.pages.definitions import definitions
from streaming.console.pages.now import all_waiting, last_balance
from streaming.console.pages.queues import queues
from streaming.console.reader import Reader
from streaming.console.rights import User
from streaming.console.token import TOKEN
from streaming.http_connections import server_config
from streaming.listening import listen

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 0.8
"""A page that takes longer is shown once it is ready; the browser is told so at once."""

WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104
"""Every address of the machine; links then name it localhost."""


class _Serving(uvicorn.Server):
    """Ends the streams of events before it waits for the end of all answers."""

    def __init__(self, config: uvicorn.Config, live: Live) -> None:
        super().__init__(config)
        self._live = live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, which have no end of their own, then everything else."""
        await self._live.close()
        await super().shutdown(sockets)


class Server:
    """A console that listens from the moment it is created.

    Args:
        host, port: where to listen; port 0: any free one.
        config: the job's configuration, for actions; None: the console only reads.
        places: the options with which commands find the same tables and job.
        announce: is told each link that logs in once, or the address if there are users.
        quiet: queues that the verdict leaves out, as `metrics.quiet_queues` names them.
        quiet_of: queues that are left out of single alerts, as `alerts.quiet` names them.
        is_beside_job: whether the console ends with the process of the job.

    Raises:
        ListenError: the address is in use, or not one of this machine.
        LoginsError: the file of credentials cannot be read.
        LanguageError: there is no such translation, or it cannot be read.
    """

    def __init__(
        self,
        host: str,
        port: int,
        settings: ConsoleSettings,
        reader: Reader,
        config: Path | None,
        announce: Callable[[str], None],
        places: Mapping[str, str] = MappingProxyType({}),
        *,
        quiet: tuple[str, ...] = (),
        quiet_of: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
        is_beside_job: bool = False,
    ) -> None:
        self._socket = listen("console", host, port)
        port = self._socket.getsockname()[1]
        shown = "localhost" if host in WILDCARDS else f"[{host}]" if ":" in host else host
        self.url = settings.public_url or f"http://{shown}:{port}"
        names = {shown, "localhost", "127.0.0.1", "[::1]", socket.gethostname()}
        hosts = {f"{name}:{port}".lower() for name in names} | {urlsplit(self.url).netloc.lower()}
        credentials = None if settings.credentials is None else Path(settings.credentials)
        secret = None
        if settings.proxy_secret is not None:
            secret = read_proxy_secret(Path(settings.proxy_secret))
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
            proxy_secret=secret,
            place=f"{socket.gethostname()} {port} {reader.root}",
        )
        self._reader = reader
        self._console = console = Console(
            reader,
            PAGES,
            config,
            settings.read_only,
            places,
            quiet=quiet,
            quiet_of=quiet_of,
            is_beside_job=is_beside_job,
            front_clients=_front_clients(settings),
            languages=Languages(settings.language),
        )
        app = make_app(console, guard, PATIENCE_S)
        self._server = _Serving(
            server_config(app, MAX_HEADER_BYTES, graceful_s=2, lifespan=True),
            app.state.live,
        )

    def run(self) -> None:
        """Serve until `stop`, SIGINT or SIGTERM."""
        begun = threading.Thread(target=warm_up, args=[self._console], name="warm-up")
        begun.start()
        try:
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(self._server.serve(sockets=[self._socket]))
        finally:
            self._reader.stop()
            begun.join()

    def stop(self) -> None:
        """End `run`, from any thread."""
        self._server.should_exit = True


def _front_clients(settings: ConsoleSettings) -> FrontClients | None:
    if settings.front is None:
        return None
    file = settings.front_credentials
    return FrontClients(settings.front, None if file is None else Path(file))


def warm_up(console: Console) -> None:
    """Compute what the pages share, and compile their templates, before somebody asks."""
    for answer in (last_balance, all_waiting, queues, definitions, causes):
        try:
            with View(console, User("", "viewer", administrator=True), "/", {}) as view:
                answer(view)
        except Exception as error:  # noqa: BLE001 - the pages will say it
            logger.debug("console: %s", error)
    templates = console.templates(console.languages.wanted(None))
    for name in templates.list_templates():
        templates.get_template(name)  # compiles it
    gc.collect()
    gc.freeze()  # what all pages share stays: a collection that looks at it takes as long as a page
