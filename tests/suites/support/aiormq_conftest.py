"""In place of aiormq's conftest.py, which its archive lacks: no container, but the broker."""

import os
from dataclasses import dataclass

import pytest
from yarl import URL


@dataclass(frozen=True)
class Container:
    """Where a container's ports are."""

    ports: dict[str, int]


@pytest.fixture(scope="session")
def rabbitmq_container() -> Container:
    """The broker of the environment; nothing listens at its port for TLS."""
    return Container({"5672/tcp": int(os.environ["RABBITMQ_5672_TCP"]), "5671/tcp": 5671})


@pytest.fixture(scope="session")
def amqp_direct_url(rabbitmq_container: Container) -> URL:
    """Its address."""
    host = os.environ["RABBITMQ_HOST"]
    return URL(f"amqp://guest:guest@{host}:{rabbitmq_container.ports['5672/tcp']}//")
