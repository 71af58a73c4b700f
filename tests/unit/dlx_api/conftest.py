import pytest

from streaming.amqp.clocks import WallClock
from streaming.amqp.memory import MemoryBroker
from streaming.management.memory import MemoryFront
from tests.amqp_client import memory_broker
from tests.dlx_api import DlxApi
from tests.management_on_log import OnLog


@pytest.fixture
def broker():
    return memory_broker()


@pytest.fixture
def make_memory():
    """Makes the API of a broker in memory, by default one with the clock of the machine."""
    made = []

    def make(broker=None):
        api = DlxApi(MemoryFront(broker or MemoryBroker(WallClock())))
        made.append(api)
        return api

    yield make
    for one in made:
        one.close()


@pytest.fixture
def memory(make_memory, broker):
    """The API of a broker in memory whose clock is moved by hand."""
    return make_memory(broker)


@pytest.fixture(scope="module")
def make_api():
    """Makes the API of a front on a log beside tables."""
    made = []

    def make(root):
        api = DlxApi(OnLog().front, str(root))
        made.append(api)
        return api

    yield make
    for one in made:
        one.close()
