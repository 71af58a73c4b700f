"""In place of aio-pika's tests/docker_client.py: the "container" is the broker under test."""

import os
from dataclasses import dataclass


class DockerNotAvailableError(Exception):
    """Never raised here; the suite imports it."""


@dataclass(frozen=True)
class DockerHostInfo:
    """Nothing to know; the suite names it in annotations."""


@dataclass(frozen=True)
class ContainerInfo:
    """Where a container's ports are."""

    id: str
    host: str
    ports: dict[str, int]


def check_docker_available() -> DockerHostInfo:
    """There is always a broker to run against."""
    return DockerHostInfo()


class DockerClient:
    """Answers with the broker of the environment instead of a container."""

    def __init__(self, docker_host_info: DockerHostInfo | None = None) -> None:
        self.docker_host_info = docker_host_info

    def run(
        self, image: str, ports: list[str], environment: dict[str, str] | None = None
    ) -> ContainerInfo:
        """The broker, whatever the image."""
        port = int(os.environ["RABBITMQ_5672_TCP"])
        tls = int(os.environ.get("RABBITMQ_5671_TCP", "5671"))
        found = {"5672/tcp": port, "5671/tcp": tls}
        return ContainerInfo(
            image, os.environ["RABBITMQ_HOST"], {each: found[each] for each in ports}
        )

    def kill(self, container_id: str) -> None:
        """The broker stays."""

    def remove(self, container_id: str) -> None:
        """The broker stays."""
