"""RabbitMQ's management API of `dlx amqp`, on a port beside it."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from streaming.management.counting import Counting
    from streaming.management.port import Front
    from streaming.management.serving import Serving

Listeners = list[tuple[str, str, int]]
"""RabbitMQ's name of a protocol, the address and the port."""


class ManagementPort(NamedTuple):
    """Where the API is served.

    Attributes:
        port: 0 for any that is free.
        is_asked: whether somebody asked for this port: otherwise the front runs without the API
            where it cannot be used, as beside another front.
    """

    host: str
    port: int
    is_asked: bool


class CannotServeManagementError(Exception):
    """The port that was asked for cannot be used; stderr says why."""


def serve_management(
    where: ManagementPort | None,
    front: "Callable[[], Front]",
    listeners: Listeners,
    counting: "Counting",
) -> "Serving | None":
    """Serve the API, and say where; None if it is not served.

    Args:
        where: None for nowhere.
        front: makes what it serves.
        listeners: of the server; the API is added.

    Raises:
        CannotServeManagementError: it was asked for, and cannot be served.
    """
    if where is None:
        return None
    try:
        from streaming.management.app import Management
        from streaming.management.serving import Serving
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn"}:
            raise
        _do_without(where, "it needs the extra console: pip install 'dlx-stream[console]'")
        return None
    from streaming.listening import ListenError, listen

    try:
        listener = listen("--management", where.host, where.port)
    except ListenError as error:
        _do_without(where, str(error))
        return None
    port = listener.getsockname()[1]
    listeners.append(("http", where.host, port))
    serving = Serving(Management(front(), lambda: listeners, counting), listener)
    print(f"management at http://{where.host}:{port}/api/", flush=True)
    return serving


def _do_without(where: ManagementPort, why: str) -> None:
    print(f"dlx amqp: no management API: {why}", file=sys.stderr)
    if where.is_asked:
        raise CannotServeManagementError
