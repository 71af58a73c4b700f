"""The address that the console listens on."""

import errno
import socket

from topology.errors import DlxError


class ListenError(DlxError):
    """The address of the console cannot be used."""

    help_code = "listen"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ListenError: the address is in use, or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        remedy = (
            "stop the program that uses it, or choose another one"
            if error.errno == errno.EADDRINUSE
            else "choose one of this machine"
        )
        what = error.strerror or error
        raise ListenError(f"console: cannot listen on {host}:{port}: {what}; {remedy}") from None
    return opened
