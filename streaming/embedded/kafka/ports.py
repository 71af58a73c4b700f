"""TCP ports on the loopback interface, and the two that a Kafka node listens on."""

import random
import socket
from pathlib import Path

import msgspec

from streaming.embedded.errors import EmbeddedError

LOOPBACK = "127.0.0.1"
RANGE = range(20_000, 30_000)
"""Below the ports that systems give to outgoing connections: a client that keeps trying to reach a
stopped server on one of those can end up connected to itself, and then the port is taken."""
TRIES = 200


class Ports(msgspec.Struct, frozen=True):
    """The ports of a node: for clients, and for its own controller."""

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
    """A port that is free at this moment and not among those taken.

    Random, so that processes that look at the same moment do not choose the same.
    """
    chance = random.SystemRandom()
    for _ in range(TRIES):
        port = chance.choice(RANGE)
        if port not in taken and is_free(port):
            return port
    raise EmbeddedError(
        f"no free port was found between {RANGE.start} and {RANGE.stop - 1} on {LOOPBACK}. Name "
        "one that is free."
    )


def choose_ports(file: Path, wanted_port: int | None) -> Ports:
    """The ports to listen on: the wanted one, those of last time if they are free, or free ones.

    Args:
        file: remembers the ports for next time.
        wanted_port: the one for clients, if it must be that one.

    Raises:
        EmbeddedError: the wanted port is taken.
    """
    last = _read(file)
    if wanted_port is None:
        port = last.port if last and is_free(last.port) else free_port()
    elif is_free(wanted_port):
        port = wanted_port
    else:
        raise EmbeddedError(
            f"port {wanted_port} on {LOOPBACK} is in use by another program. Stop that program, or "
            "name another port."
        )
    if last and last.controller_port != port and is_free(last.controller_port):
        controller_port = last.controller_port
    else:
        controller_port = free_port(frozenset({port}))
    ports = Ports(port, controller_port)
    file.write_bytes(msgspec.json.encode(ports))
    return ports


def _read(file: Path) -> Ports | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Ports)
    except (OSError, msgspec.DecodeError):
        return None  # never started here, or damaged: any free ports will do
