"""The S3-compatible server, as clients see it that ask before they send a body."""

import socket
from urllib.parse import urlsplit

from streaming.embedded.object_store_server import ObjectStoreServer
from streaming.storage.object_store import ObjectStorage
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


def test_a_server_with_a_folder_has_its_objects_again(tmp_path):
    with ObjectStoreServer(folder=tmp_path / "kept") as server:
        server.make_bucket(BUCKET)
        objects = ObjectStorage(f"s3://{BUCKET}/one place", server.options)
        for name in ("gone", "kept", "also=gone", "replaced"):
            objects.replace(name, name.encode())
        objects.replace("replaced", b"new")
        objects.delete("gone")
        objects.delete("also=gone")

    files = [file for file in (tmp_path / "kept").rglob("*") if file.is_file()]
    assert {file.name: file.read_bytes() for file in files} == {"kept": b"kept", "replaced": b"new"}
    with ObjectStoreServer(folder=tmp_path / "kept") as server:
        objects = ObjectStorage(f"s3://{BUCKET}/one place", server.options)
        assert [one.name for one in objects.files()] == ["kept", "replaced"]
        assert objects.open("replaced").read() == b"new"
        assert not objects.create("kept", lambda file: file.write(b"other"))


def test_a_name_cannot_lead_out_of_the_folder(tmp_path):
    with ObjectStoreServer(folder=tmp_path / "kept") as server:
        server.make_bucket(BUCKET)
        server._ask("PUT", f"/{BUCKET}/../../outside")  # noqa: SLF001
        server._ask("PUT", f"/{BUCKET}/%2e%2e/%2e%2e/outside")  # noqa: SLF001

    assert not (tmp_path / "outside").exists()
