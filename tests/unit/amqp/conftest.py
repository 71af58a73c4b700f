import pytest

from tests.amqp_client import BROKERS, RawClient


@pytest.fixture(params=list(BROKERS))
def broker(request):
    return BROKERS[request.param]()


@pytest.fixture
def client(broker):
    return RawClient(broker)
