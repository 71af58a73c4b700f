"""The wheel in an empty environment: the client and the commands without Spark and tables.

The source archive makes the same wheel. What the checkout has and an archive lacks is not needed.
"""

import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pika
import pytest

from streaming.cli.exit_codes import EXIT_INVALID, EXIT_OK
from streaming.cli.job_extra import remedy
from tests.fixtures.archives import unpack
from tests.fixtures.child import Child
from tests.fixtures.wheel import install, wheel_environment

__all__ = ["wheel_environment"]

CHECKOUT = Path(__file__).resolve().parents[3]
DEFINITIONS = str(CHECKOUT / "examples/shop/definitions.json")
SCENARIO = str(CHECKOUT / "examples/retry.json")
MAX_BYTES = 60_000_000
IMPORT_ALL = """
import pkgutil, streaming.client
for module in pkgutil.walk_packages(streaming.client.__path__, "streaming.client."):
    if module.name != "streaming.client._spans":  # it needs the extra otel
        __import__(module.name)
print(streaming.client.__file__)
"""
OF_A_USER = """
import pika

def test_an_order_expires(dlx_broker):
    with pika.BlockingConnection(pika.URLParameters(dlx_broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", arguments={"x-message-ttl": 1000})
        channel.basic_publish("", "orders", b"order 1")
        channel.queue_declare("orders", passive=True)
        dlx_broker.advance("1 second")
        dlx_broker.assert_empty("orders")
"""


def test_the_wheel_has_every_data_file_of_its_packages(wheel_environment):
    with zipfile.ZipFile(wheel_environment.wheel) as wheel:
        contents = set(wheel.namelist())

    data = {
        str(path.relative_to(CHECKOUT))
        for package in ("streaming", "topology")
        for path in (CHECKOUT / package).rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".so"}
    }
    assert data - contents == set()
    assert {"streaming/py.typed", "topology/py.typed"} <= contents


def test_the_installed_packages_are_smaller_than_60_mb(wheel_environment):
    # pip or the first run compiles the modules, which is about twice the size of their text
    files = [path for path in wheel_environment.packages.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files if path.suffix != ".pyc")
    text = sum(path.stat().st_size for path in files if path.suffix == ".py")

    assert size + 2 * text < MAX_BYTES


def test_the_source_archive_makes_the_same_wheel_and_holds_no_more_than_the_repository(
    wheel_environment, tmp_path
):
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path), "-t"]
    subprocess.run([*build, "sdist"], cwd=CHECKOUT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    unpack(archive, tmp_path)
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    subprocess.run([*build, "wheel"], cwd=unpacked, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")

    with zipfile.ZipFile(wheel) as made, zipfile.ZipFile(wheel_environment.wheel) as expected:
        contents = [
            {each.filename: each.CRC for each in one.infolist()} for one in (made, expected)
        ]
    assert contents[0] == contents[1]
    names = {path.name for path in unpacked.iterdir()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"} <= names
    assert names.isdisjoint({".venv", ".git", "build"})


def test_a_client_of_rabbitmq_connects_to_the_broker_in_memory(wheel_environment):
    with Child(
        [wheel_environment.folder / "bin" / "dlx", "amqp", "--memory", "--port", "0"],
        cwd=wheel_environment.folder,
    ) as broker:
        url = broker.line().removeprefix("listening on ")
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            declared = connection.channel().queue_declare("work")
        broker.send_signal(signal.SIGTERM)
        broker.communicate()

    assert (declared.method.queue, broker.returncode) == ("work", 0)


def test_the_plugin_of_pytest_gives_a_broker(wheel_environment):
    install(wheel_environment.folder, "pytest", "pika")
    file = wheel_environment.folder / "test_of_a_user.py"
    file.write_text(OF_A_USER, "utf-8")

    finished = wheel_environment.run("pytest", "-q", str(file))

    assert "1 passed" in finished.stdout, finished.stdout


def test_the_client_can_be_imported(wheel_environment):
    finished = wheel_environment.run("python", "-c", IMPORT_ALL)

    assert finished.stderr == ""
    assert finished.stdout.startswith(str(wheel_environment.packages))


@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("check", DEFINITIONS),
        ("route", DEFINITIONS, "orders", "order.eu.created"),
        ("diagram", DEFINITIONS),
        ("simulate", SCENARIO),
        ("config", "show"),
    ],
    ids=" ".join,
)
def test_a_pure_command_works(wheel_environment, command):
    finished = wheel_environment.run("dlx", *command)

    assert (finished.returncode, finished.stderr) == (EXIT_OK, "")
    assert finished.stdout


def test_a_configuration_can_be_shown_and_checked(wheel_environment):
    config = wheel_environment.folder / "dlx.toml"
    config.write_text(wheel_environment.run("dlx", "config", "show").stdout, "utf-8")

    finished = wheel_environment.run("dlx", "config", "check")

    assert finished.returncode == EXIT_OK, finished.stderr


@pytest.mark.parametrize(
    "command",
    [("run",), ("demo", "--dir", "demo"), ("balance",), ("simulate", SCENARIO, "--engine=spark")],
    ids=" ".join,
)
def test_a_command_of_the_job_names_the_extra_in_one_line(wheel_environment, command):
    config = wheel_environment.folder / "dlx.toml"
    config.write_text("", "utf-8")

    finished = wheel_environment.run("dlx", *command)

    assert finished.returncode == EXIT_INVALID
    assert "pip install 'dlx-stream[job]'" in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_a_missing_part_of_a_package_has_the_same_remedy():
    assert "dlx-stream[job]" in str(remedy(ModuleNotFoundError(name="pyspark.sql")))


def test_another_missing_module_is_a_bug():
    assert remedy(ModuleNotFoundError(name="streaming.nosuch")) is None
