"""An address to listen on, how it is written, and why it cannot be used."""

import errno
import socket
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from topology.errors import DlxError

LOCALHOST: Final = "127.0.0.1"
LOCALHOST_6: Final = "::1"
EVERY_ADDRESS: Final = "::"
_MAPPED: Final = "::ffff:"


class ListenError(DlxError):
    """An address cannot be used: it is in use, or not one of this machine."""

    help_code = "listen"


def listen_error(who: str, host: str, port: int, error: OSError) -> ListenError:
    """Explain why an address cannot be used.

    Args:
        who: the part of dlx, or the setting, that wants it.
    """
    remedy = (
        "stop the program that uses it, or choose another one"
        if error.errno == errno.EADDRINUSE
        else "choose one of this machine"
    )
    what = error.strerror or error
    return ListenError(f"{who}: cannot listen on {host_and_port(host, port)}: {what}; {remedy}")


def host_and_port(host: str, port: int) -> str:
    """Both in one, as in a URL: `127.0.0.1:5672`, `[::1]:5672`.

    A client of IPv4 has its usual address where IPv6 has another form of it.
    """
    if "." in host:
        host = host.removeprefix(_MAPPED)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether a numeric address is one of this machine alone; a name is none."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def family_of(host: str) -> socket.AddressFamily:
    """The family of a numeric address or a name."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def listen(who: str, host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ListenError: the address is in use, or not one of this machine.
    """
    opened = socket.socket(family_of(host), socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        raise listen_error(who, host, port, error) from None
    return opened


def listen_everywhere(port: int) -> socket.socket:
    """Return a socket that listens at all addresses of this machine, of IPv4 and IPv6.

    Raises:
        OSError: the port is in use, or this machine has no IPv6.
    """
    return socket.create_server(
        (EVERY_ADDRESS, port),
        family=socket.AF_INET6,
        dualstack_ipv6=socket.has_dualstack_ipv6(),
    )


def listen_locally_too(who: str, host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen: beside 127.0.0.1 also on ::1, if this machine can.

    Some clients look for `localhost` only there.

    Raises:
        ListenError: the address is in use, or not one of this machine.
    """
    opened = [listen(who, host, port)]
    if host == LOCALHOST:
        with suppress(ListenError):
            opened.append(listen(who, LOCALHOST_6, opened[0].getsockname()[1]))
    return opened
