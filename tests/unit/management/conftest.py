import pytest
from starlette.testclient import TestClient

from streaming.management.app import Management
from streaming.management.memory import MemoryFront
from tests.amqp_client import RawClient, memory_broker
from tests.management_api import Api


@pytest.fixture
def broker():
    return memory_broker()


@pytest.fixture
def management(broker):
    listeners = [("amqp", "127.0.0.1", 5672), ("http", "127.0.0.1", 15672)]
    return Management(MemoryFront(broker), lambda: listeners)


@pytest.fixture
def client(management):
    return TestClient(management, client=("127.0.0.1", 50_000))


@pytest.fixture
def api(client):
    return Api(client)


class _Socket:
    """What a server knows of a connection whose bytes a test moves."""

    def send_output(self):
        """Leave what is sent to the client of the test."""


@pytest.fixture
def amqp(broker):
    """A client whose connection the server lists."""
    return _listed(broker)


@pytest.fixture
def reading(broker):
    """Another one."""
    return _listed(broker)


def _listed(broker):
    client = RawClient(broker)
    broker.server.connections[client.connection] = _Socket()
    return client
