"""A RabbitMQ of this machine, and fronts on Kafka, for the tests of AMQP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.pipeline.rabbitmq import RabbitMQ
from tests.fixtures.fronts import Fronts


@pytest.fixture(scope="package")
def rabbitmq(tmp_path_factory):
    """The URL of Debian's RabbitMQ, for its default vhost."""
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq") / "node") as node:
        assert node.version.startswith("3.10."), "our server is asked to answer as 3.10 does"
        yield f"{node.url}/%2F"


@pytest.fixture
def fronts(tmp_path: Path, embedded_kafka) -> Iterator[Fronts]:
    """A vhost without a front."""
    fronts = Fronts(tmp_path, embedded_kafka.bootstrap_servers)
    yield fronts
    fronts.end()
