"""A RabbitMQ of this machine for the tests of AMQP."""

import pytest

from tests.bench.pipeline.rabbitmq import RabbitMQ


@pytest.fixture(scope="package")
def rabbitmq(tmp_path_factory):
    """The URL of Debian's RabbitMQ, for its default vhost."""
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq") / "node") as node:
        assert node.version.startswith("3.10."), "our server is asked to answer as 3.10 does"
        yield f"{node.url}/%2F"
