import pytest
from starlette.testclient import TestClient

from streaming.management.app import Management
from streaming.management.memory import MemoryFront
from tests.amqp_client import memory_broker
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
