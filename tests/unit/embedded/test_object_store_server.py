"""The S3-compatible server, as clients see it that ask before they send a body."""

import socket
from urllib.parse import urlsplit

from tests.fixtures.object_store import BUCKET, object_store

__all__ = ["object_store"]


def test_a_client_that_waits_for_100_continue_gets_it_once(object_store):
    address = urlsplit(object_store.endpoint)
    assert address.port is not None
    with socket.create_connection((address.hostname, address.port), 30) as connection:
        connection.sendall(
            f"PUT /{BUCKET}/asked HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: 4\r\n"
            "Expect: 100-continue\r\nConnection: close\r\n\r\nbody".encode()
        )
        answers = b"".join(iter(lambda: connection.recv(4096), b""))

    assert answers.count(b"100 Continue") == 1
    assert answers.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
