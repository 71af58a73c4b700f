"""RabbitMQ's management API of `dlx amqp`, on a port beside it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from streaming.cli.run.amqp_ports import PortBeside, do_without

if TYPE_CHECKING:
    from streaming.dlx_api.reading import Readers
    from streaming.management.counting import Counting
    from streaming.management.pages import Address
    from streaming.management.port import Front
    from streaming.management.serving import Serving

WHAT = "management API"

Listeners = list[tuple[str, str, int]]
"""RabbitMQ's name of a protocol, the address and the port."""


def serve_management(
    where: PortBeside | None,
    front: "Callable[[], Front]",
    listeners: Listeners,
    counting: "Counting",
    readers: "Readers | None" = None,
    console: "Address | None" = None,
) -> "Serving | None":
    """Serve the API, and say where; None if it is not served.

    Args:
        where: None for nowhere.
        front: makes what it serves.
        listeners: of the server; the API is added.
        console: where the console is, if that is known.
        readers: answer what `/api/dlx` asks of the tables; None: there are none.

    Raises:
        CannotServeError: it was asked for, and cannot be served.
    """
    if where is None:
        return None
    try:
        from streaming.dlx_api.resources import dlx_resources
        from streaming.management.app import Management
        from streaming.management.serving import Serving
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn"}:
            raise
        do_without(where, WHAT, "it needs the extra console: pip install 'dlx-stream[console]'")
        return None
    from streaming.listening import ListenError, host_and_port, listen_locally_too

    try:
        opened = listen_locally_too("--management", where.host, where.port)
    except ListenError as error:
        do_without(where, WHAT, str(error))
        return None
    port = opened[0].getsockname()[1]
    listeners.append(("http", where.host, port))
    more = dlx_resources(readers)
    management = Management(front(), lambda: listeners, counting, more, console)
    serving = Serving(management, opened)
    print(f"management at http://{host_and_port(where.host, port)}/api/", flush=True)
    return serving
