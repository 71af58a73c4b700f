"""pyproject.toml declares what the code imports, and the locks pin it."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from streaming.cli.job_extra import CONSOLE_MODULES, JOB_MODULES

CHECKOUT = Path(__file__).resolve().parents[3]
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
RUNTIME_LOCK = (CHECKOUT / "requirements.lock").read_text("utf-8")
DEV_LOCK = (CHECKOUT / "requirements-dev.lock").read_text("utf-8")

OURS = {"streaming", "topology", "docker", "tests", "tools"}

ALSO_AT_RUN_TIME = {"cryptography", "psutil", "pyyaml", "requests"}
"""Development tools that a runtime package installs anyway: jgo needs psutil, moto the others."""

DECLARED_WITHOUT_AN_IMPORT = {
    "delta-spark": "users' Spark sessions and SQL need its Python side",
    "flask": "moto's server needs it, without the rest of moto's extra",
    "flask-cors": "the same",
    "pandas": "pyspark's transformWithState needs it and does not declare it",
    "protobuf": "pyspark's transformWithState needs it and does not declare it",
    "pytz": "DuckDB needs it to return timestamps with a time zone; a test below",
}


def name_of(requirement):
    """The normalised package name of a requirement."""
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements):
    """The packages of a list in pyproject.toml."""
    return {name_of(requirement) for requirement in requirements}


CLIENT = declared(PYPROJECT["project"]["dependencies"])
JOB = declared(PYPROJECT["project"]["optional-dependencies"]["job"])
OTEL = declared(PYPROJECT["project"]["optional-dependencies"]["otel"])
CONSOLE = declared(PYPROJECT["project"]["optional-dependencies"]["console"])
S3_SERVER = declared(PYPROJECT["project"]["optional-dependencies"]["s3-server"])
HDFS = declared(PYPROJECT["project"]["optional-dependencies"]["hdfs"])
AMQP = declared(PYPROJECT["project"]["optional-dependencies"]["amqp"])
RUNTIME = CLIENT | JOB | OTEL | CONSOLE | S3_SERVER | HDFS | AMQP
DEV = declared(PYPROJECT["dependency-groups"]["dev"])


OF_SUITES = set((CHECKOUT / "tests" / "suites" / "support").glob("*.py"))
"""Modules that run in the environment of another project's suite, with that project's packages."""


@cache
def modules_below(folder):
    """The top-level names of all third-party modules that the files below a folder import."""
    names = set()
    for path in set((CHECKOUT / folder).rglob("*.py")) - OF_SUITES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - OURS


def imported_modules(*folders):
    """The same of several folders."""
    return set().union(*map(modules_below, folders))


having_module = cache(packages_distributions)
"""Module -> the installed packages that have it."""


def imported_packages(*folders):
    """The packages of these modules; of a module that several packages share, those declared."""
    packages = having_module()
    found: set[str] = set()
    for module in imported_modules(*folders):
        having = {name_of(package) for package in packages.get(module, ())}
        found |= having & (RUNTIME | DEV) or having or {f"no package has {module}"}
    return found


def pins(lock):
    """Package and marker -> version, as a lock pins them."""
    found = re.findall(r"^([\w.-]+)==(\S+)(?: ; (.*?))? \\$", lock, re.MULTILINE)
    return {(name, marker): version for name, version, marker in found}


def test_every_declared_package_is_imported_or_has_a_reason():
    unused = RUNTIME - imported_packages("streaming", "topology", "docker")

    assert unused == DECLARED_WITHOUT_AN_IMPORT.keys()


def test_every_imported_package_is_declared():
    product = imported_packages("streaming", "topology", "docker")
    for_developers = imported_packages("tests", "tools")

    assert product - RUNTIME == {"pytest"}  # which loads the plugin, and nothing else does
    assert for_developers - RUNTIME - DEV == set()


def test_every_module_that_the_job_adds_has_a_remedy_when_it_is_missing():
    packages = having_module()
    of_the_job = {
        module
        for module in imported_modules("streaming", "topology")
        if JOB & {name_of(package) for package in packages.get(module, ())}
    }

    assert of_the_job
    assert of_the_job - JOB_MODULES == set()


def test_every_module_that_the_console_adds_has_a_remedy_when_it_is_missing():
    assert CONSOLE
    assert set() == CONSOLE - CONSOLE_MODULES


def test_no_package_is_declared_twice():
    assert set() == RUNTIME & DEV
    assert set() == CLIENT & JOB
    assert set() == OTEL & (CLIENT | JOB)


def test_both_locks_pin_what_is_declared_and_agree():
    runtime, dev = pins(RUNTIME_LOCK), pins(DEV_LOCK)
    of_the_install_group = declared(PYPROJECT["dependency-groups"]["install"])

    assert {name for name, _ in runtime} >= RUNTIME | of_the_install_group
    assert {name for name, _ in dev} >= DEV
    assert {key: dev[key] for key in dev.keys() & runtime.keys()} == {
        key: runtime[key] for key in dev.keys() & runtime.keys()
    }


def test_the_runtime_lock_holds_no_development_tool():
    assert {name for name, _ in pins(RUNTIME_LOCK)} & DEV == ALSO_AT_RUN_TIME


def test_the_locks_name_no_host():
    assert "://" not in RUNTIME_LOCK
    assert "://" not in DEV_LOCK


def test_duckdb_still_needs_pytz():
    program = (
        "import sys; sys.modules['pytz'] = None; import duckdb; "
        "duckdb.sql('SELECT now()').fetchall()"
    )

    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert outcome.returncode == 1
    assert "Required module 'pytz'" in outcome.stderr
