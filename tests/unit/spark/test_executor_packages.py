"""The archives that executors get: they suffice to run tasks."""

import subprocess
import sys
import zipfile
from importlib.util import cache_from_source

import pytest

from streaming.embedded.errors import EmbeddedError
from streaming.spark import executor_packages
from streaming.spark.executor_facts import facts_here
from streaming.spark.executor_packages import (
    DRIVER_PATH,
    DRIVER_PYTHON,
    PYTHON,
    distributions,
    environment_archive,
    python_path,
    write_code,
)

FACTS = """
from streaming.spark.executor_facts import ROOT, facts_here
print(ROOT.name, facts_here().code)
"""


def test_an_unpacked_archive_has_the_code_of_the_driver(tmp_path):
    archive = write_code(tmp_path / "dlx.zip", sys.executable)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "dlx")

    ran = subprocess.run(
        [sys.executable, "-c", FACTS],
        cwd=tmp_path,
        env={"PYTHONPATH": python_path(with_environment=True)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout.split() == ["dlx", facts_here().code]


def start_python(folder, python, **environment):
    """Run the command that Spark takes for a Python, as sent for executors that have `python`."""
    archive = write_code(folder / "dlx.zip", python)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder / "dlx")
        mode = packed.getinfo("python").external_attr >> 16
    assert mode & 0o111
    return subprocess.run(
        ["sh", PYTHON, "-c", "import os, sys; print(sys.executable, os.environ['PYTHONPATH'])"],
        cwd=folder,
        env={"PYTHONPATH": "dlx:environment", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_executors_start_their_python_and_the_driver_its_own(tmp_path):
    there = tmp_path / "their $Python"
    there.symlink_to(sys.executable)
    own = {DRIVER_PYTHON: sys.executable, DRIVER_PATH: "/a folder"}

    executor = start_python(tmp_path, str(there))
    driver = start_python(tmp_path, "/no such python", **own)

    assert executor.stdout.split(" dlx") == [str(there), ":environment\n"]
    assert driver.stdout == f"{sys.executable} /a folder\n"


def test_a_python_that_executors_lack_is_named(tmp_path):
    failed = start_python(tmp_path, "/no such python")

    assert failed.returncode == 127
    assert failed.stderr == "dlx: no executor Python: /no such python\n"


def test_modules_are_sent_with_bytecode_that_needs_no_date(tmp_path):
    with zipfile.ZipFile(write_code(tmp_path / "dlx.zip", "python3")) as archive:
        archive.extractall(tmp_path / "dlx")
    cached = cache_from_source(str(tmp_path / "dlx/streaming/spark/executor_facts.py"))

    ran = subprocess.run(
        [sys.executable, "-v", "-c", "import streaming.spark.executor_facts"],
        env={"PYTHONPATH": str(tmp_path / "dlx")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert f"code object from '{cached}'" in ran.stderr


def test_the_environment_has_whole_packages_and_is_written_once(tmp_path, monkeypatch):
    monkeypatch.setattr(executor_packages, "TASK_PACKAGES", ("jinja2",))

    first = environment_archive(tmp_path)
    written_ns = first.stat().st_mtime_ns
    again = environment_archive(tmp_path)

    names = zipfile.ZipFile(first).namelist()
    assert {"jinja2/__init__.py", "markupsafe/__init__.py"} <= set(names)  # and what it needs
    assert again.stat().st_mtime_ns == written_ns


def test_spark_brings_its_own_packages():
    assert "pyspark" not in distributions(["pyspark", "attrs"])


def test_a_package_that_the_driver_lacks_cannot_be_sent():
    with pytest.raises(EmbeddedError, match="no-such-package"):
        distributions(["no-such-package"])


def test_an_extra_that_the_driver_lacks_is_not_sent(monkeypatch):
    monkeypatch.setattr(executor_packages, "EXTRAS", ("no-such-package",))

    assert set(distributions(["attrs", "no-such-package"])) == {"attrs"}
