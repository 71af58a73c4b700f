"""A Kafka that answers before it knows of any broker, as one does that lost its controller."""

import socketserver
import struct
import threading
from collections.abc import Iterator

import pytest

from streaming.config import parse_config
from streaming.pipeline.topics.admin import KafkaTopics, KafkaUnreachableError

METADATA, API_VERSIONS = 3, 18
UNSUPPORTED_VERSION = 35
HOST = b"127.0.0.1"
CLUSTER = b"lone"
HEAD = struct.Struct(">hhi")
"""Of a request: key, version, correlation id."""


class Answers(socketserver.StreamRequestHandler):
    """Answers in the versions ApiVersions 0 and Metadata 4, without topics."""

    server: "LoneKafka"

    def handle(self) -> None:
        """Answer a request."""
        while size := self.rfile.read(4):
            request = self.rfile.read(*struct.unpack(">i", size))
            key, version, correlation = HEAD.unpack_from(request)
            answer = struct.pack(">i", correlation) + self.answer(key, version)
            self.wfile.write(struct.pack(">i", len(answer)) + answer)

    def answer(self, key: int, version: int) -> bytes:
        """The body of an answer."""
        if key == API_VERSIONS and version:
            return struct.pack(">hi", UNSUPPORTED_VERSION, 0)
        if key == API_VERSIONS:
            return struct.pack(">hi6h", 0, 2, METADATA, 0, 4, API_VERSIONS, 0, 0)
        assert key == METADATA
        brokers = struct.pack(">i", 0)
        if self.server.names_itself:
            self.server.names_itself -= 1
            port = self.server.server_address[1]
            brokers = struct.pack(">iih9sih", 1, 1, len(HOST), HOST, port, -1)
        return b"".join(
            (
                struct.pack(">i", 0),
                brokers,
                struct.pack(">h4sii", len(CLUSTER), CLUSTER, 1 if len(brokers) > 4 else -1, 0),
            )
        )


class LoneKafka(socketserver.ThreadingTCPServer):
    """Names itself as a broker so often, and later none."""

    daemon_threads = True
    names_itself = 1


@pytest.fixture
def lone_kafka() -> Iterator[LoneKafka]:
    with LoneKafka(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_kafka_without_brokers_is_an_error_and_does_not_end_the_process(lone_kafka: LoneKafka):
    address = f"127.0.0.1:{lone_kafka.server_address[1]}"
    config = parse_config(f"""
        [kafka]
        bootstrap_servers = ["{address}"]
        connect_timeout_ms = 1000
        [[inputs]]
        topic = "dlx.publishes"
        [[inputs]]
        topic = "dlx.commands"
        source = "commands"
    """)

    with pytest.raises(KafkaUnreachableError):
        KafkaTopics(config, {"bootstrap.servers": address}).refresh()

    assert lone_kafka.names_itself == 0
