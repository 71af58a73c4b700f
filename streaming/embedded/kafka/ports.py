"""Free TCP ports on the loopback interface, and the two ports of a Kafka node."""

import random
import socket
from pathlib import Path

import msgspec

from streaming.embedded.errors import EmbeddedError
from streaming.storage.json_file import DamagedFileError, read_json_file, write_json_file

LOOPBACK = "127.0.0.1"
LOCAL_HOSTS = frozenset({"localhost", LOOPBACK})
"""Names of this machine in an address."""
RANGE = range(20_000, 30_000)
"""Below the ports of outgoing connections: a client that keeps connecting to a stopped server on
one of those can end up connected to itself, and then occupies the port."""
MAX_ATTEMPTS = 200


class Ports(msgspec.Struct, frozen=True):
    """The ports of a node: for clients and for its controller."""

    port: int
    controller_port: int


def is_free(port: int) -> bool:
    """Whether a server could listen on a loopback port right now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java's servers do
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)  # binding alone succeeds beside another bound socket
        except OSError:
            return False
    return True


def free_port(taken: frozenset[int] = frozenset()) -> int:
    """A random port that is free now and not in `taken`.

    It is random so that processes that start together choose different ports.
    """
    chance = random.SystemRandom()
    for _ in range(MAX_ATTEMPTS):
        port = chance.choice(RANGE)
        if port not in taken and is_free(port):
            return port
    raise EmbeddedError(
        f"found no free port from {RANGE.start} to {RANGE.stop - 1} on {LOOPBACK}. Choose a port "
        "that is free."
    )


def choose_ports(file: Path, wanted_port: int | None) -> Ports:
    """Choose the ports: the wanted one, else those of the last start if free, else free ones.

    Args:
        file: stores the ports for the next start.
        wanted_port: the required port for clients; None: any.

    Raises:
        EmbeddedError: the wanted port is in use.
    """
    last = _read(file)
    if wanted_port is None:
        port = last.port if last and is_free(last.port) else free_port()
    elif is_free(wanted_port):
        port = wanted_port
    else:
        raise EmbeddedError(
            f"port {wanted_port} on {LOOPBACK} is in use by another program. Stop that program, or "
            "choose another port."
        )
    if last and last.controller_port != port and is_free(last.controller_port):
        controller_port = last.controller_port
    else:
        controller_port = free_port(frozenset({port}))
    ports = Ports(port, controller_port)
    write_json_file(file, ports)
    return ports


def _read(file: Path) -> Ports | None:
    try:
        return read_json_file(file, Ports, "Delete it.")
    except (OSError, DamagedFileError):
        return None  # any free ports will do
