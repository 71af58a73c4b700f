"""The console of the demo's job, in this process, if its packages are installed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streaming.config.console import ConsoleSettings
from streaming.storage.location import Location

if TYPE_CHECKING:
    from streaming.console.server import Server

HOST: Final = "127.0.0.1"
PORTS: Final = (9420, 0)
"""That of `dlx console`, else a free one."""

STOP_TIMEOUT_S: Final = 10.0

_EXTRA: Final = {"starlette", "uvicorn", "jinja2"}


@contextmanager
def console(tables: Location, config: Path, announce: Callable[[str], None]) -> Iterator[bool]:
    """Serve the console until the end of the block.

    Args:
        tables: the folder of the tables, which need not exist yet.
        announce: is told the link that logs in once.

    Yields:
        Whether there is a console: it needs `dlx-stream[console]`.
    """
    server = _start(tables, config, announce)
    if server is None:
        yield False
        return
    thread = threading.Thread(target=server.run, name="demo-console", daemon=True)
    thread.start()
    try:
        yield True
    finally:
        server.stop()
        thread.join(STOP_TIMEOUT_S)


def _start(tables: Location, config: Path, announce: Callable[[str], None]) -> "Server | None":
    try:
        from streaming.console.reader import Reader  # noqa: PLC0415 - an extra
        from streaming.console.server import Server  # noqa: PLC0415
        from streaming.listening import ListenError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _EXTRA:
            return None
        raise
    for port in PORTS:
        try:
            return Server(
                HOST, port, ConsoleSettings(), Reader(tables.url, tables.options), config, announce
            )
        except ListenError:
            continue
    return None
