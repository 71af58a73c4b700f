"""The wheel in an empty environment: the client and the commands without Spark and tables."""

import zipfile
from pathlib import Path

import pytest

from streaming.cli.exit_codes import EXIT_INVALID, EXIT_OK
from streaming.cli.job_extra import remedy
from tests.fixtures.wheel import wheel_environment

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
